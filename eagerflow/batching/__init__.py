"""Many rows at once: `vmap`, its interpreter, and branches and loops whose rows differ."""
