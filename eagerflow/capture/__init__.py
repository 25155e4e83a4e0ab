"""What a function reads and changes of the Python world around it."""
