"""Op records and public functions, a module per family."""
