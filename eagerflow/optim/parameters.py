"""What an optimiser keeps of each variable, and how gradients are matched with the variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, final

import eagerflow as ef
from eagerflow.errors import DeviceError, DTypeError, ShapeError, TensorIndexError, TensorValueError
from eagerflow.extending import is_traced, tree
from eagerflow.hardware import Device, current_device_scope
from eagerflow.types import DType, Shape

_WIDTH: Final = 120  # characters of a structure in a message

#: a number, or what gives one for each variable, from its path and itself
PerVariable: TypeAlias = float | Callable[[str, ef.Variable], float]
#: variables, in lists, tuples and dicts
VariableTree: TypeAlias = "ef.Variable | Sequence[VariableTree] | Mapping[str, VariableTree]"


class Parameter(NamedTuple):
    """One variable and what belongs to it.

    Attributes:
        position: which one it is, from 0.
        path: where it is in the tree of variables, such as ``layers.0.weight``.
        variable: what updates change.
        accumulators: the state beside it.
        dtype: what updates are computed in, that of the accumulators.
        decay: its weight decay.
        scale: what its learning rate is multiplied by.
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
    """The variables of an optimiser, with what belongs to each.

    Nothing of it changes: a trace compares it as one object, whatever number of variables it has.

    Args:
        rows: what belongs to each variable.
        treedef: the structure of the tree that they were given in.
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
        """The tree that holds these in the place of the variables."""
        return self._treedef.unflatten(leaves)

    def match(self, gradients: Any) -> list[tuple[Parameter, Any]]:
        """Each parameter that has a gradient, and that in its dtype: a tensor, `IndexedSlices`.

        Raises:
            TensorValueError: the tree has another structure.
            ShapeError: a gradient has not the shape of its variable.
            DTypeError: a gradient is no number of the variable's kind.
            DeviceError: a gradient is elsewhere.
            TensorIndexError: a sparse one has a row that is not there; in a trace, its run tells.
        """
        try:
            leaves = self._treedef.flatten_up_to(gradients)
        except (TypeError, ValueError):
            leaves = None
        if leaves is None:
            raise _mismatch(self._rows, self._treedef, gradients)
        pairs = zip(self._rows, leaves, strict=True)
        # all are looked at before any variable is changed
        return [(p, _checked(p, g)) for p, g in pairs if g is not None]


# --- accumulators: one formula for whole variables and for some of their rows ------------------


@final
class Rows:
    """The rows of a variable that an update reads and writes.

    Args:
        variable: the variable.
        indices: of the rows that a sparse gradient has: no other is read or written. None for all.
    """

    __slots__ = ("_variable", "indices")

    def __init__(self, variable: ef.Variable, indices: ef.Tensor | None = None) -> None:
        self._variable = variable
        self.indices = indices

    @property
    def value(self) -> ef.Tensor:
        """What they hold."""
        if self.indices is None:
            return self._variable.value
        return ef.take(self._variable, self.indices, axis=0)

    def add(self, change: ef.Tensor) -> ef.Tensor:
        """Add, and give the new value."""
        if self.indices is None:
            return self._variable.assign_add(change)
        return self.set(self.value + change)

    def set(self, value: ef.Tensor) -> ef.Tensor:
        """Replace, and give the new value."""
        if self.indices is None:
            return self._variable.assign(value)
        self._variable.scatter_update(self.indices, value)
        return value

    def mean(self, x: ef.Tensor, keep: float) -> ef.Tensor:
        """Take ``x`` into a running mean, and give it: ``keep * value + (1 - keep) * x``.

        That is computed from the nearer end: none is lost beside the other.
        """
        value = self.value
        if keep > 0.5:
            return self.add((x - value) * (1 - keep))
        return self.set(x - (x - value) * keep)


def outline(optimiser: Any, variables: Sequence[ef.Variable]) -> str:
    """An optimiser for a reader: how much it changes, and its settings."""
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


#: what groups of parameters hold elsewhere beside these
_OF_GROUPS: Final = ("lr", "weight_decay", "momentum", "betas", "eps", "params", "name")


def named_variables(what: str, variables: Any) -> tuple[dict[str, ef.Variable], tree.TreeDef]:
    """The variables of a tree by their paths.

    Raises:
        TensorValueError: there is none, a leaf is something else, or one occurs twice.
        DTypeError: a variable holds no floating-point numbers.
    """
    leaves, treedef = tree.flatten(variables)
    named: dict[str, ef.Variable] = {}
    seen: dict[int, str] = {}
    for path, leaf in zip(_names(treedef), leaves, strict=True):
        if not isinstance(leaf, ef.Variable):
            raise TensorValueError(
                f"{what}: {path or 'the argument'} is no variable",
                given=f"{type(leaf).__name__}",
                expected="a tree of variables: a list, a dict, …",
                hint=_hint_about(path, leaf),
            )
        if id(leaf) in seen:
            raise TensorValueError(
                f"{what}: {seen[id(leaf)]} and {path} are the same variable",
                hint="give it once: an update would change it twice",
            )
        if not leaf.dtype.is_inexact:
            raise DTypeError(
                f"{what}: {path or 'the variable'} is not of a floating dtype",
                given=str(leaf.type),
                hint="give only what is trained: model.trainable",
            )
        seen[id(leaf)] = path
        named[path] = leaf
    if not named:
        raise TensorValueError(f"{what}: there are no variables", hint="is all of it frozen?")
    return named, treedef


def _hint_about(path: str, leaf: object) -> str | None:
    """What to give in the place of what is no variable."""
    if hasattr(leaf, "trainable"):
        return "give model.trainable"
    if path.rpartition(".")[2] in _OF_GROUPS:
        return (
            "there are no groups of parameters: give all variables as one dict, net.trainable; "
            "lr_scale= and weight_decay= may be functions of (path, variable)"
        )
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
    """What accumulators are held in: changes of a thousandth are lost in 16 bits."""
    return ef.float32 if v.dtype.itemsize < 4 else v.dtype


def per_variable(what: str, option: PerVariable, path: str, variable: ef.Variable) -> float:
    """What an option is for one variable."""
    number = option(path, variable) if callable(option) else option
    if not (isinstance(number, int | float) and number >= 0):
        raise TensorValueError(
            f"{what} is negative or no number",
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
            "update: these are no gradients of the variables",
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
        "update: the gradients have not the structure of the variables",
        given="; ".join(parts) or tree.show(given),
        expected=_shown(treedef),
        hint=_part_of_tuple(treedef, gradients) or "None stands for a gradient that is not there",
    )


def _part_of_tuple(treedef: tree.TreeDef, given: Any) -> str | None:
    """What to write for the result of a function that gives more than gradients."""
    parts = given if isinstance(given, tuple) else ()
    at = next((i for i, part in enumerate(parts) if tree.flatten(part)[1] == treedef), None)
    if at is None:
        return None
    return (
        f"the gradients are [{at}] of this tuple: ef.value_and_grad gives (value, gradients), "
        "ef.optim.clip_by_global_norm gives (gradients, norm)"
    )


def _shown(treedef: tree.TreeDef) -> str:
    """A structure, or what it is called where it would fill the screen."""
    text = tree.show(treedef)
    if len(text) <= _WIDTH:
        return text
    names = _names(treedef)
    return f"a tree like that of the {len(names)} variables: {', '.join(names[:3])}, …"


def _checked(p: Parameter, g: Any) -> Any:
    name, v = p.path or "the variable", p.variable
    if not isinstance(g, (ef.Tensor, ef.Variable, ef.IndexedSlices)):
        raise TensorValueError(
            f"update: the gradient of {name} is no tensor",
            given=g.__class__.__name__,
            expected="a tensor, IndexedSlices or None",
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
    """The gradient, if it has no row that is out of range; else other variables would be changed.

    Of what a trace knows too late, its run tells, before it changes anything.
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
    """Whether the shapes are equal; sizes that are not known yet are checked when assigned."""
    return len(given) == len(wanted) and all(
        isinstance(a, ef.Dim) or a == b for a, b in zip(given, wanted, strict=True)
    )
