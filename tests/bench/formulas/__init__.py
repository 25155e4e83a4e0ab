"""Formulas of fields other than learning, each written once and run by every library."""
