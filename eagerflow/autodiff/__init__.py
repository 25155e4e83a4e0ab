"""Differentiation: the tape, the transforms built on it, and checks against numeric derivatives."""
