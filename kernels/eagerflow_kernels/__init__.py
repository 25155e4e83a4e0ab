"""Device code of eagerflow, found by name in one table; imports nothing of eagerflow."""
