"""`vmap`, which maps a function over many rows: its interpreter, divergent branches and loops."""
