"""Threads and processes that make elements ahead of time."""
