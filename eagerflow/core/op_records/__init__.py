"""Parts of op records besides type rules and kernels: facts, cost rules and batching rules."""
