"""Control flow of Python as that of graphs."""
