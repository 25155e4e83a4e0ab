"""Neural networks: modules, layers, functions, initial values and metrics.

>>> model = ef.nn.Sequential(ef.nn.Linear(64, 16), ef.nn.functional.relu, ef.nn.Linear(16, 10))
>>> model(ef.zeros((8, 64))).shape
(8, 10)
"""

from eagerflow import counterparts as _counterparts
from eagerflow import errors as _errors
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

#: what other libraries have and is no class here
_INSTEAD = {
    "BCELoss": "use the function ef.nn.functional.binary_cross_entropy",
    "BCEWithLogitsLoss": "use the function ef.nn.functional.binary_cross_entropy_with_logits",
    "Dense": "use ef.nn.Linear",
    "ModuleDict": "a plain dict of modules will do",
    "ModuleList": "a plain list of modules will do",
    "Parameter": "assign an ef.Variable to an attribute",
    "ParameterDict": "a plain dict of variables will do",
    "ParameterList": "a plain list of variables will do",
    "Upsample": "use the function ef.nn.functional.interpolate",
    "ZeroPad2d": "use the function ef.nn.functional.pad",
    "utils": "ef.optim.clip_by_global_norm(grads, max_norm) clips gradients",
}


def __getattr__(name: str) -> object:
    """Word the error for an unknown name; what is a class elsewhere may be a function here."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _INSTEAD:
        raise _errors.UnknownNameError(f"eagerflow.nn has no {name!r}", hint=_INSTEAD[name])
    plain = name[:-2] if name.endswith(("1d", "2d", "3d")) else name
    functions = {n.replace("_", ""): n for n in vars(functional) if not n.startswith("_")}
    found = functions.get(plain.lower()) or functions.get(plain.lower().removesuffix("loss"))
    if found is None or plain in globals() or name.lower() in map(str.lower, globals()):
        raise _counterparts.unknown_name("eagerflow.nn", name, globals())
    raise _errors.UnknownNameError(
        f"eagerflow.nn has no {name!r}",
        hint=f"use the function ef.nn.functional.{found}; Sequential takes functions as they are",
    )
