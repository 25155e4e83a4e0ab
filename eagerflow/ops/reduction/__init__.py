"""Ops that reduce axes, and scans along an axis."""
