"""Conversion of Python's `if`, `while`, `for` and so on with tensors to control flow of graphs.

On Python values, a converted function behaves as before. Where the test of an `if` or `while` is a
tensor of the trace under way, both branches, or the body, become subgraphs.
"""
