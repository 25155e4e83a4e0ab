"""What runs at tasks, told to clients that look."""
