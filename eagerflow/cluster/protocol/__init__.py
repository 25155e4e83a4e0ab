"""What processes of a cluster tell each other, as bytes: typed, with limits, without code."""
