"""What code can reach of Python's world: what it reads and changes, and how it is put back."""
