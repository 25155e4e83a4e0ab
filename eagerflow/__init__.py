"""eagerflow: arrays, gradients and dataflow graphs for people who live in notebooks.

>>> import eagerflow as ef
>>> x = ef.tensor([1.0, 2.0, 3.0])
>>> (x * x).sum()
Tensor(14., f32[]@cpu:0)
"""

from importlib import import_module as _import_module
from threading import RLock as _RLock

from eagerflow import counterparts as _counterparts
from eagerflow import errors as errors
from eagerflow import events as events
from eagerflow import hardware as hardware
from eagerflow import types as types
from eagerflow.core import blas_threads as _blas_threads
from eagerflow.core import execute as _execute
from eagerflow.core import monitors as _monitors
from eagerflow.core.slices import IndexedSlices as IndexedSlices
from eagerflow.core.tensor import Tensor as Tensor
from eagerflow.dims import Dim as Dim
from eagerflow.errors import traceback as traceback
from eagerflow.hardware import device as device
from eagerflow.hardware import devices as devices
from eagerflow.hardware import memory as memory
from eagerflow.hardware import release as release
from eagerflow.ops.creation.arrays import *
from eagerflow.ops.creation.dlpack import *
from eagerflow.ops.creation.dtypes import *
from eagerflow.ops.creation.ranges import *
from eagerflow.ops.elementwise.arithmetic import *
from eagerflow.ops.elementwise.exponential import *
from eagerflow.ops.elementwise.logic import *
from eagerflow.ops.elementwise.numeric import *
from eagerflow.ops.elementwise.special import *
from eagerflow.ops.elementwise.trigonometric import *
from eagerflow.ops.indexing.gather import *
from eagerflow.ops.indexing.getitem import *
from eagerflow.ops.indexing.partition import *
from eagerflow.ops.indexing.segment import *
from eagerflow.ops.linalg.einsum import *
from eagerflow.ops.linalg.products import *
from eagerflow.ops.names import fft as fft
from eagerflow.ops.names import io as io
from eagerflow.ops.names import linalg as linalg
from eagerflow.ops.names import random as random
from eagerflow.ops.names.array_api import *
from eagerflow.ops.names.numpy_names import *
from eagerflow.ops.nn.activations import *
from eagerflow.ops.nn.convolution import *
from eagerflow.ops.nn.pooling import *
from eagerflow.ops.nn.resize import *
from eagerflow.ops.nn.softmax import *
from eagerflow.ops.ordering.binning import *
from eagerflow.ops.ordering.sets import *
from eagerflow.ops.ordering.sort import *
from eagerflow.ops.reduction.closeness import *
from eagerflow.ops.reduction.running import *
from eagerflow.ops.reduction.statistics import *
from eagerflow.ops.reduction.totals import *
from eagerflow.ops.shape.axes import *
from eagerflow.ops.shape.diagonals import *
from eagerflow.ops.shape.joining import *
from eagerflow.ops.shape.movement import *
from eagerflow.ops.shape.padding import *
from eagerflow.ops.state.accumulators import *
from eagerflow.ops.state.callbacks import *
from eagerflow.ops.state.mutexes import *
from eagerflow.ops.state.queues import *
from eagerflow.ops.state.snapshots import *
from eagerflow.ops.state.variables import *
from eagerflow.settings import config as config
from eagerflow.types import BYTES as _BYTES
from eagerflow.types import DTYPES as _DTYPES
from eagerflow_kernels import cpu as _cpu
from eagerflow_kernels import portable as _portable

__version__ = "0.1.0"

bool = _DTYPES["bool"]
bytes = _BYTES
int8 = _DTYPES["int8"]
int16 = _DTYPES["int16"]
int32 = _DTYPES["int32"]
int64 = _DTYPES["int64"]
uint8 = _DTYPES["uint8"]
uint16 = _DTYPES["uint16"]
uint32 = _DTYPES["uint32"]
uint64 = _DTYPES["uint64"]
float16 = _DTYPES["float16"]
float32 = _DTYPES["float32"]
float64 = _DTYPES["float64"]
bfloat16 = _DTYPES["bfloat16"]
float8_e4m3fn = _DTYPES["float8_e4m3fn"]
float8_e5m2 = _DTYPES["float8_e5m2"]
complex64 = _DTYPES["complex64"]
complex128 = _DTYPES["complex128"]


#: what programs of plain ops do without, and where it is: gradients, graphs, control flow
_LATER = {
    "check_grads": "autodiff.check",
    "custom_vjp": "autodiff.custom",
    "stop_gradient": "autodiff.custom",
    "GradientTape": "autodiff.gradient_tape",
    "hessian": "autodiff.jacobians",
    "jacobian": "autodiff.jacobians",
    "remat": "autodiff.remat",
    "grad": "autodiff.transforms",
    "jvp": "autodiff.transforms",
    "value_and_grad": "autodiff.transforms",
    "vjp": "autodiff.transforms",
    "call": "autograph.calls_in_graphs",
    "TensorArray": "control",
    "cond": "control",
    "map": "control",
    "scan": "control",
    "switch": "control",
    "while_loop": "control",
    "TracedFunction": "function",
    "spawn": "runners",
    "trace": "function",
    "Graph": "graph",
    "control_dependencies": "tracing.dependencies",
    "unordered": "tracing.effect_order",
    "name_scope": "graph.scopes",
    "profile": "profiling",
    "deadline": "runtime.threads.deadline",
}
_PACKAGES = {home.partition(".")[0] for home in _LATER.values()}
#: written with the names above, or what that takes; loaded one by one
_LIBRARIES = ("checkpoint", "data", "extending", "nn", "optim")
_loading = _RLock()


def _load_later() -> None:
    """Load all of `_LATER`: modules there fill slots of others, and half of them is of no use.

    One thread does it at a time. Two that import parts of one package at once may each wait for
    the other, of which Python makes an error.
    """
    with _loading:
        for name, home in _LATER.items():
            globals()[name] = getattr(_import_module(f"eagerflow.{home}"), name)


def __getattr__(name: str) -> object:
    """Load what is asked for, or word the error for an unknown name, with the nearest there is."""
    if name in _LATER or name in _PACKAGES:
        _load_later()
        return globals()[name]
    if name in _LIBRARIES:
        return _import_module(f"eagerflow.{name}")
    if name.startswith("__"):
        raise AttributeError(name)
    known = globals() | _LATER
    raise _counterparts.unknown_name("eagerflow", name, known, _counterparts.FUNCTIONS)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_LIBRARIES})


#: for star imports
__all__ = [name for name in (*globals(), *_LATER) if not name.startswith("_")]
