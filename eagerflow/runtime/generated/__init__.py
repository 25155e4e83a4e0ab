"""The generated tier: a graph as one function of straight-line Python."""
