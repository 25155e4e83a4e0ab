"""Neural networks: modules, layers, functions, initial values and metrics.

>>> model = ef.nn.Sequential(ef.nn.Linear(64, 16), ef.nn.functional.relu, ef.nn.Linear(16, 10))
>>> model(ef.zeros((8, 64))).shape
(8, 10)
"""

from eagerflow.extending import module_getattr as _module_getattr
from eagerflow.nn import functional as functional
from eagerflow.nn import init as init
from eagerflow.nn import metrics as metrics
from eagerflow.nn.layers import GRU as GRU
from eagerflow.nn.layers import LSTM as LSTM
from eagerflow.nn.layers import RNN as RNN
from eagerflow.nn.layers import AdaptiveAvgPool2d as AdaptiveAvgPool2d
from eagerflow.nn.layers import AvgPool1d as AvgPool1d
from eagerflow.nn.layers import AvgPool2d as AvgPool2d
from eagerflow.nn.layers import BatchNorm as BatchNorm
from eagerflow.nn.layers import Conv1d as Conv1d
from eagerflow.nn.layers import Conv2d as Conv2d
from eagerflow.nn.layers import ConvTranspose1d as ConvTranspose1d
from eagerflow.nn.layers import ConvTranspose2d as ConvTranspose2d
from eagerflow.nn.layers import Dropout as Dropout
from eagerflow.nn.layers import Embedding as Embedding
from eagerflow.nn.layers import Flatten as Flatten
from eagerflow.nn.layers import GroupNorm as GroupNorm
from eagerflow.nn.layers import GRUCell as GRUCell
from eagerflow.nn.layers import Identity as Identity
from eagerflow.nn.layers import LayerNorm as LayerNorm
from eagerflow.nn.layers import Linear as Linear
from eagerflow.nn.layers import LSTMCell as LSTMCell
from eagerflow.nn.layers import MaxPool1d as MaxPool1d
from eagerflow.nn.layers import MaxPool2d as MaxPool2d
from eagerflow.nn.layers import MultiHeadAttention as MultiHeadAttention
from eagerflow.nn.layers import RMSNorm as RMSNorm
from eagerflow.nn.layers import RNNCell as RNNCell
from eagerflow.nn.layers import Sequential as Sequential
from eagerflow.nn.layers import ShardedEmbedding as ShardedEmbedding
from eagerflow.nn.module import Module as Module
from eagerflow.nn.summary import Summary as Summary

__getattr__ = _module_getattr("eagerflow.nn", globals())
