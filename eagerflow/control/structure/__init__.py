"""Nodes that hold subgraphs: their sizes, and what their results depend on."""
