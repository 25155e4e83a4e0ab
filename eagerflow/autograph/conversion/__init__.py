"""From the source of a function to converted code."""
