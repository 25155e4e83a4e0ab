"""Ops that sort, search and bin, and ops on sets."""
