"""Placement of the traces of a function, by rules or by automatic placement."""
