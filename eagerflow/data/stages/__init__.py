"""Stages: maps, filters, groups, choices."""
