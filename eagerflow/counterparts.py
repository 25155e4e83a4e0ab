"""Names of NumPy, PyTorch, TensorFlow and JAX, and what is written here in their place.

Only errors speak of them: who is used to another framework learns the way of this one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from opcode import opmap
from types import FrameType, ModuleType
from typing import Final, TypeVar, final

from eagerflow.errors import UnknownNameError

__all__ = [
    "ACCUMULATORS",
    "ARRAYS",
    "DATA",
    "DATASETS",
    "FUNCTIONS",
    "MODULES",
    "OPTIM",
    "OPTIMISERS",
    "QUEUES",
    "RANDOM",
    "alike",
    "hint_at",
    "nearest",
    "never_called",
    "unknown_name",
]

_S = TypeVar("_S")
_R = TypeVar("_R")

_LOSS: Final = "loss, grads = ef.value_and_grad(loss_fn, wrt=net.trainable)(x, y)"
_PLACE: Final = "make it where it shall be: with ef.device('gpu:0'): ..."
_LOOP: Final = "the loop is written out: " + _LOSS + "; optimiser.update(grads)"
_SAVE: Final = "ef.checkpoint.save(path, net) and ef.checkpoint.load(path, like=net)"
_FREEZE: Final = "net.freeze() and net.unfreeze(); net.trainable has what is not frozen"
_VALUES: Final = "gradients are values that ef.value_and_grad gives, none is kept that could add up"
_SCOPED: Final = (
    "nothing is recorded outside of ef.grad, ef.value_and_grad and ef.GradientTape; "
    "ef.stop_gradient(x) cuts off within"
)

_QUEUE: Final = 'ef.Queue(capacity, like, kind="{}")'

#: names whose counterpart is spelled in another way
_NAMES: Final = {
    "DataLoader": "Dataset",
    "FIFOQueue": "Queue",
    "Optimizer": "AbstractOptimiser",
    "arctanh": "atanh",
    "bernoulli": "random.bernoulli",
    "cat": "concat",
    "clip_by_value": "clip",
    "clone": "copy",
    "constant": "tensor",
    "convert_to_tensor": "asarray",
    "custom_gradient": "custom_vjp",
    "default_rng": "random.Generator",
    "det": "linalg.det",
    "detach": "stop_gradient",
    "double": "float64",
    "float": "float32",
    "from_numpy": "asarray",
    "gather": "take",
    "half": "float16",
    "identity": "eye",
    "index_select": "take",
    "int": "int32",
    "inv": "linalg.inv",
    "inverse": "linalg.inv",
    "jacfwd": "jacobian",
    "jacrev": "jacobian",
    "long": "int64",
    "lstsq": "linalg.lstsq",
    "multinomial": "random.categorical",
    "norm": "linalg.norm",
    "normal": "random.normal",
    "numpy_function": "py_call",
    "pure_callback": "py_call",
    "py_function": "py_call",
    "qr": "linalg.qr",
    "rand": "random.uniform",
    "randint": "random.randint",
    "randn": "random.normal",
    "random": "random.uniform",
    "random_sample": "random.uniform",
    "randperm": "random.permutation",
    "recompute_grad": "remat",
    "reduce_max": "max",
    "reduce_mean": "mean",
    "reduce_min": "min",
    "reduce_sum": "sum",
    "repeat_interleave": "repeat",
    "shuffle": "random.permutation",
    "solve": "linalg.solve",
    "standard_normal": "random.normal",
    "svd": "linalg.svd",
    "switch_case": "switch",
    "trace": "linalg.trace",
    "transpose": "permute_dims",
    "trapz": "trapezoid",
    "trunc_normal_": "truncated_normal",
    "unique": "unique_values",
    "unsqueeze": "expand_dims",
    "upsample": "interpolate",
    "vectorized_map": "map",
}

#: of the package itself: what is said of names that have no counterpart
FUNCTIONS: Final = {
    "PaddingFIFOQueue": _QUEUE.format("padding"),
    "PriorityQueue": _QUEUE.format("priority"),
    "RandomShuffleQueue": _QUEUE.format("shuffle"),
    "Session": "graph = f.graph(...) of a traced function f; graph.run(fetches, feeds)",
    "append": "ef.concat([x, y])",
    "backward": "ef.grad(f) and " + _LOSS,
    "bmm": "x @ y",
    "boolean_mask": "x[mask]",
    "cast": "x.astype(dtype)",
    "chunk": "ef.array_split(x, count, axis)",
    "device_put": "x.to(device)",
    "enable_grad": _SCOPED,
    "fori_loop": "in a traced function, for i in range(n) is a loop of the graph if n is a tensor",
    "gather_nd": "x[i, j]",
    "inference_mode": _SCOPED,
    "is_tensor": "isinstance(x, ef.Tensor)",
    "jit": "@ef.trace makes a graph of a function",
    "load": "ef.checkpoint.load(path)",
    "manual_seed": "ef.random.seed(number)",
    "masked_fill": "ef.where(mask, value, x)",
    "mm": "x @ y",
    "ndim": "x.ndim",
    "no_grad": _SCOPED,
    "numel": "x.size",
    "placeholder": "the arguments of a traced function are the inputs of its graph",
    "save": "ef.checkpoint.save(path, tree)",
    "set_grad_enabled": _SCOPED,
    "set_num_threads": "ef.config(threads=count)",
    "shape": "x.shape",
    "size": "x.size",
    "view": "ef.reshape(x, shape)",
    "vmap": "ops take whole batches; ef.map(f, xs) is a loop over the rows of xs",
}

#: of ``ef.random``
RANDOM: Final = {
    "choice": "x[ef.random.randint((count,), 0, len(x))]; without repetitions, "
    "ef.random.permutation(x)[:count]; with weights, x[ef.random.categorical((count,), logits)]",
}

_SCHEDULE: Final = "a schedule is the learning rate: lr=ef.optim.{}"

#: of ``ef.optim``
OPTIM: Final = {
    "ChainedScheduler": _SCHEDULE.format("ChainedSchedule(schedules, milestones)"),
    "CosineAnnealingLR": _SCHEDULE.format("CosineSchedule(0.1, steps=100)"),
    "CosineDecay": _SCHEDULE.format("CosineSchedule(0.1, steps=100)"),
    "ExponentialLR": _SCHEDULE.format("ExponentialSchedule(0.1, gamma=0.99)"),
    "LambdaLR": "the learning rate may be a function of the number of updates: lr=lambda n: ...",
    "MultiStepLR": _SCHEDULE.format("MultiStepSchedule(0.1, milestones=(30, 80))"),
    "OneCycleLR": _SCHEDULE.format("OneCycleSchedule(0.1, total_steps=100)"),
    "ReduceLROnPlateau": "optimiser.lr may be set at any time: optimiser.lr = 0.5 * optimiser.lr",
    "SequentialLR": _SCHEDULE.format("ChainedSchedule(schedules, milestones)"),
    "SparseAdam": "ef.optim.Adam takes sparse gradients as they are",
    "StepLR": _SCHEDULE.format("StepSchedule(0.1, step_size=30)"),
    "clip_grad_norm_": "grads, norm = ef.optim.clip_by_global_norm(grads, max_norm)",
    "clip_grad_value_": "grads = ef.optim.clip_by_value(grads, limit)",
    "lr_scheduler": _SCHEDULE.format("CosineSchedule(0.1, steps=100)"),
}

#: of modules
MODULES: Final = {
    "add_module": "set it as an attribute: self.name = module",
    "apply": "for path, module in net.modules(): ...",
    "children": "net.modules() gives the path and the module of all below",
    "compile": _LOOP,
    "cpu": _PLACE,
    "cuda": _PLACE,
    "evaluate": "call the net in its mode for use: net.eval()(x)",
    "fit": _LOOP,
    "get_weights": "net.state gives its variables by path",
    "load_state_dict": "net.load_state(state)",
    "load_weights": _SAVE,
    "named_buffers": "net.buffers is a dict: net.buffers.items()",
    "named_children": "net.modules() gives the path and the module of all below",
    "named_modules": "net.modules()",
    "named_parameters": "net.parameters is a dict: net.parameters.items()",
    "predict": "call the net in its mode for use: net.eval()(x)",
    "register_buffer": "set it as an attribute: self.name = ef.Variable(value, trainable=False)",
    "register_parameter": "set it as an attribute: self.name = ef.Variable(value)",
    "requires_grad_": _FREEZE,
    "save": _SAVE,
    "save_weights": _SAVE,
    "set_weights": "net.load_state(state)",
    "state_dict": "net.state is a dict of its variables",
    "to": _PLACE,
    "trainable_variables": "net.trainable",
    "trainable_weights": "net.trainable",
    "variables": "net.state",
    "weights": "net.state",
    "zero_grad": _VALUES,
}

#: of optimisers
OPTIMISERS: Final = {
    "apply_gradients": "optimiser.update(grads)",
    "learning_rate": "optimiser.lr",
    "load_state_dict": "optimiser.load_state(state)",
    "minimize": _LOSS + "; optimiser.update(grads)",
    "param_groups": "lr_scale= and weight_decay= may be functions of a variable's path",
    "state_dict": "optimiser.state is a dict of its variables",
    "step": _LOSS + "; optimiser.update(grads)",
    "variables": "optimiser.state",
    "zero_grad": _VALUES,
}

_ASKED: Final = (
    "ef.grad(f) differentiates by the arguments of f, or by wrt=; net.freeze() leaves variables "
    "out of net.trainable"
)
#: functions that are methods elsewhere
_ALSO_METHODS: Final = (
    "abs", "ceil", "cos", "cosh", "diag", "diagonal", "diff", "erf", "exp", "expm1", "flip",
    "floor", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "logsumexp", "median",
    "rsqrt", "sigmoid", "sign", "sin", "sinh", "softmax", "sqrt", "square", "tan", "tanh", "trace",
    "tril", "triu", "trunc",
)  # fmt: skip

_OPERATORS: Final = {
    "add": "+", "bmm": "@", "div": "/", "eq": "==", "matmul": "@", "mm": "@", "mul": "*",
    "pow": "**", "sub": "-",
}  # fmt: skip
_CASTS: Final = {
    "bfloat16": "bfloat16", "bool": "bool", "double": "float64", "float": "float32",
    "half": "float16", "int": "int32", "long": "int64",
}  # fmt: skip

#: of tensors and variables
ARRAYS: Final = {
    **{name: f"ef.{name}(x)" for name in _ALSO_METHODS},
    **{name: f"x {sign} y" for name, sign in _OPERATORS.items()},
    **{name: f"x.astype(ef.{dtype})" for name, dtype in _CASTS.items()},
    "add_": "x += y",
    "backward": "ef.grad(f) and " + _LOSS,
    "chunk": "ef.array_split(x, count, axis)",
    "clamp": "x.clip(low, high)",
    "clone": "x.copy()",
    "contiguous": "leave it out: how elements lie in memory is of no account",
    "copy_": "x[...] = y; of a variable, x.assign(y)",
    "cpu": "x.to('cpu')",
    "cuda": "x.to('gpu:0')",
    "data": "x.value of a variable; a tensor is a value itself",
    "detach": "ef.stop_gradient(x)",
    "dim": "x.ndim",
    "expand": "ef.broadcast_to(x, shape)",
    "expand_as": "ef.broadcast_to(x, y.shape)",
    "fill_": "x[...] = value; of a variable, x.assign(ef.full(x.shape, value))",
    "gather": "ef.take_along_axis(x, indices, axis)",
    "grad": "ef.grad(f)(x) gives the gradient; none is kept in a tensor",
    "index_select": "ef.take(x, indices, axis)",
    "log_softmax": "ef.nn.functional.log_softmax(x)",
    "masked_fill": "ef.where(mask, value, x)",
    "maximum": "ef.maximum(x, y)",
    "minimum": "ef.minimum(x, y)",
    "mul_": "x *= y",
    "norm": "ef.linalg.norm(x)",
    "numel": "x.size",
    "outer": "ef.outer(x, y)",
    "permute": "ef.permute_dims(x, axes)",
    "relu": "ef.nn.functional.relu(x)",
    "repeat_interleave": "ef.repeat(x, count)",
    "requires_grad": _ASKED,
    "requires_grad_": _ASKED,
    "roll": "ef.roll(x, shift)",
    "split": "ef.split(x, sections, axis): in so many parts, or before these indices",
    "sub_": "x -= y",
    "t": "x.T",
    "tile": "ef.tile(x, repetitions)",
    "topk": "ef.topk(x, count)",
    "type_as": "x.astype(y.dtype)",
    "unbind": "ef.unstack(x)",
    "unique": "ef.unique_values(x)",
    "unsqueeze": "ef.expand_dims(x, axis)",
    "view": "x.reshape(shape)",
    "view_as": "x.reshape(y.shape)",
    "where": "ef.where(condition, x, y)",
    "zero_": "x[...] = 0; of a variable, x.assign(ef.zeros(x.shape))",
}

_PARTS: Final = "x[order[:n]] and x[order[n:]], with order = ef.random.permutation(len(x))"
#: of ``ef.data``
DATA: Final = {
    "DataLoader": "ef.data.Dataset.from_tensors((x, y)).shuffle(seed=0).batch(50)",
    "IterableDataset": "ef.data.Dataset.from_iterable(function)",
    "TensorDataset": "ef.data.Dataset.from_tensors((x, y)): its elements are the rows",
    "random_split": _PARTS,
}

_MADE: Final = "Dataset.from_iterable({})"

#: of datasets
DATASETS: Final = {
    "apply": "call the function with the dataset, which is a value: data = f(data)",
    "as_numpy_iterator": "for x in data: x.numpy()",
    "cache": "read it into memory once: " + _MADE.format("list(data)"),
    "cardinality": "len(data)",
    "concatenate": _MADE.format("lambda: itertools.chain(first, second)"),
    "enumerate": "for i, x in enumerate(data): ...",
    "flat_map": "a generator function that reads the dataset: " + _MADE.format("rows"),
    "from_generator": _MADE.format("function") + " calls the function for each epoch",
    "from_list": _MADE.format("elements"),
    "from_tensor_slices": "Dataset.from_tensors(tensors): its elements are the rows",
    "get_single_element": "next(iter(data))",
    "list_files": _MADE.format("sorted(glob.glob(pattern))"),
    "random_split": _PARTS,
    "range": "Dataset.from_tensors(ef.arange(start, stop))",
    "reduce": "a loop: for x in data: ...",
    "split": _PARTS,
    "unbatch": "a generator function that reads the dataset: " + _MADE.format("rows"),
}

#: of queues
QUEUES: Final = {
    "append": "queue.enqueue(x)",
    "empty": "queue.size() == 0",
    "full": "queue.size() == queue.capacity",
    "get": "queue.dequeue()",
    "get_nowait": "queue.dequeue(timeout=0)",
    "is_closed": "queue.closed",
    "maxsize": "queue.capacity",
    "pop": "queue.dequeue()",
    "popleft": "queue.dequeue()",
    "push": "queue.enqueue(x)",
    "put": "queue.enqueue(x)",
    "put_nowait": "queue.enqueue(x, timeout=0)",
    "qsize": "queue.size()",
    "shutdown": "queue.close()",
}

#: of accumulators
ACCUMULATORS: Final = {
    "apply_grad": "accumulator.add(gradients, step)",
    "num_accumulated": "accumulator.size()",
    "set_global_step": "accumulator.set_step(step)",
    "take_grad": "accumulator.take(count)",
}


def unknown_name(
    owner: str, name: str, known: Mapping[str, object], hints: Mapping[str, str] | None = None
) -> UnknownNameError:
    """The error for a name that ``owner`` does not have; names the nearest one of ``known``.

    Args:
        owner: whose name it would be.
        name: the name.
        known: the names that there are, and what they stand for.
        hints: what to do in the place of names that other frameworks have.
    """
    if hints is not None and name in hints:
        return UnknownNameError(f"{owner} has no {name!r}", hint=hints[name])
    public = [
        n for n, v in known.items() if not n.startswith("_") and not isinstance(v, ModuleType)
    ]
    found = _NAMES[name] if name in _NAMES else nearest(name, public)
    hint = f"did you mean {found!r}?" if found else None
    return UnknownNameError(f"{owner} has no {name!r}", hint=hint)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of some names that is most like ``name``, if one is like it at all."""
    from difflib import get_close_matches  # noqa: PLC0415 - 5 ms that only an error should cost

    close = get_close_matches(name, list(known), 1, cutoff=0.65)
    return close[0] if close else None


