"""What Python code can reach, and what a part of it did there."""
