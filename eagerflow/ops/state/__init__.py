"""Ops on state: variables, queues and other resources, lists, and calls of Python."""
