"""Which trace a call of a traced function runs: one that it has, or a new one."""
