"""What the scripts for the shape of the code base count: each file one idea, any checkout."""
