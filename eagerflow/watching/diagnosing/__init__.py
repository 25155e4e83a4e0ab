"""Diagnoses of problems with running steps: their causes, in words."""
