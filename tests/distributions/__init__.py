"""Distributions against SciPy."""
