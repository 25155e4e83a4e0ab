"""Tracing: from a function to a graph, with symbolic tensors, numbers and sizes."""
