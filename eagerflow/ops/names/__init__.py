"""Names that the array API standard and NumPy have beyond the families."""
