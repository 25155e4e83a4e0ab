"""The arguments of a call: inputs of the graph, static arguments, and the key made of them.

Tensors, and NumPy arrays in their place, are inputs. Python numbers are inputs as well, weakly
typed. All other arguments are static: another value needs another trace.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import is_not
from types import FunctionType, MethodType
from typing import Any, Final, final

from eagerflow import settings
from eagerflow.capture.access_paths import contents
from eagerflow.capture.argument_containers import is_container, merged, parts_of
from eagerflow.capture.reads import describe
from eagerflow.capture.static_keys import static_key
from eagerflow.core import tree
from eagerflow.core.abstract_symbols import AbstractNumber
from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.interpreter import stack
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.errors import TraceError
from eagerflow.hardware import Lane
from eagerflow.hardware.device_scopes import current_device_scope
from eagerflow.tracing.numpy_arrays import argument_tensor, is_numpy
from eagerflow.types import Shape, TensorType

_NUMBERS: Final = (float, int, complex)
#: types of arguments that hold no others
_FLAT: Final = frozenset({Tensor, float, int, complex, bool, str, type(None)})
#: maximum number of structures of arguments for which a function keeps the paths of leaves
_STRUCTURES: Final = 256
#: end of the text of an array of another library
FOREIGN: Final = "(an array, not a tensor)"
#: marks a container that is the same object as an earlier one
_AGAIN: Final = object()


@final
@dataclass(slots=True, eq=False)
class Leaf:
    """One leaf of the arguments.

    Attributes:
        name: such as ``params['w']``.
        value: a tensor, a number or a static value.
        kind: ``"tensor"``, ``"number"`` or ``"static"``.
        token: its part of the key.
        array: the array of another library that the tensor stands for, if any.
    """

    name: str
    kind: str
    value: Any
    token: Any
    array: Any = None

    def __str__(self) -> str:
        if self.kind == "tensor":
            text = str(TensorType(self.value.dtype, self.value.shape).on(self.value.device))
            return text if self.array is None else f"{text} {FOREIGN}"
        return type(self.value).__name__ if self.kind == "number" else describe(self.value)

    @property
    def is_numpy(self) -> bool:
        """Whether the caller passed an array of NumPy."""
        return self.array is not None and is_numpy(self.array)

    @property
    def handle(self) -> Any:
        """The object that the caller passed."""
        return self.value if self.array is None else self.array


@final
class Call:
    """The arguments of one call.

    Attributes:
        leaves: in the order of the signature.
        names: the parameters.
        treedefs: the structure of each argument, None for an argument that is static as a whole.
        values: the arguments, by parameter.
        key: all properties of the arguments but sizes and the values of numbers.
    """

    __slots__ = ("key", "leaves", "names", "treedefs", "values")

    def __init__(
        self, leaves: list[Leaf], names: tuple[str, ...], treedefs: tuple[tree.TreeDef | None, ...],
        orders: tuple[Any, ...], aliases: tuple[int, ...], values: tuple[Any, ...],
    ) -> None:  # fmt: skip
        self.leaves = leaves
        self.values = values
        self.names = names
        self.treedefs = treedefs
        tokens = tuple([leaf.token for leaf in leaves])
        self.key = (names, treedefs, tokens, orders, aliases, scope_of_call())

    @property
    def scope(self) -> str:
        """The device scope of the call, as messages show it; empty if there is none."""
        scope = self.key[-1]
        return "" if scope is None else text_of_scope(scope)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of the tensors, in order."""
        return tuple([leaf.value._data.shape for leaf in self.leaves if leaf.kind == "tensor"])

    @property
    def is_flat(self) -> bool:
        """Whether all arguments are tensors and plain values."""
        return all(type(x) in _FLAT for x in self.values)


def scope_of_call() -> Any:
    """The scope and moves setting for a traced function that is called now: part of its key."""
    scope = current_device_scope() if stack.scoped else None
    if stack.refusing and settings.current().moves == "error":
        return scope, "error"
    return scope


def text_of_scope(part: Any) -> str:
    """The result of `scope_of_call` as text for messages; empty if there was no scope."""
    scope, moves = part if isinstance(part, tuple) else (part, "allow")
    texts = ["" if scope is None else str(scope), "" if moves == "allow" else f"moves={moves!r}"]
    return ", ".join(filter(None, texts))


