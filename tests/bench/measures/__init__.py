"""Measures of the shape of the code base: one idea per file, for any checkout."""
