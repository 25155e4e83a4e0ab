"""Arrays made from values, patterns, other dtypes and other libraries' memory."""
