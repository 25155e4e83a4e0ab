"""Ops on state: variables, queues and their like, lists, and calls of Python."""
