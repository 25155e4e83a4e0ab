"""Libraries that take tensors as they are."""
