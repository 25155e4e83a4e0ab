"""Ops that pick elements and put elements at indices."""
