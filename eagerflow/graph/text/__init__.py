"""The text form of graphs, and graph files."""
