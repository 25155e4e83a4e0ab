"""State that outlives ops: variables and generators. No tensors here, only arrays and numbers."""
