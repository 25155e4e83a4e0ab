"""Layers: modules with variables, and what stands between them. Functions: `nn/functional`."""
