"""Third-party libraries that accept tensors as they are."""