def alike(here: Iterable[str], there: Iterable[str]) -> tuple[str, str] | None:
    """What paths that are missing are called elsewhere: the parts in which the first two differ.

    Args:
        here: the paths that are missing, their parts joined by dots.
        there: the paths that nobody asks for.

    Returns:
        The name there and the name here, such as ``("encoder", "backbone")``.
    """
    others = list(there)
    first = next(iter(here), None)
    if first is None:
        return None
    below = (p for p in others if p.endswith(f".{first}") or first.endswith(f".{p}"))
    found = next(below, None) or nearest(first, others)
    if found is None:
        return None
    ours, theirs = first.split("."), found.split(".")
    while len(ours) > 1 and len(theirs) > 1 and ours[-1] == theirs[-1]:
        ours, theirs = ours[:-1], theirs[:-1]
    return ".".join(theirs), ".".join(ours)


class AbstractElsewhere:
    """An attribute that objects of other frameworks have, and those here do not.

    To look for it raises `AttributeError`, as if it were not there. In a class it is found only by
    who misses the name; a ``__getattr__`` would make all other attributes slower.
    """

    def __init__(self, name: str, hint: str) -> None:
        self._name = name
        self._hint = hint
        self.__doc__ = f"Not here: {hint}."  # what `help` shows

    def __get__(self, instance: object, owner: type) -> object:
        raise self._unknown(owner)

    def _unknown(self, owner: type) -> UnknownNameError:
        return UnknownNameError(f"{owner.__name__} has no {self._name!r}", hint=self._hint)

    def __repr__(self) -> str:
        return f"<not here: {self._hint}>"


