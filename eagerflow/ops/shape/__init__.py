"""Ops that change the shape of arrays, and the order or position of elements."""
