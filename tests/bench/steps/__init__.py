"""One training step of two networks per library, all from the same weights and batches.

Each module has ``mlp(batch, hidden, ...)`` and ``cnn(...)``, which give a function that does the
next step and gives its loss. A module imports its own library alone.
"""
