"""The core: op records, the one funnel `bind`, interpreters, tensors, pytrees."""
