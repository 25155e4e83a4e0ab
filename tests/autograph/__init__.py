"""Python's control flow, converted to control flow of graphs."""
