"""Making of traces: one run of the function, its inputs, outputs, and state outside."""
