"""Device code of eagerflow, found by name in one table, without imports of eagerflow."""
