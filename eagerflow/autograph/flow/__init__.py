"""Branches and loops in converted code."""
