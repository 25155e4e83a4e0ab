"""News of the work at tasks, relayed to clients that watch."""
