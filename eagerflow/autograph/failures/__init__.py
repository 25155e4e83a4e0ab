"""Exceptions, handlers, and `finally` and `with` blocks in converted code."""
