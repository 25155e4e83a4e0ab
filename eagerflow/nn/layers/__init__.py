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
from eagerflow.nn.layers.recurrent import GRU, LSTM, RNN
from eagerflow.nn.layers.recurrent_cells import GRUCell, LSTMCell, RNNCell

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
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
    "GRUCell",
    "GroupNorm",
    "Identity",
    "LSTMCell",
    "LayerNorm",
    "Linear",
    "MaxPool1d",
    "MaxPool2d",
    "MultiHeadAttention",
    "RMSNorm",
    "RNNCell",
    "Sequential",
    "ShardedEmbedding",
]
