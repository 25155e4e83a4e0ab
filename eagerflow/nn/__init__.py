"""Neural networks: modules, layers, functions, initial values and metrics.

>>> model = ef.nn.Sequential(ef.nn.Linear(64, 16), ef.nn.functional.relu, ef.nn.Linear(16, 10))
>>> model(ef.zeros((8, 64))).shape
(8, 10)
"""

from eagerflow import errors as _errors
from eagerflow.extending import unknown_name as _unknown_name
from eagerflow.nn import functional as functional
from eagerflow.nn import init as init
from eagerflow.nn import metrics as metrics
from eagerflow.nn.counterparts import NN as _NN
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


def __getattr__(name: str) -> object:
    """Word the error for an unknown name; what is a class elsewhere may be a function here."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _NN:
        raise _errors.UnknownNameError(f"eagerflow.nn has no {name!r}", hint=_NN[name])
    plain = name[:-2] if name.endswith(("1d", "2d", "3d")) else name
    functions = {n.replace("_", ""): n for n in vars(functional) if not n.startswith("_")}
    match = functions.get(plain.lower()) or functions.get(plain.lower().removesuffix("loss"))
    if match is None or plain in globals() or name.lower() in map(str.lower, globals()):
        raise _unknown_name("eagerflow.nn", name, globals())
    raise _errors.UnknownNameError(
        f"eagerflow.nn has no {name!r}",
        hint=f"use the function ef.nn.functional.{match}; Sequential takes functions as they are",
    )
