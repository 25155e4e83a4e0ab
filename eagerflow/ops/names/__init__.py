"""Names that users find: the namespaces, and what the array API standard and NumPy have besides."""
