"""What code can reach of Python's world: what it reads, what it changes, and how that is put back."""
