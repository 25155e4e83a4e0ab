"""Layers: modules with variables, and what stands between them."""

from eagerflow.nn.layers.attention import MultiHeadAttention
from eagerflow.nn.layers.convolution import Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d
from eagerflow.nn.layers.dropout import Dropout
from eagerflow.nn.layers.embedding import Embedding, ShardedEmbedding
from eagerflow.nn.layers.linear import Flatten, Identity, Linear, Sequential
from eagerflow.nn.layers.normalisation import BatchNorm, GroupNorm, LayerNorm, RMSNorm
from eagerflow.nn.layers.pooling import (
    AdaptiveAvgPool2d,
    AvgPool1d,
    AvgPool2d,
    MaxPool1d,
    MaxPool2d,
)

__all__ = [
    "AdaptiveAvgPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "BatchNorm",
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "Dropout",
    "Embedding",
    "Flatten",
    "GroupNorm",
    "Identity",
    "LayerNorm",
    "Linear",
    "MaxPool1d",
    "MaxPool2d",
    "MultiHeadAttention",
    "RMSNorm",
    "Sequential",
    "ShardedEmbedding",
]
