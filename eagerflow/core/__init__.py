"""The core: op records, `bind` as the one funnel of ops, interpreters, tensors, pytrees."""
