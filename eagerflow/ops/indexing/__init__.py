"""Ops that gather elements at indices, and scatter elements to indices."""
