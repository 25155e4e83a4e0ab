"""Conversion of code: the source of a function, its rewriting, and the converted function."""
