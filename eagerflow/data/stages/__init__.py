"""Stages: maps and filters, groups, choices."""
