"""Activity at task servers, as they report it."""
