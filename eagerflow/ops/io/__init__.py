"""Ops on bytes and files."""
