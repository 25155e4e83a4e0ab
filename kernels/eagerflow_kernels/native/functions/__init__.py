"""The rules of native ops: each writes an op down in the loop form."""
