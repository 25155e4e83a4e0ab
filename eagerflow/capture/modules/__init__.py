"""Reads of module trees by a traced function: the walk, and the assumptions it leaves."""
