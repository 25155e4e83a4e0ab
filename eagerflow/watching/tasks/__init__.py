"""What runs at task servers, as they tell it."""
