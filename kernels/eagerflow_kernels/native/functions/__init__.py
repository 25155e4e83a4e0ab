"""The rules of native ops: each defines an op in the loop form."""
