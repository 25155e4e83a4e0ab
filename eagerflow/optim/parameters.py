"""The parameters of an optimiser with options and state, and the matching of gradients to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from typing import Any, Final, NamedTuple, TypeAlias, final

import eagerflow as ef
from eagerflow.errors import DeviceError, DTypeError, ShapeError, TensorIndexError, TensorValueError
from eagerflow.extending import is_traced, tree
from eagerflow.hardware import Device, current_device_scope
from eagerflow.types import DType, Shape

_WIDTH: Final = 120  # characters of a structure in a message

#: a number, or a function from the path and the variable to a number
PerVariable: TypeAlias = float | Callable[[str, ef.Variable], float]
#: variables, in lists, tuples and dicts
VariableTree: TypeAlias = "ef.Variable | Sequence[VariableTree] | Mapping[str, VariableTree]"


class Parameter(NamedTuple):
    """A variable with the options and the state that an optimiser has for it.

    Attributes:
        position: index among the parameters, from 0.
        path: path in the tree of variables, such as ``layers.0.weight``.
        variable: the variable that updates change.
        accumulators: the optimiser state beside it.
        dtype: dtype of updates and accumulators.
        decay: its weight decay.
        scale: factor of the learning rate.
    """

    position: int
    path: str
    variable: ef.Variable
    accumulators: tuple[ef.Variable, ...]
    dtype: DType
    decay: float
    scale: float


@final
class Parameters:
    """The variables of an optimiser, with the options and the state of each.

    Immutable: a trace compares it as one object, whatever the number of variables.

    Args:
        rows: an entry for each variable.
        treedef: the structure of the tree of variables.
    """

    __slots__ = ("__weakref__", "_rows", "_treedef")

    def __init__(self, rows: tuple[Parameter, ...], treedef: tree.TreeDef) -> None:
        self._rows = rows
        self._treedef = treedef

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._rows)

    def tree_of(self, leaves: Sequence[Any]) -> Any:
        """The tree with these leaves in place of the variables."""
        return self._treedef.unflatten(leaves)

    def match(self, gradients: Any) -> list[tuple[Parameter, Any]]:
        """The parameters with a gradient, each with its gradient in the working dtype.

        Raises:
            TensorValueError: the tree has another structure.
            ShapeError: a gradient does not have the shape of its variable.
            DTypeError: a gradient has another kind of dtype than its variable.
            DeviceError: a gradient is on another device than its variable.
            TensorIndexError: a sparse gradient has a row out of range (if traced: at run time).
        """
        try:
            leaves = self._treedef.flatten_up_to(gradients)
        except (TypeError, ValueError):
            leaves = None
        if leaves is None:
            raise _mismatch(self._rows, self._treedef, gradients)
        pairs = zip(self._rows, leaves, strict=True)
        # all gradients are checked before any variable is changed
        return [(p, _checked(p, g)) for p, g in pairs if g is not None]


# --- accumulators: one formula for whole variables and for some of their rows ------------------


@final
class Rows:
    """The rows of a variable that an update reads and writes.

    Args:
        variable: the variable.
        indices: indices of the rows of a sparse gradient: no other is read or written. None: all.
    """

    __slots__ = ("_variable", "indices")

    def __init__(self, variable: ef.Variable, indices: ef.Tensor | None = None) -> None:
        self._variable = variable
        self.indices = indices

    @property
    def value(self) -> ef.Tensor:
        """The values of the rows."""
        if self.indices is None:
            return self._variable.value
        return ef.take(self._variable, self.indices, axis=0)

    def add(self, change: ef.Tensor) -> ef.Tensor:
        """Add ``change``; returns the new value."""
        if self.indices is None:
            return self._variable.assign_add(change)
        return self.set(self.value + change)

    def set(self, value: ef.Tensor) -> ef.Tensor:
        """Replace the rows; returns the new value."""
        if self.indices is None:
            return self._variable.assign(value)
        self._variable.scatter_update(self.indices, value)
        return value

    def mean(self, x: ef.Tensor, keep: float) -> ef.Tensor:
        """Add ``x`` to a running mean; returns the mean, ``keep * value + (1 - keep) * x``.

        That is computed from the nearer end: none is lost beside the other.
        """
        value = self.value
        if keep > 0.5:
            return self.add((x - value) * (1 - keep))
        return self.set(x - (x - value) * keep)


def outline(optimiser: Any, variables: Sequence[ef.Variable]) -> str:
    """The text of an optimiser: the number of its parameters, and its settings."""
    settings = {
        name: getattr(value, "__name__", value)
        for name, value in vars(optimiser).items()
        if not name.startswith("_") and name not in ("state", "count")
    }
    shown = "".join(f", {name}={value!r}" for name, value in settings.items())
    size = sum(int(v.size) for v in variables)
    return f"{type(optimiser).__name__}({len(variables)} variables of {size} elements{shown})"


# --- the tree of variables ---------------------------------------------------------------------


def _names(treedef: tree.TreeDef) -> list[str]:
    """The path of each leaf, its parts joined by dots."""
    return [
        ".".join(str(getattr(entry, "field", None) or entry.entry) for entry in accessor)
        for accessor in treedef.accessors()
    ]


_NONE: Final = (
    "are all parameters frozen? A plain tensor as an attribute is a constant: make it a variable, "
    "self.weight = ef.Variable(x)"
)
#: hint where names stand in the place of gradients
NAMES_GIVEN: Final = (
    "iterating over a dict gives its names: gradients by net.trainable are a dict as it is, and "
    "{k: a[k] + b[k] for k in a} adds two"
)
#: hint where parameters are in groups
NO_GROUPS: Final = (
    "there are no groups of parameters: pass all variables as one dict, net.trainable; "
    "lr_scale= and weight_decay= may be functions of (path, variable)"
)
#: keys of parameter groups in other frameworks
_OF_GROUPS: Final = ("lr", "weight_decay", "momentum", "betas", "eps", "params", "name")


def named_variables(what: str, variables: Any) -> tuple[dict[str, ef.Variable], tree.TreeDef]:
    """The variables of a tree by their paths.

    Raises:
        TensorValueError: there is no variable, a leaf is something else, or one occurs twice.
        DTypeError: a variable holds no floating-point numbers.
    """
    leaves, treedef = tree.flatten(variables)
    named: dict[str, ef.Variable] = {}
    seen: dict[int, str] = {}
    for path, leaf in zip(_names(treedef), leaves, strict=True):
        if not isinstance(leaf, ef.Variable):
            raise TensorValueError(
                f"{what}: {path or 'the argument'} is not a variable",
                given=f"{type(leaf).__name__}",
                expected="a tree of variables: a list, a dict, …",
                hint=_hint_about(path, leaf),
            )
        if id(leaf) in seen:
            raise TensorValueError(
                f"{what}: {seen[id(leaf)]} and {path} are the same variable",
                hint="pass it once: an update would change it twice",
            )
        if not leaf.dtype.is_inexact:
            raise DTypeError(
                f"{what}: {path or 'the variable'} is not of a floating dtype",
                given=str(leaf.type),
                hint="pass the trainable variables only: model.trainable",
            )
        seen[id(leaf)] = path
        named[path] = leaf
    if not named:
        raise TensorValueError(f"{what}: there are no variables", hint=_NONE)
    return named, treedef


def _hint_about(path: str, leaf: object) -> str | None:
    """A hint for a leaf that is no variable: the argument to pass instead."""
    if hasattr(leaf, "trainable"):
        return "pass model.trainable"
    if isinstance(leaf, ef.Tensor):
        return "make it a variable, ef.Variable(x): only variables can be changed"
    if isinstance(leaf, ValuesView | Iterator):
        return "an iterator or a view is no tree: list(net.parameters.values())"
    if path.rpartition(".")[2] in _OF_GROUPS:
        return NO_GROUPS
    return None


def check_real(what: str, path: str, variable: ef.Variable) -> None:
    """Refuse a variable of complex numbers."""
    if variable.dtype.is_complex:
        raise DTypeError(
            f"{what}: {path or 'the variable'} is complex",
            given=str(variable.type),
            hint="hold real and imaginary part in two variables",
        )


def working_dtype(v: ef.Variable) -> DType:
    """The dtype of accumulators: in 16 bits, changes of a thousandth are lost."""
    return ef.float32 if v.dtype.itemsize < 4 else v.dtype


def per_variable(what: str, option: PerVariable, path: str, variable: ef.Variable) -> float:
    """The value of an option for a variable."""
    number = option(path, variable) if callable(option) else option
    if not (isinstance(number, int | float) and number >= 0):
        raise TensorValueError(
            f"{what} is negative or not a number",
            given=repr(number) + (f" for {path}" if callable(option) else ""),
            expected="a number that is not negative, or a function of path and variable that "
            "gives one",
        )
    return float(number)


# --- gradients ---------------------------------------------------------------------------------


def _mismatch(
    parameters: tuple[Parameter, ...], treedef: tree.TreeDef, gradients: Any
) -> TensorValueError:
    leaves, given = tree.flatten(gradients)
    if len(leaves) == 1 and leaves[0] is gradients:  # no container at all
        array = isinstance(gradients, (ef.Tensor, ef.Variable))
        return TensorValueError(
            "update: the argument is not a tree of gradients",
            given=str(gradients.type) if array else f"a {type(gradients).__name__}",
            expected=_shown(treedef),
            hint="loss, grads = ef.value_and_grad(loss_fn, wrt=model.trainable)(...); "
            "update(grads)",
        )
    have, want = _names(given), [p.path for p in parameters]
    missing = [path for path in want if path not in have]
    extra = [path for path in have if path not in want]
    parts = [
        f"{word} {', '.join(paths[:3])}{', …' if len(paths) > 3 else ''}"
        for word, paths in (("missing:", missing), ("unknown:", extra))
        if paths
    ]
    return TensorValueError(
        "update: the gradients do not have the structure of the variables",
        given="; ".join(parts) or tree.show(given),
        expected=_shown(treedef),
        hint=_part_of_tuple(treedef, gradients) or _hint_about_gradients(want, leaves),
    )


def _hint_about_gradients(want: list[str], leaves: list[Any]) -> str:
    """The hint for gradients of another structure than that of the variables."""
    if any(isinstance(leaf, str) for leaf in leaves):
        return NAMES_GIVEN
    if len(leaves) == len(want) and not want[0].isdigit():
        return (
            "pass them with the names of the variables, as ef.value_and_grad(f, wrt=net.trainable) "
            "gives them: {name: g * scale for name, g in grads.items()}"
        )
    return "None stands for a missing gradient"


def _part_of_tuple(treedef: tree.TreeDef, given: Any) -> str | None:
    """The expression for the gradients within the result of a function that returns more."""
    parts = given if isinstance(given, tuple) else ()
    at = next((i for i, part in enumerate(parts) if tree.flatten(part)[1] == treedef), None)
    if at is None:
        return None
    return (
        f"the gradients are [{at}] of this tuple: ef.value_and_grad gives (value, gradients), "
        "ef.optim.clip_by_global_norm gives (gradients, norm)"
    )


def _shown(treedef: tree.TreeDef) -> str:
    """The text of a structure, or a short description where the text would be too long."""
    text = tree.show(treedef)
    if len(text) <= _WIDTH:
        return text
    names = _names(treedef)
    return f"a tree like that of the {len(names)} variables: {', '.join(names[:3])}, …"


def _checked(p: Parameter, g: Any) -> Any:
    name, v = p.path or "the variable", p.variable
    if not isinstance(g, (ef.Tensor, ef.Variable, ef.IndexedSlices)):
        raise TensorValueError(
            f"update: the gradient of {name} is not a tensor",
            given=repr(g) if isinstance(g, str) else g.__class__.__name__,
            expected="a tensor, IndexedSlices or None",
            hint=NAMES_GIVEN if isinstance(g, str) else None,
        )
    if not _may_be(g.shape, v.shape):
        raise ShapeError(f"update: the gradient of {name} has another shape", given=_both(p, g))
    if not g.dtype.is_inexact or (g.dtype.is_complex and not v.dtype.is_complex):
        raise DTypeError(
            f"update: the gradient of {name} has another kind of dtype", given=_both(p, g)
        )
    if g.device is not v.device and current_device_scope() is not None:
        return _checked(p, _moved(g, v.device))
    if g.device is not v.device:
        raise DeviceError(
            f"update: the gradient of {name} is on another device",
            given=_both(p, g),
            hint=f"move it with .to('{v.device}')",
        )
    if isinstance(g, ef.IndexedSlices):
        g = _with_known_rows(p, g)
    return g if g.dtype is p.dtype else g.astype(p.dtype)


def _moved(g: Any, device: Device) -> Any:
    if not isinstance(g, ef.IndexedSlices):
        return ef.to_device(g, device)
    return ef.IndexedSlices(g.values.to(device), g.indices.to(device), g.shape)


def _both(p: Parameter, g: Any) -> str:
    return f"variable {p.variable.type}, gradient {g.type}"


def _with_known_rows(p: Parameter, g: ef.IndexedSlices) -> ef.IndexedSlices:
    """The gradient, checked for rows out of range before any variable is changed.

    Indices known only at run time are checked then, before anything is changed.
    """
    if is_traced():
        rows = ef.check_labels(g.indices, int(p.variable.shape[0]), of="rows")
        return ef.IndexedSlices(g.values, rows, g.shape)
    if not g.indices.size:
        return g
    first, last = int(g.indices.min()), int(g.indices.max())
    if first < 0 or last >= int(p.variable.shape[0]):
        raise TensorIndexError(
            f"update: the gradient of {p.path or 'the variable'} has rows that are out of range",
            given=f"rows {first} to {last}, variable {p.variable.type}",
        )
    return g


def _may_be(given: Shape, wanted: Shape) -> bool:
    """Whether the shapes may be equal; unknown sizes are checked at assignment."""
    return len(given) == len(wanted) and all(
        isinstance(a, ef.Dim) or a == b for a, b in zip(given, wanted, strict=True)
    )
