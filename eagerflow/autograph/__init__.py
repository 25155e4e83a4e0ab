"""Python's `if`, `while`, `for` and their like on tensors: converted into control flow of graphs.

A converted function does on Python values what it did before. Where the test of an `if` or `while`
turns out to be a tensor of the trace under way, both branches, or the body, become subgraphs.
"""
