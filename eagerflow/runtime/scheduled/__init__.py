"""The scheduled tier: a lowered graph run entry by entry, some of them at once."""
