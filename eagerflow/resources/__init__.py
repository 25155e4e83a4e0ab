"""State that outlives ops: variables, generators, queues, in terms of arrays, not tensors."""
