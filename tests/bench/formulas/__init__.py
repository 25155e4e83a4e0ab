"""Formulas of other fields than learning, each written once and run by every library."""
