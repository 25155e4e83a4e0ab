"""The nodes of a tree in a checkpoint, made from live objects or read from a manifest.

In a manifest, a value of JSON stands for itself: null, true, numbers, strings; a list for a list.
Other nodes are objects whose first key is their kind::

    {"tuple": [...]}   {"dict": {"name": ...}}   {"items": [[key, value], ...]}
    {"fields": {"name": ...}, "class": "Batch"}          a dataclass or a named tuple
    {"state": ..., "class": "Linear"}                    an object with a state
    {"tensor": name}   {"variable": name}   {"slices": [values, indices], "shape": [...]}
    {"generator": [seed, ticket]}
    {"int": "0x…"}     beyond 2**53, where other readers of JSON would round
    {"float": "7ff8000000000000"}   a NaN or an infinity, as its 64 bits
    {"complex": [real, imaginary]}
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final, final

import numpy as np

import eagerflow as ef
from eagerflow.errors import CheckpointError
from eagerflow.extending import hint_about

_PLAIN: Final = (type(None), bool, int, float, complex, str)
ARRAYS: Final = ("tensor", "variable")
LEAVES: Final = (*ARRAYS, "plain", "generator")
_LEAF_KINDS: Final[dict[type, str]] = {
    **dict.fromkeys(_PLAIN, "plain"),
    ef.Tensor: "tensor",
    ef.Variable: "variable",
    ef.random.Generator: "generator",
}
_EXACT: Final = 2**53
_DEPTH: Final = 64  # all readers of JSON support this depth
_SHOWN: Final = 4


@final
@dataclass(slots=True)
class TreeNode:
    """A leaf or a container of a tree.

    Attributes:
        kind: a leaf is ``"plain"``, ``"tensor"``, ``"variable"`` or ``"generator"``; a container
            ``"list"``, ``"tuple"``, ``"dict"``, ``"fields"``, ``"slices"`` or ``"state"``, which
            has one child.
        value: the live object; in a manifest a plain value, the name of a tensor, the seed and
            ticket of a generator, the shape of slices, the class name of an object with a state,
            or None.
        children: by key.
        path: keys joined by dots; no two leaves have the same path.
    """

    kind: str
    value: Any = None
    children: list[tuple[Any, TreeNode]] = field(default_factory=list)
    path: str = ""


def walk(node: TreeNode) -> Iterator[TreeNode]:
    """All nodes, in pre-order."""
    yield node
    for _, child in node.children:
        yield from walk(child)


def leaves(node: TreeNode) -> list[TreeNode]:
    """The leaves in order."""
    return [n for n in walk(node) if n.kind in LEAVES]


def _name(node: TreeNode, path: str, taken: set[str]) -> None:
    """Set the paths of ``node`` and its descendants; a number separates leaves of equal paths."""
    node.path, count = path, 1
    if node.kind in LEAVES:
        while node.path in taken:
            count += 1
            node.path = f"{path}~{count}"
        taken.add(node.path)
    for key, child in node.children:
        below = path if node.kind == "state" else f"{path}.{key}" if path else str(key)
        _name(child, below, taken)


# --- live trees ---------------------------------------------------------------------------------


def describe(tree: Any) -> TreeNode:
    """The nodes of a live tree.

    Raises:
        CheckpointError: an object in the tree cannot be saved.
    """
    root = _live(tree, ())
    _name(root, "", set())
    return root


def _live(x: Any, keys: tuple[Any, ...]) -> TreeNode:
    if len(keys) > _DEPTH:
        raise CheckpointError(
            "the tree is nested too deeply, or contains itself",
            given=f"{'.'.join(map(str, keys[:_SHOWN]))}.…",
            expected=f"containers within containers, {_DEPTH} levels at most",
        )
    if type(x) in _LEAF_KINDS:
        return TreeNode(_LEAF_KINDS[type(x)], x)
    if isinstance(x, (np.ndarray, np.generic)):
        return TreeNode("tensor", ef.asarray(x))
    if type(x) is ef.IndexedSlices:
        parts = {"values": x.values, "indices": x.indices}
        return TreeNode("slices", x, _children(parts.items(), keys))
    return _container(x, keys)


def _container(x: Any, keys: tuple[Any, ...]) -> TreeNode:
    names = _fields(x)
    state = None if names and "state" in names else getattr(x, "state", None)
    if isinstance(state, Mapping) and not isinstance(x, type):
        return TreeNode("state", x, [("", _live(dict(state), keys))])
    if names is not None:
        return TreeNode("fields", x, _children([(n, getattr(x, n, None)) for n in names], keys))
    if isinstance(x, dict):
        for key in x:
            _check_key(key, keys)
        return TreeNode("dict", x, _children(x.items(), keys))
    for kind in (list, tuple):
        if isinstance(x, kind):
            return TreeNode(kind.__name__, x, _children(enumerate(x), keys))
    raise _cannot(
        "an object of this type cannot be saved",
        type(x).__name__,
        keys,
        # such as a dataset, whose iterators have the state
        hint_about(type(x), "state"),
    )


def _children(
    items: Iterable[tuple[Any, Any]], keys: tuple[Any, ...]
) -> list[tuple[Any, TreeNode]]:
    return [(key, _live(x, (*keys, key))) for key, x in items]


def _fields(x: Any) -> tuple[str, ...] | None:
    """The names of the fields of a dataclass or a named tuple; None for other objects."""
    if is_dataclass(x) and not isinstance(x, type):
        return tuple([f.name for f in fields(x)])
    return getattr(x, "_fields", None) if isinstance(x, tuple) else None


def _check_key(key: Any, keys: tuple[Any, ...]) -> None:
    parts = key if type(key) is tuple else (key,)
    if not all(type(part) in _PLAIN for part in parts):
        raise _cannot("an object of this type cannot be a key of a saved dict", repr(key), keys)


def _cannot(
    wrong: str, given: str, keys: tuple[Any, ...], hint: str | None = None
) -> CheckpointError:
    return CheckpointError(
        wrong,
        given=f"{given} at {'.'.join(map(str, keys)) or 'the top'}",
        expected="tensors, variables, generators, None, numbers, strings, lists, tuples, dicts, "
        "dataclasses, and objects with a mapping `state`",
        hint=hint,
    )


# --- manifests ----------------------------------------------------------------------------------


def encode(node: TreeNode, names: Mapping[int, str]) -> Any:
    """The node as JSON.

    Args:
        node: of a live tree.
        names: of tensors and variables, by their ids.
    """
    if node.kind in ARRAYS:
        return {node.kind: names[id(node.value)]}
    if node.kind == "plain":
        return _encode_plain(node.value)
    if node.kind == "generator":
        return {"generator": [_encode_plain(part) for part in node.value.state.values()]}
    encoded = [encode(child, names) for _, child in node.children]
    keys = [key for key, _ in node.children]
    match node.kind:
        case "list":
            return encoded
        case "dict" if not all(type(key) is str for key in keys):
            return {"items": [list(p) for p in zip(map(_encode_key, keys), encoded, strict=True)]}
        case "dict":
            return {"dict": dict(zip(keys, encoded, strict=True))}
        case "fields":
            named = dict(zip(keys, encoded, strict=True))
            return {"fields": named, "class": type(node.value).__name__}
        case "state":
            return {"state": encoded[0], "class": type(node.value).__name__}
        case "slices":
            return {"slices": encoded, "shape": list(node.value.shape)}
    return {"tuple": encoded}


def _encode_key(key: Any) -> Any:
    return {"tuple": [_encode_plain(k) for k in key]} if type(key) is tuple else _encode_plain(key)


def _encode_plain(value: Any) -> Any:
    if type(value) is complex:
        return {"complex": [_encode_plain(value.real), _encode_plain(value.imag)]}
    if type(value) is int and abs(value) > _EXACT:
        return {"int": hex(value)}
    if type(value) is float and not math.isfinite(value):
        return {"float": struct.pack(">d", value).hex()}
    return value


def from_json(encoded: Any) -> TreeNode:
    """The node that was encoded, with its descendants.

    Raises:
        KeyError, TypeError, ValueError, RecursionError: ``encoded`` is no node.
    """
    root = _read(encoded)
    _name(root, "", set())
    return root


def _read(encoded: Any) -> TreeNode:
    if isinstance(encoded, list):
        return TreeNode("list", None, [(i, _read(x)) for i, x in enumerate(encoded)])
    if not isinstance(encoded, dict):
        return TreeNode("plain", encoded)
    kind = next(iter(encoded))
    return _READERS[kind](encoded[kind], encoded)


def _key(encoded: Any) -> Any:
    node = _read(encoded)
    return build(node, {})


_READERS: Final[dict[str, Callable[[Any, dict[str, Any]], TreeNode]]] = {
    "tuple": lambda x, _: TreeNode("tuple", None, [(i, _read(v)) for i, v in enumerate(x)]),
    "dict": lambda x, _: TreeNode("dict", None, [(k, _read(v)) for k, v in x.items()]),
    "items": lambda x, _: TreeNode("dict", None, [(_key(k), _read(v)) for k, v in x]),
    "fields": lambda x, _: TreeNode("fields", None, [(k, _read(v)) for k, v in x.items()]),
    "state": lambda x, whole: TreeNode("state", whole.get("class"), [("", _read(x))]),
    "slices": lambda x, whole: TreeNode(
        "slices",
        tuple(whole["shape"]),
        list(zip(("values", "indices"), map(_read, x), strict=True)),
    ),
    "tensor": lambda x, _: TreeNode("tensor", x),
    "variable": lambda x, _: TreeNode("variable", x),
    "generator": lambda x, _: TreeNode("generator", tuple([_key(part) for part in x])),
    "int": lambda x, _: TreeNode("plain", int(x, 16)),
    "float": lambda x, _: TreeNode("plain", struct.unpack(">d", bytes.fromhex(x))[0]),
    "complex": lambda x, _: TreeNode("plain", complex(*[_key(part) for part in x])),
}


def build(node: TreeNode, tensors: Mapping[str, ef.Tensor]) -> Any:
    """The tree of a manifest: dicts, lists and tuples of tensors and plain values.

    Args:
        node: of a manifest.
        tensors: by their names.
    """
    if node.kind in ARRAYS:
        return tensors[node.value]
    if node.kind == "plain":
        return node.value
    if node.kind == "generator":
        made = ef.random.Generator(0)
        made.state = dict(zip(("seed", "ticket"), node.value, strict=True))
        return made
    parts = {key: build(child, tensors) for key, child in node.children}
    return parts[""] if node.kind == "state" else assembled(node.kind, parts, node.value)


def assembled(kind: str, parts: dict[Any, Any], shape: Any) -> Any:
    """A container of this kind; a dict for dicts, and for fields, whose class is not known.

    Args:
        kind: of a node.
        parts: its children by key.
        shape: of slices.
    """
    match kind:
        case "list":
            return list(parts.values())
        case "tuple":
            return tuple(parts.values())
        case "slices":
            return ef.IndexedSlices(parts["values"], parts["indices"], shape)
    return parts
