"""Ops of neural networks: activations, normalisation, convolution, pooling, resizing."""
