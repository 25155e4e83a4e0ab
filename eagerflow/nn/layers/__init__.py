"""Layers: modules with variables, and modules between them. The functions: `nn/functional`."""
