"""What a trace relied on outside, and the code that checks it."""
