"""The public names, for type checkers: those of `__init__.py`, without its `__getattr__`."""

from eagerflow import checkpoint as checkpoint
from eagerflow import cluster as cluster
from eagerflow import data as data
from eagerflow import distributions as distributions
from eagerflow import errors as errors
from eagerflow import events as events
from eagerflow import extending as extending
from eagerflow import hardware as hardware
from eagerflow import nn as nn
from eagerflow import optim as optim
from eagerflow import placement as placement
from eagerflow import types as types
from eagerflow.autodiff.check_grads import check_grads as check_grads
from eagerflow.autodiff.custom_jvp import custom_jvp as custom_jvp
from eagerflow.autodiff.custom_vjp import custom_vjp as custom_vjp
from eagerflow.autodiff.custom_vjp import stop_gradient as stop_gradient
from eagerflow.autodiff.grad import grad as grad
from eagerflow.autodiff.grad import value_and_grad as value_and_grad
from eagerflow.autodiff.gradient_tape import GradientTape as GradientTape
from eagerflow.autodiff.jacobians import hessian as hessian
from eagerflow.autodiff.jacobians import jacfwd as jacfwd
from eagerflow.autodiff.jacobians import jacobian as jacobian
from eagerflow.autodiff.jacobians import jacrev as jacrev
from eagerflow.autodiff.remat import remat as remat
from eagerflow.autodiff.vjp_jvp import hvp as hvp
from eagerflow.autodiff.vjp_jvp import jvp as jvp
from eagerflow.autodiff.vjp_jvp import linearize as linearize
from eagerflow.autodiff.vjp_jvp import vjp as vjp
from eagerflow.autograph.calls_in_graphs import call as call
from eagerflow.batching.vmap import vmap as vmap
from eagerflow.control import TensorArray as TensorArray
from eagerflow.control import associative_scan as associative_scan
from eagerflow.control import cond as cond
from eagerflow.control import map as map
from eagerflow.control import scan as scan
from eagerflow.control import switch as switch
from eagerflow.control import while_loop as while_loop
from eagerflow.core.indexed_slices import IndexedSlices as IndexedSlices
from eagerflow.core.tensor import Tensor as Tensor
from eagerflow.dims import Dim as Dim
from eagerflow.errors import traceback as traceback
from eagerflow.function import TracedFunction as TracedFunction
from eagerflow.function import eval_shape as eval_shape
from eagerflow.function import trace as trace
from eagerflow.function.moving_variables import move as move
from eagerflow.graph import Graph as Graph
from eagerflow.graph.name_scopes import name_scope as name_scope
from eagerflow.hardware import colocate as colocate
from eagerflow.hardware import device as device
from eagerflow.hardware import devices as devices
from eagerflow.hardware import memory as memory
from eagerflow.hardware import release as release
from eagerflow.ops.creation.arrays import *
from eagerflow.ops.creation.device_moves import *
from eagerflow.ops.creation.dlpack import *
from eagerflow.ops.creation.dtypes import *
from eagerflow.ops.creation.ranges import *
from eagerflow.ops.elementwise.arithmetic import *
from eagerflow.ops.elementwise.bessel import *
from eagerflow.ops.elementwise.gamma_functions import *
from eagerflow.ops.elementwise.hyperbolic import *
from eagerflow.ops.elementwise.logic import *
from eagerflow.ops.elementwise.powers_and_logarithms import *
from eagerflow.ops.elementwise.probability import *
from eagerflow.ops.elementwise.signs_and_rounding import *
from eagerflow.ops.elementwise.special import *
from eagerflow.ops.elementwise.trigonometric import *
from eagerflow.ops.indexing.getitem import *
from eagerflow.ops.indexing.partition import *
from eagerflow.ops.indexing.segment import *
from eagerflow.ops.indexing.take_and_scatter import *
from eagerflow.ops.indexing.where_and_nonzero import *
from eagerflow.ops.linalg.einsum import *
from eagerflow.ops.linalg.products import *
from eagerflow.ops.names import fft as fft
from eagerflow.ops.names import io as io
from eagerflow.ops.names import linalg as linalg
from eagerflow.ops.names import random as random
from eagerflow.ops.names.array_api import *
from eagerflow.ops.names.numpy_arrangement import *
from eagerflow.ops.names.numpy_names import *
from eagerflow.ops.names.numpy_samples import *
from eagerflow.ops.nn.activations import *
from eagerflow.ops.nn.convolution import *
from eagerflow.ops.nn.pooling import *
from eagerflow.ops.nn.resize import *
from eagerflow.ops.nn.softmax import *
from eagerflow.ops.ordering.binning import *
from eagerflow.ops.ordering.sets import *
from eagerflow.ops.ordering.sort import *
from eagerflow.ops.reduction.closeness import *
from eagerflow.ops.reduction.cumulative import *
from eagerflow.ops.reduction.statistics import *
from eagerflow.ops.reduction.totals import *
from eagerflow.ops.shape.diagonals import *
from eagerflow.ops.shape.flip_roll_repeat import *
from eagerflow.ops.shape.joining import *
from eagerflow.ops.shape.padding import *
from eagerflow.ops.shape.reshape_and_transpose import *
from eagerflow.ops.state.accumulators import *
from eagerflow.ops.state.barriers import *
from eagerflow.ops.state.callbacks import *
from eagerflow.ops.state.mutexes import *
from eagerflow.ops.state.queues import *
from eagerflow.ops.state.snapshots import *
from eagerflow.ops.state.variables import *
from eagerflow.profiling import profile as profile
from eagerflow.runners import spawn as spawn
from eagerflow.runtime.threads.deadline import deadline as deadline
from eagerflow.settings import config as config
from eagerflow.tracing.dependencies import control_dependencies as control_dependencies
from eagerflow.tracing.effect_order import unordered as unordered
from eagerflow.types import DType as _DType
from eagerflow.views import dashboard as dashboard
from eagerflow.views import load_ipython_extension as load_ipython_extension
from eagerflow.views import show as show

__version__: str

bool: _DType
bytes: _DType
int8: _DType
int16: _DType
int32: _DType
int64: _DType
uint8: _DType
uint16: _DType
uint32: _DType
uint64: _DType
float16: _DType
float32: _DType
float64: _DType
bfloat16: _DType
float8_e4m3fn: _DType
float8_e5m2: _DType
complex64: _DType
complex128: _DType
