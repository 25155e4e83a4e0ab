"""Functions that run again and again in the background."""
