"""What op records state besides their rules: facts, costs, and how they are batched."""
