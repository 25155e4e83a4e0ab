"""Stages that transform elements: map, filter, batch, shuffle, take and others."""
