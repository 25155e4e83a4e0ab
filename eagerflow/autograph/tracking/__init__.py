"""Tracking of Python state in traced blocks: changes of state, and unbound names."""
