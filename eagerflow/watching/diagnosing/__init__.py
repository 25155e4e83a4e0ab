"""What is wrong with what runs: its cause, in words."""
