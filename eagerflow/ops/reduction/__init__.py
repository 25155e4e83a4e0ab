"""Ops that reduce axes, and those that run along one."""