@final
class Signature:
    """The signature of a function, which parses calls.

    Args:
        function: the function.
        static: names of parameters whose arguments are static.

    Raises:
        TraceError: ``static`` names no parameter.
    """

    def __init__(self, function: Callable[..., Any], static: Sequence[str]) -> None:
        self._function = function
        self._static = frozenset(static)
        self._renew()
        names = self._signature.parameters if self._signature is not None else {}
        for name in static:
            if name not in names:
                raise TraceError(
                    f"trace: static={name!r} is not a parameter of the function",
                    given=f"{getattr(function, '__name__', function)}{self._signature or '(...)'}",
                )
        self._paths: dict[tree.TreeDef, list[str]] = {}

    def _renew(self) -> None:
        """Inspect the function again: its code or defaults may have been replaced."""
        self._signature = _signature_of(self._function, self._static)
        self._defaults = _defaults(self._signature)
        self._definition = _definition(self._function)

    def _paths_of(self, treedef: tree.TreeDef) -> list[str]:
        """The paths of leaves, cached: writing a path takes longer than running a call."""
        paths = self._paths.get(treedef)
        if paths is None:
            if len(self._paths) >= _STRUCTURES:
                self._paths.clear()
            leaf = treedef.num_nodes == treedef.num_leaves == 1
            paths = [""] if leaf else tree.paths(treedef)
            self._paths[treedef] = paths
        return paths

    def parse(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """The call with these arguments.

        Raises:
            TypeError: the arguments do not fit the signature; Python's own error.
            TraceError: a trace cannot take an argument, such as a generator.
        """
        if any(map(is_not, self._definition, _definition(self._function))):
            self._renew()
        names, values = self._bind(args, kwargs)
        leaves: list[Leaf] = []
        treedefs: list[tree.TreeDef | None] = []
        for name, value in zip(names, values, strict=True):
            if name in self._static:
                treedefs.append(None)
                leaves.append(_static(name, value))
                continue
            parts, treedef = tree.flatten(value, whole=True)
            treedefs.append(treedef)
            for path, leaf in zip(self._paths_of(treedef), parts, strict=True):
                leaves += _leaves(name + path, leaf)
        seen: dict[int, int] = {}
        orders = tuple(
            [o for value in values if type(value) not in _FLAT for o in _orders(value, seen)]
        )
        return Call(leaves, names, tuple(treedefs), orders, _aliases(leaves), values)

    def rebuild(self, call: Call, values: Sequence[Any]) -> list[Any]:
        """The arguments by parameter, with ``values`` in place of the leaves."""
        rest = iter(zip(call.leaves, values, strict=True))
        arguments: list[Any] = []
        for treedef in call.treedefs:
            if treedef is None:
                arguments.append(next(rest)[1])
            else:
                parts = [_joined(rest) for _ in range(treedef.num_leaves)]
                arguments.append(tree.unflatten(treedef, parts))
        if call.is_flat:
            return arguments
        known: dict[int, Any] = {}
        return [merged(a, b, known) for a, b in zip(call.values, arguments, strict=True)]

    def apply(self, call: Call, arguments: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments for the function, given the arguments by parameter."""
        if self._signature is None:
            args, kwargs = arguments
            return args, kwargs
        named: Any = dict(zip(call.names, arguments, strict=True))
        bound = inspect.BoundArguments(self._signature, named)
        return bound.args, bound.kwargs

    def _bind(self, args: Any, kwargs: Any) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        if self._signature is None:
            return ("args", "kwargs"), (args, kwargs)
        plain = self._defaults
        if plain is not None and not kwargs:
            names, defaults = plain
            missing = len(names) - len(args)
            if 0 <= missing <= len(defaults):
                return names, (*args, *defaults[len(defaults) - missing :])
        bound = None
        with suppress(TypeError):
            bound = self._signature.bind(*args, **kwargs)
        if bound is None:
            self._function(*args, **kwargs)  # raises: Python words its error better
            raise TypeError("the arguments do not fit the signature")
        given = set(bound.arguments)
        bound.apply_defaults()
        function = _of_users(self._function)
        if isinstance(function, partial):  # its own arguments are read from outside
            for name in function.keywords.keys() & bound.arguments.keys() - given:
                del bound.arguments[name]
        return tuple(bound.arguments), tuple(bound.arguments.values())


def _definition(function: Any) -> tuple[Any, Any, Any]:
    return (
        getattr(function, "__code__", None),
        getattr(function, "__defaults__", None),
        getattr(function, "__kwdefaults__", None),
    )


def _signature_of(function: Any, static: frozenset[str]) -> inspect.Signature | None:
    """The signature that Python uses in a call: of a wrapper its own, not the wrapped function's.

    A wrapper may have other parameters and other defaults, and sees which arguments are passed by
    keyword. Wrappers of eagerflow (`grad`) are skipped; where the wrapper lacks the names of
    static arguments, the signature of the innermost function counts.
    """
    try:
        own = inspect.signature(_of_users(function), follow_wrapped=False)
        return own if static <= own.parameters.keys() else inspect.signature(function)
    except (TypeError, ValueError):  # some builtins have none
        return None


def _of_users(function: Any) -> Any:
    """The function that wrappers of eagerflow wrap, bound as the wrapper is."""
    if isinstance(function, MethodType):
        return MethodType(inspect.unwrap(function.__func__, stop=_is_users), function.__self__)
    return inspect.unwrap(function, stop=_is_users)


def _is_users(function: Any) -> bool:
    """Whether calling ``function`` runs the user's code first, not code of eagerflow or in C."""
    return isinstance(function, FunctionType) and not str(
        function.__globals__.get("__name__", "")
    ).startswith("eagerflow.")


def _defaults(
    signature: inspect.Signature | None,
) -> tuple[tuple[str, ...], tuple[Any, ...]] | None:
    """The parameters, and the defaults of the last of them; None if some are of a special kind."""
    parameters = list(signature.parameters.values()) if signature is not None else []
    if any(p.kind is not p.POSITIONAL_OR_KEYWORD for p in parameters) or signature is None:
        return None
    defaults = tuple([p.default for p in parameters if p.default is not p.empty])
    return tuple([p.name for p in parameters]), defaults


def _static(name: str, value: Any) -> Leaf:
    if issubclass(type(value), AbstractNumber):
        value = value.ask("a static argument")
    if any(isinstance(x, AbstractArray) for x in tree.leaves(value)):
        raise TraceError(
            f"the static argument {name} holds a tensor",
            given=describe(value),
            hint="leave it out of static=...: tensors are inputs of the graph",
        )
    return Leaf(name, "static", value, static_key(value))


def _leaves(name: str, value: Any) -> Iterator[Leaf]:
    """The leaf of a value; for indexed slices a marker and two tensors."""
    kind = type(value)
    if issubclass(kind, AbstractNumber):  # of a trace in another thread
        value = value.ask("an argument")
        kind = type(value)
    if kind is Tensor:
        yield _tensor(name, value)
    elif kind in _NUMBERS:
        yield Leaf(name, "number", value, kind)
    elif kind is IndexedSlices:
        # the dense shape is static; a marker says that two tensors are to be joined
        yield Leaf(name, "static", _Slices(value.shape), ("slices", value.shape))
        yield _tensor(f"{name}.values", value.values)
        yield _tensor(f"{name}.indices", value.indices)
    elif _is_foreign_array(value):
        yield _tensor(name, argument_tensor(name, value), value)
    elif isinstance(value, Iterator):
        raise TraceError(
            f"the argument {name} is an iterator, which tracing would use up",
            given=kind.__name__,
            hint="pass a list or a tensor, or iterate outside of the traced function",
        )
    else:
        yield Leaf(name, "static", value, static_key(value))


def _is_foreign_array(value: Any) -> bool:
    kind = type(value)
    if isinstance(value, (AbstractArray, type, str, bytes)):  # as texts of NumPy are
        return False
    return hasattr(kind, "__dlpack__") or hasattr(kind, "__array_interface__")


def _tensor(name: str, x: Tensor, array: Any = None) -> Leaf:
    lane: Lane = x._lane
    foreign = None if array is None else type(array)
    return Leaf(name, "tensor", x, (lane, len(x._data.shape), foreign), array)


@final
class _Slices:
    """The marker for `IndexedSlices` among leaves, before their values and indices."""

    __slots__ = ("shape",)

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def __repr__(self) -> str:
        return f"IndexedSlices of shape {self.shape}"


def _joined(rest: Iterator[tuple[Leaf, Any]]) -> Any:
    leaf, value = next(rest)
    if type(leaf.value) is _Slices:
        return IndexedSlices(next(rest)[1], next(rest)[1], leaf.value.shape)
    return value


def _orders(value: Any, seen: dict[int, int]) -> Iterator[tuple[Any, ...]]:
    """Properties of containers that Python code can see and structures leave out.

    These are the keys of dicts in their order, and which containers are the same object as an
    earlier one, since a change of one shows in the other. ``seen`` has the number of each container
    by its id.
    """
    if is_container(value):
        number = len(seen)
        first = seen.setdefault(id(value), number)
        if first != number:
            yield (_AGAIN, number, first)
            return
    if isinstance(value, dict) and (held := contents(value)):  # 1 and True print differently
        yield tuple([(type(key), key) for key in held])
    for _, part in parts_of(value):
        if type(part) not in _FLAT:
            yield from _orders(part, seen)


def _aliases(leaves: Sequence[Leaf]) -> tuple[int, ...]:
    """For each tensor that is the same object as an earlier one, the positions of both.

    An update in place of one shows in the other, so such a call needs a trace of its own.
    """
    first: dict[int, int] = {}
    pairs = []
    for i, leaf in enumerate(leaves):
        if leaf.kind == "tensor":
            earlier = first.setdefault(id(leaf.handle), i)
            if earlier != i:
                pairs += [i, earlier]
    return tuple(pairs)
