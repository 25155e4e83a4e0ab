"""Exceptions, handlers and ends of blocks in converted code."""
