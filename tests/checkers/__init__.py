"""Typed programs of users, checked by mypy and pyright."""
