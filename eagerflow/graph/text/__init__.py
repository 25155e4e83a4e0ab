"""The text form of graphs, and files of it."""
