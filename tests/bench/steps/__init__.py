"""One training step of two networks per library, all from the same weights and batches.

Each module has ``mlp(batch, hidden, ...)`` and ``cnn(...)``, which return a function that does the
next step and returns its loss. A module imports its own library alone.
"""
