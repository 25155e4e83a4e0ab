"""Neural networks: modules, layers, functions, initial values and metrics.

>>> model = ef.nn.Sequential(ef.nn.Linear(64, 16), ef.nn.functional.relu, ef.nn.Linear(16, 10))
>>> model(ef.zeros((8, 64))).shape
(8, 10)
"""

from eagerflow.extending import module_dir as _module_dir
from eagerflow.extending import module_getattr as _module_getattr
from eagerflow.nn import functional as functional
from eagerflow.nn import init as init
from eagerflow.nn import metrics as metrics
from eagerflow.nn.layers.attention import *
from eagerflow.nn.layers.convolution import *
from eagerflow.nn.layers.dropout import *
from eagerflow.nn.layers.embedding import *
from eagerflow.nn.layers.linear import *
from eagerflow.nn.layers.normalisation import *
from eagerflow.nn.layers.pooling import *
from eagerflow.nn.layers.recurrent import *
from eagerflow.nn.layers.recurrent_cells import *
from eagerflow.nn.layers.transformer import *
from eagerflow.nn.module import Module as Module
from eagerflow.nn.summary import Summary as Summary

__getattr__ = _module_getattr("eagerflow.nn", globals())
__dir__ = _module_dir(globals(), ("functional", "init", "metrics"))
