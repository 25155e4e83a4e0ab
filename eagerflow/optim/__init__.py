"""Optimisers, learning rate schedules and gradient clipping: plain Python over variables.

>>> v = ef.Variable([1.0, -2.0], name="v")
>>> optimiser = ef.optim.Adam([v], lr=0.1)
>>> loss, gradients = ef.value_and_grad(lambda: (v * v).sum(), wrt=[v])()
>>> optimiser.update(gradients)
>>> v
Variable([ 0.9, -1.9], f32[2]@cpu:0, name='v')
"""

from eagerflow.extending import module_getattr as _module_getattr
from eagerflow.optim.adam import Adam as Adam
from eagerflow.optim.adam import AdamW as AdamW
from eagerflow.optim.adaptive import Adadelta as Adadelta
from eagerflow.optim.adaptive import Adagrad as Adagrad
from eagerflow.optim.adaptive import RMSprop as RMSprop
from eagerflow.optim.clipping import clip_by_global_norm as clip_by_global_norm
from eagerflow.optim.clipping import clip_by_norm as clip_by_norm
from eagerflow.optim.clipping import clip_by_value as clip_by_value
from eagerflow.optim.clipping import global_norm as global_norm
from eagerflow.optim.lbfgs import LBFGS as LBFGS
from eagerflow.optim.optimiser import AbstractOptimiser as AbstractOptimiser
from eagerflow.optim.schedules import AbstractSchedule as AbstractSchedule
from eagerflow.optim.schedules import ChainedSchedule as ChainedSchedule
from eagerflow.optim.schedules import CosineSchedule as CosineSchedule
from eagerflow.optim.schedules import ExponentialSchedule as ExponentialSchedule
from eagerflow.optim.schedules import MultiStepSchedule as MultiStepSchedule
from eagerflow.optim.schedules import OneCycleSchedule as OneCycleSchedule
from eagerflow.optim.schedules import PolynomialSchedule as PolynomialSchedule
from eagerflow.optim.schedules import StepSchedule as StepSchedule
from eagerflow.optim.schedules import WarmUp as WarmUp
from eagerflow.optim.sgd import SGD as SGD
from eagerflow.optim.sgd import Momentum as Momentum

__getattr__ = _module_getattr("eagerflow.optim", globals())
