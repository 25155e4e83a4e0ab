"""Ops that give elements another shape, order or position."""
