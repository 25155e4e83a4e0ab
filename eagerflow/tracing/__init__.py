"""Tracing: makes the graph of a function, with symbolic tensors, numbers and sizes."""
