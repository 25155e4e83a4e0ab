"""State that outlives ops: variables, generators, queues. Arrays and numbers, no tensors."""
