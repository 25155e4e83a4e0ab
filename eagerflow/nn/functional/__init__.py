"""Functions of neural networks: PyTorch's argument names and defaults, with `axis` for ``dim``.

Usually imported as ``F``; layers and losses are made of these.

>>> from eagerflow.nn import functional as F
>>> F.relu(ef.tensor([-1.0, 2.0]))
Tensor([0., 2.], f32[2]@cpu:0)
"""

from eagerflow.extending import module_dir as _module_dir
from eagerflow.extending import module_getattr as _module_getattr
from eagerflow.nn.functional.activations import *
from eagerflow.nn.functional.attention import *
from eagerflow.nn.functional.convolution import *
from eagerflow.nn.functional.cross_entropy import *
from eagerflow.nn.functional.dropout import *
from eagerflow.nn.functional.embedding import *
from eagerflow.nn.functional.losses import *
from eagerflow.nn.functional.normalisation import *
from eagerflow.nn.functional.pooling import *
from eagerflow.nn.functional.resize import *

__getattr__ = _module_getattr("eagerflow.nn.functional", globals())
__dir__ = _module_dir(globals())
