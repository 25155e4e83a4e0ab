"""Public namespaces, and further names of the array API standard and of NumPy."""