@final
class _Elsewhere(AbstractElsewhere):
    """One that objects may set for themselves."""


@final
class _NeverHere(AbstractElsewhere):
    """One of objects that have no attributes but those of their class."""

    def __set__(self, instance: object, value: object) -> None:
        raise self._unknown(type(instance))


def hint_at(owner: type, hints: Mapping[str, str]) -> None:
    """Let the error for an attribute that a class does not have say what there is instead.

    Args:
        owner: the class.
        hints: what to do in the place of attributes that other frameworks have.
    """
    kind = _Elsewhere if owner.__dictoffset__ else _NeverHere
    for name, hint in hints.items():
        setattr(owner, name, kind(name, hint))
    setattr(owner, "__dir__", _names)  # noqa: B010 - mypy knows it as a method, which cannot be assigned


def never_called(getter: Callable[[_S], _R]) -> Callable[[_S], _R]:
    """Let the error for a property say so that is called as if it were a method.

    Python would say that a dict cannot be called. The getter runs before the call, but can look at
    the instruction that reads the attribute; where that does not tell, Python's error remains.

    Args:
        getter: of the property; it gives a dict of variables by path.
    """
    name = getter.__name__

    @wraps(getter)
    def get(self: _S) -> _R:
        if _is_called(sys._getframe(1)):
            raise UnknownNameError(
                f"{type(self).__name__} has no method {name!r}",
                hint=f"{name} is a dict of variables by path: leave out the brackets; "
                f"{name}.values() gives the variables alone",
            )
        return getter(self)

    return get


def _is_called(frame: FrameType) -> bool:
    """Whether the attribute that ``frame`` is about to read is called at once: ``x.name()``."""
    code, at = frame.f_code.co_code, frame.f_lasti
    method = opmap.get("LOAD_METHOD", 256)
    if method < 256:  # greater numbers are the compiler's own
        return code[at] == method
    return code[at] == opmap["LOAD_ATTR"] and bool(code[at + 1] & 1)  # since Python 3.12


def _names(value: object) -> list[str]:
    """What ``dir`` lists, and completion in notebooks: only names that are there."""
    return [
        n for n in object.__dir__(value) if not isinstance(_static(value, n), AbstractElsewhere)
    ]


def _static(value: object, name: str) -> object:
    """An attribute as its owner holds it; the instance goes before its class."""
    owners = (getattr(value, "__dict__", {}), *map(vars, type(value).__mro__))
    return next((names[name] for names in owners if name in names), None)
