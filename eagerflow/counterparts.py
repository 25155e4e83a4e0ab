"""Names of NumPy, PyTorch, TensorFlow and JAX, and what is written here in their place.

Only errors speak of them: a user of another framework learns the way of this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Final, TypeVar, final

from eagerflow.errors import UnknownNameError

__all__ = [
    "ACCUMULATORS",
    "ARRAYS",
    "FUNCTIONS",
    "QUEUES",
    "RANDOM",
    "hint_at",
    "nearest",
    "unknown_name",
]

_S = TypeVar("_S")
_R = TypeVar("_R")

_LOSS: Final = "loss, grads = ef.value_and_grad(loss_fn, wrt=net.trainable)(x, y)"
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
    "contiguous": "leave it out: how elements lie in memory does not matter",
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

    >>> from eagerflow.extending import unknown_name
    >>> hints = {"Dense": "use Linear"}
    >>> unknown_name("layers", "Liner", {"Linear": object}, hints).hint
    "did you mean 'Linear'?"
    >>> unknown_name("layers", "Dense", {"Linear": object}, hints).hint
    'use Linear'
    """
    if hints is not None and name in hints:
        return UnknownNameError(f"{owner} has no {name!r}", hint=hints[name])
    public = [
        n for n, v in known.items() if not n.startswith("_") and not isinstance(v, ModuleType)
    ]
    suggestion = _NAMES[name] if name in _NAMES else nearest(name, public)
    hint = f"did you mean {suggestion!r}?" if suggestion else None
    return UnknownNameError(f"{owner} has no {name!r}", hint=hint)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of some names that is most like ``name``, if one is like it at all.

    >>> from eagerflow.extending import nearest
    >>> nearest("wieght", ["bias", "weight"]), nearest("scale", ["bias", "weight"])
    ('weight', None)
    """
    from difflib import get_close_matches  # noqa: PLC0415 - 5 ms that only an error should cost

    close = get_close_matches(name, list(known), 1, cutoff=0.65)
    return close[0] if close else None


class AbstractElsewhere:
    """An attribute that objects of other frameworks have, and those here do not.

    To look for it raises `AttributeError`, as if it were not there. In a class it is found only
    when the name is missing; a ``__getattr__`` would make all other attributes slower.
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

    >>> from eagerflow.extending import hint_at
    >>> class Layer:
    ...     pass
    >>> hint_at(Layer, {"cuda": "make it where it shall be"})
    >>> Layer().cuda
    Traceback (most recent call last):
    eagerflow.errors.UnknownNameError: Layer has no 'cuda'
      hint: make it where it shall be
      at: ...
    >>> hasattr(Layer(), "cuda"), "cuda" in dir(Layer())
    (False, False)
    """
    kind = _Elsewhere if owner.__dictoffset__ else _NeverHere
    for name, hint in hints.items():
        setattr(owner, name, kind(name, hint))
    setattr(owner, "__dir__", _names)  # noqa: B010 - mypy knows it as a method, which cannot be assigned


def _names(value: object) -> list[str]:
    """What ``dir`` lists, and completion in notebooks: only names that are there."""
    return [
        n for n in object.__dir__(value) if not isinstance(_static(value, n), AbstractElsewhere)
    ]


def _static(value: object, name: str) -> object:
    """An attribute as its owner holds it; the instance goes before its class."""
    owners = (getattr(value, "__dict__", {}), *map(vars, type(value).__mro__))
    return next((names[name] for names in owners if name in names), None)
