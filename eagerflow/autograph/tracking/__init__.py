"""State that Python code can reach, and the changes that a part of the code made to it."""
