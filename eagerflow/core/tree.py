"""Pytrees: nested containers with tensors as leaves (built on optree)."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from types import MemberDescriptorType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from eagerflow.errors import TensorValueError
from eagerflow.formatting import kind_of
from eagerflow.types import DType, TensorSpec, TensorType

if TYPE_CHECKING:
    import optree

__all__ = [
    "TreeDef", "flatten", "leaves", "map", "parts_of", "paths", "register", "show", "unflatten",
]  # fmt: skip

TreeDef: TypeAlias = "optree.PyTreeSpec"
NAMESPACE: Final = "eagerflow"
#: the namespace in which all attributes of dataclasses and of containers are children
_WHOLE: Final = "eagerflow.whole"
#: sequences of one meaning, where an element is given
_SEQUENCES: Final = (list, tuple)


#: the dataclasses and containers handled already; the first three are leaves
_known: Final[set[type]] = {DType, TensorSpec, TensorType, list, dict, OrderedDict, defaultdict}


@cache
def _optree() -> Any:
    import optree  # noqa: PLC0415 - 9 ms of `import eagerflow`, and plain ops know no trees

    return optree


def flatten(
    tree: object, is_leaf: Callable[[Any], bool] | None = None, *, whole: bool = False
) -> tuple[list[Any], TreeDef]:
    """The leaves of ``tree`` and the structure to rebuild it; None is a node without leaves.

    Lists, tuples, dicts, named tuples, dataclasses and `types.SimpleNamespace` are nodes, and so
    are classes made of lists and dicts, such as `collections.Counter`.

    Args:
        tree: the tree.
        is_leaf: whether a node is taken for a leaf.
        whole: whether all attributes of dataclasses and of such containers are children, not
            only their fields and items.

    Raises:
        TensorValueError: a container holds itself.

    >>> from dataclasses import dataclass
    >>> from eagerflow.extending import tree
    >>> @dataclass
    ... class Batch:
    ...     x: object
    ...     y: object
    >>> tree.flatten([Batch(1, (2, 3)), None])[0]
    [1, 2, 3]
    """
    namespace = _WHOLE if whole else NAMESPACE
    try:
        values, treedef = _optree().tree_flatten(tree, is_leaf, namespace=namespace)
    except RecursionError:
        wrong = "a container holds itself, or containers are nested too deeply"
        raise TensorValueError(wrong, given=kind_of(tree)) from None
    for leaf in values:
        kind = type(leaf)
        if kind in _known:
            continue
        if issubclass(kind, (dict, list)):
            _register_container(kind)
        elif hasattr(kind, "__dataclass_fields__"):
            _register_dataclass(kind)
        elif kind is SimpleNamespace:
            register(kind, _take_namespace, _made_namespace)
        else:
            continue
        return flatten(tree, is_leaf, whole=whole)
    return values, treedef


def children(tree: Any) -> list[Any] | None:
    """The children of a node, all attributes included; None for a leaf.

    >>> from eagerflow.core import tree
    >>> tree.children([1, (2, 3)]), tree.children(1)
    ([1, (2, 3)], None)
    """
    parts, treedef = flatten(tree, lambda x: x is not tree, whole=True)
    return None if treedef.is_leaf() else parts


def attributes(x: Any) -> Mapping[str, Any]:
    """The attributes set on an instance of a dataclass: its slots and its ``__dict__``."""
    own = getattr(x, "__dict__", {})
    kind: Any = type(x)
    slots = _slots_of(kind)
    if not slots:
        return own
    return {**{name: getattr(x, name) for name in slots if hasattr(x, name)}, **own}


@cache
def _slots_of(kind: type) -> list[str]:
    return slots_of(kind)


def slots_of(kind: type) -> list[str]:
    """The names of the attributes that instances of a class have in slots."""
    return [
        name
        for base in reversed(kind.__mro__)
        if "__slots__" in base.__dict__
        for name, member in list(base.__dict__.items())
        if isinstance(member, MemberDescriptorType)
    ]


def _register_container(kind: type) -> None:
    """Register a subclass of Python's lists or dicts as a node with its items as children.

    Overridden methods are bypassed: they may convert or count items.
    """
    _known.add(kind)
    if kind.__module__.startswith("eagerflow."):  # stand-ins in traces
        return
    base: Any = next(b for b in (OrderedDict, defaultdict, dict, list) if issubclass(kind, b))

    def take(x: Any, whole: bool = False) -> tuple[list[Any], Any, tuple[Any, ...]]:
        keys = None if base is list else tuple(base.__iter__(x))
        items = list(base.__iter__(x)) if keys is None else [base.__getitem__(x, k) for k in keys]
        own = object.__getattribute__(x, "__dict__") if kind.__dictoffset__ else {}
        names = tuple(own) if whole and own is not x else ()
        factory = x.default_factory if base is defaultdict else None
        kept = None if own is x else {} if whole else own
        labels = (*(range(len(items)) if keys is None else keys), *names)
        rest = _Rest({"own": kept, "factory": factory})
        return [*items, *[own[name] for name in names]], (keys, names, rest), labels

    def make(rest: Any, children: Iterable[Any]) -> Any:
        keys, names, more = rest
        made = base.__new__(kind)
        parts = list(children)
        items, values = parts[: len(parts) - len(names)], parts[len(parts) - len(names) :]
        if keys is None:
            list.extend(made, items)
        else:
            for key, child in zip(keys, items, strict=True):
                base.__setitem__(made, key, child)
        if base is defaultdict:
            made.default_factory = more.values["factory"]
        own = more.values["own"]
        if own is None:  # attributes are items
            made.__dict__ = made
        elif own or names:
            made.__dict__.update({**own, **dict(zip(names, values, strict=True))})
        return made

    register(kind, take, make, lambda x: take(x, whole=True))


def _take_namespace(x: SimpleNamespace) -> tuple[list[Any], tuple[str, ...], tuple[str, ...]]:
    names = tuple(vars(x))
    return list(vars(x).values()), names, names


def _made_namespace(names: Iterable[str], children: Iterable[Any]) -> SimpleNamespace:
    return SimpleNamespace(**dict(zip(names, children, strict=True)))


def _register_dataclass(kind: type) -> None:
    """Register a dataclass as a node of trees with its fields as children."""
    _known.add(kind)
    if not is_dataclass(kind) or hasattr(kind, "__tensor__"):
        return
    names = tuple([f.name for f in fields(kind)])
    nothing = _Rest({})

    def take(x: Any) -> tuple[list[Any], Any, tuple[str, ...]]:
        rest = {k: v for k, v in getattr(x, "__dict__", {}).items() if k not in names}
        return [getattr(x, name, None) for name in names], (names, _Rest(rest)), names

    def make(held: tuple[tuple[str, ...], _Rest], children: Iterable[Any]) -> Any:
        made = object.__new__(kind)
        for name, value in (*zip(held[0], children, strict=True), *held[1].values.items()):
            object.__setattr__(made, name, value)  # also where the class is frozen
        return made

    def take_whole(x: Any) -> tuple[list[Any], Any, tuple[str, ...]]:
        held = attributes(x)
        keys = tuple(held)
        return list(held.values()), (keys, nothing), keys

    register(kind, take, make, take_whole)


@final
@dataclass(frozen=True, slots=True)
class _Rest:
    """The attributes of an instance that are no children; comparisons ignore them."""

    values: dict[str, Any] = field(compare=False)


def register(
    kind: type, take: Callable[[Any], Any], make: Callable[[Any, Any], Any],
    take_whole: Callable[[Any], Any] | None = None,
) -> None:  # fmt: skip
    """Register a class as a node of trees.

    Args:
        kind: the class.
        take: gives the children and the rest of the state, which distinguishes structures.
        make: makes an instance from the rest and the children.
        take_whole: as ``take``, with all attributes among the children.

    >>> from eagerflow.extending import tree
    >>> class Pair:
    ...     def __init__(self, left, right):
    ...         self.left, self.right = left, right
    >>> tree.register(Pair, lambda p: ([p.left, p.right], None), lambda _, xs: Pair(*xs))
    >>> tree.leaves({"pair": Pair(1, 2)})
    [1, 2]
    """
    _known.add(kind)
    _optree().register_pytree_node(kind, take, make, namespace=NAMESPACE)
    _optree().register_pytree_node(kind, take_whole or take, make, namespace=_WHOLE)


def unflatten(treedef: TreeDef, values: Iterable[Any]) -> Any:
    """A tree of the structure ``treedef`` with new leaves.

    >>> from eagerflow.extending import tree
    >>> tree.unflatten(tree.flatten({"w": 1, "b": (2,)})[1], ["b", "w"])
    {'w': 'w', 'b': ('b',)}
    """
    return _optree().tree_unflatten(treedef, values)


def leaves(tree: object) -> list[Any]:
    """The leaves of ``tree``.

    >>> from eagerflow.extending import tree
    >>> tree.leaves([1, {"x": (2, None)}])
    [1, 2]
    """
    return flatten(tree)[0]


def map(function: Callable[..., Any], tree: object, *rest: Any, whole: bool = False) -> Any:
    """A tree of the same structure with ``function`` applied to the leaves.

    Args:
        function: gets a leaf, and the leaf of each other tree at its place.
        tree: the tree.
        rest: other trees of the same structure.
        whole: as of `flatten`.

    >>> from eagerflow.extending import tree
    >>> tree.map(lambda x, y: x + y, {"w": 1, "b": 2}, {"w": 10, "b": 20})
    {'w': 11, 'b': 22}
    """
    values, treedef = flatten(tree, whole=whole)
    others = [treedef.flatten_up_to(other) for other in rest]
    mapped = [function(*xs) for xs in zip(values, *others, strict=True)]
    return _optree().tree_unflatten(treedef, mapped)


def paths(treedef: TreeDef) -> list[str]:
    """A readable path for each leaf, such as ``[0]['w']``.

    >>> from eagerflow.extending import tree
    >>> tree.paths(tree.flatten([{"w": 1}, 2])[1])
    ["[0]['w']", '[1]']
    """
    return [accessor.codify("") for accessor in treedef.accessors()]


def parts_of(treedef: TreeDef, value: Any) -> list[Any]:
    """The parts of ``value`` at the leaves of a structure; lists and tuples fit each other.

    Args:
        treedef: the structure.
        value: a tree whose structure differs from it at most in the kinds of sequences.

    Raises:
        ValueError: it differs in more than that.

    >>> from eagerflow.core import tree
    >>> _, treedef = tree.flatten({"x": [1, (2, 3)]})
    >>> tree.parts_of(treedef, {"x": ("a", ["b", ["c"]])})
    ['a', 'b', ['c']]
    """
    try:
        return treedef.flatten_up_to(value)
    except (ValueError, TypeError):
        return _parts_of(unflatten(treedef, [_Star()] * treedef.num_leaves), value)


def _parts_of(form: Any, value: Any) -> list[Any]:
    if type(form) is _Star:
        return [value]
    forms, node = flatten(form, lambda x: x is not form)
    if type(form) in _SEQUENCES and type(value) in _SEQUENCES:
        value = type(form)(value)
    parts = node.flatten_up_to(value)
    return [leaf for pair in zip(forms, parts, strict=True) for leaf in _parts_of(*pair)]


@final
class _Star:
    """The stand-in for leaves in printed structures."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "*") -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def show(treedef: TreeDef, leaves: Sequence[str] | None = None) -> str:
    """A structure as text, with ``*`` for leaves, or a text for each.

    >>> from eagerflow.extending import tree
    >>> tree.show(tree.flatten(({"w": 1}, 2))[1])
    "({'w': *}, *)"
    """
    texts = ["*"] * treedef.num_leaves if leaves is None else leaves
    return repr(unflatten(treedef, [*map(_Star, texts)]))
