"""The scheduled tier: a lowered graph run by scheduled nodes, some at once."""
