"""Strands: partitions that run in order, as generators that hand values to each other."""
