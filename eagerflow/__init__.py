"""eagerflow: arrays, gradients and dataflow graphs for people who live in notebooks.

>>> import eagerflow as ef
>>> x = ef.tensor([1.0, 2.0, 3.0])
>>> (x * x).sum()
Tensor(14., f32[]@cpu:0)
"""

from importlib import import_module as _import_module
from threading import RLock as _RLock
from types import FunctionType as _FunctionType
from types import ModuleType as _ModuleType

from eagerflow import einops_backend as _einops_backend
from eagerflow import error_messages as _error_messages
from eagerflow import errors as errors
from eagerflow import events as events
from eagerflow import hardware as hardware
from eagerflow import source as _source
from eagerflow import types as types
from eagerflow import unknown_names as _unknown_names
from eagerflow import wrong_calls as _wrong_calls
from eagerflow.core import execute as _execute
from eagerflow.core import monitors as _monitors
from eagerflow.core import moves_to_scopes as _moves
from eagerflow.core import op as _op
from eagerflow.core.indexed_slices import IndexedSlices as IndexedSlices
from eagerflow.core.tensor import Tensor as Tensor
from eagerflow.dims import Dim as Dim
from eagerflow.errors import traceback as traceback
from eagerflow.hardware import blas_threads as _blas_threads
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
from eagerflow.ops.state.variables import *
from eagerflow.settings import config as config
from eagerflow.types import BYTES as _BYTES
from eagerflow.types import DTYPES as _DTYPES
from eagerflow_kernels import cpu as _cpu
from eagerflow_kernels import portable as _portable

__version__ = "0.1.0"

_op.functions.update(
    {n: f for n, f in globals().items() if type(f) is _FunctionType and n[0] != "_"}
)
globals().update(_DTYPES, bytes=_BYTES)


#: names that programs of plain ops do not need, by module: gradients, graphs, control flow
_LATER = {
    "vmap": "batching.vmap",
    "check_grads": "autodiff.check_grads",
    "custom_jvp": "autodiff.custom_jvp",
    "custom_vjp": "autodiff.custom_vjp",
    "stop_gradient": "autodiff.custom_vjp",
    "GradientTape": "autodiff.gradient_tape",
    "hessian": "autodiff.jacobians",
    "hvp": "autodiff.vjp_jvp",
    "jacfwd": "autodiff.jacobians",
    "jacobian": "autodiff.jacobians",
    "jacrev": "autodiff.jacobians",
    "linearize": "autodiff.vjp_jvp",
    "remat": "autodiff.remat",
    "grad": "autodiff.grad",
    "jvp": "autodiff.vjp_jvp",
    "value_and_grad": "autodiff.grad",
    "vjp": "autodiff.vjp_jvp",
    "call": "autograph.calls_in_graphs",
    "TensorArray": "control",
    "associative_scan": "control",
    "cond": "control",
    "map": "control",
    "scan": "control",
    "switch": "control",
    "while_loop": "control",
    "TracedFunction": "function",
    "eval_shape": "function",
    "spawn": "runners",
    "trace": "function",
    "move": "function.moving_variables",
    "Graph": "graph",
    "control_dependencies": "tracing.dependencies",
    "unordered": "tracing.effect_order",
    "name_scope": "graph.name_scopes",
    "profile": "profiling",
    "deadline": "runtime.threads.deadline",
}
_PACKAGES = {"placement", *[home.partition(".")[0] for home in _LATER.values()]}
#: families of ops that few programs need, loaded one by one
_FAMILIES = {
    "Accumulator": "ops.state.accumulators",
    "Barrier": "ops.state.barriers",
    "Mutex": "ops.state.mutexes",
    "Queue": "ops.state.queues",
    "print": "ops.state.callbacks",
    "py_call": "ops.state.callbacks",
    "snapshot": "ops.state.snapshots",
}
#: modules of more ops, loaded one by one
_NAMESPACES = {"fft": "ops.names.fft", "io": "ops.names.io", "linalg": "ops.names.linalg"}
#: views, which draw with modules of Python that are not needed elsewhere
_VIEWS = ("dashboard", "load_ipython_extension", "show")
_LIBRARIES = ("checkpoint", "cluster", "data", "distributions", "extending", "nn", "optim")
_loading = _RLock()


def _load_later() -> None:
    """Load all of `_LATER` together, as its modules fill slots of each other.

    Graphs may have any op, so that all families come with them. One thread does it at a time: two
    threads that import parts of one package at once may wait for each other, which Python reports
    as an error.
    """
    with _loading:
        _load_families()
        for name, home in _LATER.items():
            globals()[name] = getattr(_import_module(f"eagerflow.{home}"), name)


def _load_families() -> None:
    with _loading:
        for name in (*_FAMILIES, *_NAMESPACES):
            _load_family(name)
        _import_module("eagerflow.ops.state.lists")  # of graphs alone: no public name brings it


def _load_family(name: str) -> None:
    with _loading:
        if name in _NAMESPACES:
            globals()[name] = _import_module(f"eagerflow.{_NAMESPACES[name]}")
        else:
            globals()[name] = getattr(_import_module(f"eagerflow.{_FAMILIES[name]}"), name)


_unknown_names.find_hints_by(lambda *asked: _import_module("eagerflow.hints").find(*asked))
_wrong_calls.find_remedies_by(
    lambda error: _import_module("eagerflow.hints.remedies").remedy(error),
    lambda error: _import_module("eagerflow.hints.lookahead.rest_of_source").rest_of_source(
        error, _source.users_frame(error)
    ),
    lambda *asked: _import_module("eagerflow.hints.unpacking").check(*asked),
)
_wrong_calls.add_remedies_where_shown(_error_messages.frames_hidden)
_einops_backend.register()
_op.load_families_by(_load_families)


def __getattr__(name: str) -> object:
    """Load a name on demand, or raise an error that suggests the nearest known name."""
    if name in _LATER or name in _PACKAGES:
        _load_later()
        return globals()[name]
    if name in _FAMILIES or name in _NAMESPACES:
        _load_family(name)
        return globals()[name]
    if name in _VIEWS:
        _load_later()
        for view in _VIEWS:
            globals()[view] = getattr(_import_module("eagerflow.views"), view)
        return globals()[name]
    if name in _LIBRARIES:
        return _import_module(f"eagerflow.{name}")
    if name.startswith("__"):
        raise AttributeError(name)
    known = globals() | _LATER | _FAMILIES | dict.fromkeys(_VIEWS)
    raise _unknown_names.unknown_name("eagerflow", name, known)


#: modules that users call; the others define the names that users call
_OPEN = {"errors", "events", "hardware", "random", "types", *_NAMESPACES, *_LIBRARIES}
#: ops that `ef.nn` uses, and the hook that IPython calls
_FOR_LIBRARIES = {
    *("adaptive_avg_pool", "adaptive_max_pool", "avg_pool", "check_labels", "convolution"),
    *("convolution_transpose", "convolution_weights", "linear_recurrence", "max_pool", "resize"),
    *("load_ipython_extension", "softmax_cross_entropy", "standardize", "sum_to"),
}


def _listed(name: str) -> bool:
    """Whether completion shows a name, as one that users call."""
    if name.startswith("_"):
        return name.startswith("__array") or name == "__version__"
    if name in _FOR_LIBRARIES:
        return False
    return name in _OPEN or type(globals().get(name)) is not _ModuleType


def __dir__() -> list[str]:
    names = {*globals(), *_LATER, *_FAMILIES, *_VIEWS, *_OPEN}
    return sorted(filter(_listed, names))


#: for star imports
__all__ = [name for name in __dir__() if not name.startswith("_")]
