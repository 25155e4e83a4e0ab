"""Derivatives of branches, loops and calls."""
