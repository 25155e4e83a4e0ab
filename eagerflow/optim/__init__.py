"""Optimisers, learning rate schedules and gradient clipping: plain Python over variables.

>>> v = ef.Variable([1.0, -2.0], name="v")
>>> optimiser = ef.optim.Adam([v], lr=0.1)
>>> loss, gradients = ef.value_and_grad(lambda: (v * v).sum(), wrt=[v])()
>>> optimiser.update(gradients)
>>> v
Variable([ 0.9, -1.9], f32[2]@cpu:0, name='v')
"""

from eagerflow.extending import module_dir as _module_dir
from eagerflow.extending import module_getattr as _module_getattr
from eagerflow.optim.accumulation import *
from eagerflow.optim.adam import *
from eagerflow.optim.adaptive import *
from eagerflow.optim.averages import *
from eagerflow.optim.clipping import *
from eagerflow.optim.lbfgs import *
from eagerflow.optim.optimiser import AbstractOptimiser as AbstractOptimiser
from eagerflow.optim.schedules import *
from eagerflow.optim.sgd import *

__getattr__ = _module_getattr("eagerflow.optim", globals())
__dir__ = _module_dir(globals())
