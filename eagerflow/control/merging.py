"""Merges the results of branches: one type for each leaf, or an error with both lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from eagerflow.control.subgraphs import ResultLeaf, Subgraph, kind_of
from eagerflow.core import tree
from eagerflow.dims import Dim, Size, same, symbols
from eagerflow.errors import EagerflowError, TraceError
from eagerflow.graph.kinds import ValueSpec
from eagerflow.ops.rules.promotion import weak_fits
from eagerflow.tracing.numbers import TracedNumber
from eagerflow.tracing.tracer import Tracer
from eagerflow.types import TensorSpec

__all__ = ["NO_TEXT", "OutputPlace", "merged", "same_number"]

#: the advice where branches give different texts
NO_TEXT: Final = (
    "a text cannot be chosen by a tensor: choose a number with ef.where(condition, 0, 1), return "
    "it, and look the text up outside; or print or raise it in the branches"
)
_KEY: Final = re.compile(r"\['([^']*)'\]")


class OutputPlace(NamedTuple):
    """The stand-in for a leaf that is an output of the node.

    Attributes:
        number: the number of the output.
    """

    number: int


def merged(
    op: str, parts: Sequence[Subgraph], tracer: Tracer, outside: frozenset[str]
) -> tuple[list[Any], list[ValueSpec]]:
    """Set the outputs of the graphs of branches.

    Args:
        op: for messages.
        parts: the branches.
        tracer: the trace around them.
        outside: the names of sizes that are known there.

    Returns:
        For each leaf an `OutputPlace`, or the outer value that all branches give; and the types
        of the outputs.

    Raises:
        TraceError: the structures or the types of a leaf do not go together.
    """
    first = parts[0]
    for other in parts[1:]:
        if other.treedef != first.treedef:
            raise TraceError(
                f"{op}: the branches give different structures",
                given=f"{tree.show(first.treedef)} from {first.where}\n"
                f"    and {tree.show(other.treedef)} from {other.where}",
                hint="let all branches give the same; what only one of them makes needs a value "
                "in the others too, such as zeros",
            )
    results: list[Any] = []
    kinds: list[ValueSpec] = []
    for i in range(len(first.leaves)):
        common = _common(op, parts, i)
        if common is not None:
            results.append(common[0])
            continue
        results.append(OutputPlace(len(kinds)))
        kinds.append(_merge(op, parts, i, tracer, outside))
    return results, kinds


def _common(op: str, parts: Sequence[Subgraph], i: int) -> tuple[Any] | None:
    """The value that all branches give as leaf ``i``, if none of them made it."""
    leaves = [p.leaves[i] for p in parts]
    first = leaves[0].what
    if all(leaf.kind == "static" for leaf in leaves):
        for other in range(1, len(parts)):
            if leaves[other].what is not first and leaves[other].what != first:
                texts = isinstance(first, str) and isinstance(leaves[other].what, str)
                raise _differ(op, parts, i, other, "objects", NO_TEXT if texts else None)
        return (first,)
    if all(leaf.kind == "number" for leaf in leaves):
        made = any(_is_made_in(p, leaf) for p, leaf in zip(parts, leaves, strict=True))
        if not made and all(same_number(leaf.what, first) for leaf in leaves):
            return (first,)
    return None


def _is_made_in(part: Subgraph, leaf: ResultLeaf) -> bool:
    return type(leaf.what) is TracedNumber and leaf.what.tracer is part.tracer


def same_number(a: Any, b: Any) -> bool:
    """Whether two numbers are equal and of one kind."""
    if type(a) is not type(b):
        return False
    if type(a) is TracedNumber:
        return a.value is b.value
    return same(a, b) if type(a) is Dim else repr(a) == repr(b)


def _merge(
    op: str, parts: Sequence[Subgraph], i: int, tracer: Tracer, outside: frozenset[str]
) -> ValueSpec:
    """The type of leaf ``i``; it becomes an output of all graphs."""
    leaves = [p.leaves[i] for p in parts]
    for other, leaf in enumerate(leaves):
        if (leaf.kind == "static") != (leaves[0].kind == "static"):
            raise _differ(op, parts, i, other, "kinds of values")
    if all(leaf.kind == "number" for leaf in leaves):
        kinds = [kind_of(leaf.what) for leaf in leaves]
        for other, kind in enumerate(kinds):
            if kind != kinds[0]:
                hint = "write 0.0 for a float"
                raise _differ(op, parts, i, other, "kinds of numbers", hint)
        for part in parts:
            part.graph.outputs.append(part.number(i))
        return kinds[0]
    return _merge_tensors(op, parts, i, tracer, outside)


def _merge_tensors(
    op: str, parts: Sequence[Subgraph], i: int, tracer: Tracer, outside: frozenset[str]
) -> TensorSpec:
    leaves = [p.leaves[i] for p in parts]
    first = next(j for j, leaf in enumerate(leaves) if leaf.value is not None)
    value = leaves[first].value
    assert value is not None
    kind: Any = value.spec
    shape: list[Size | None] = list(kind.shape)  # None for a size that differs
    for other, leaf in enumerate(leaves):
        if leaf.value is None:
            if shape or not weak_fits(leaf.what, kind.dtype):
                raise _differ(op, parts, i, other, "types", against=first)
            continue
        spec: Any = leaf.value.spec
        if spec.dtype is not kind.dtype:
            hint = "convert one: x.astype(...)"
            if (parts[0].said or "").startswith(("what `and`", "what `or`")):
                hint += "; to choose between two values, write `y if x else z`"
            raise _differ(op, parts, i, other, "dtypes", hint, first)
        if len(spec.shape) != len(shape):
            raise _differ(op, parts, i, other, "numbers of axes", against=first)
        if spec.device is not kind.device:
            raise _differ(op, parts, i, other, "devices", f"move one: x.to('{kind.device}')", first)
        shape = [
            a if a is not None and same(a, b) else None
            for a, b in zip(shape, spec.shape, strict=True)
        ]
    sizes = [
        tracer.fresh_size("size") if d is None or not symbols((d,)) <= outside else d for d in shape
    ]
    for part, leaf in zip(parts, leaves, strict=True):
        part.graph.outputs.append(part.tensor(i, kind) if leaf.value is None else leaf.value)
    return kind.like(shape=tuple(sizes))  # type: ignore[no-any-return]  # the type of a tensor


def _leaf_name(op: str, path: str, said: str | None) -> str:
    """A leaf of the result of a branch, for messages.

    Args:
        op: the op.
        path: of the leaf.
        said: the Python construct of which it is a branch: then the keys of the result are
            names of variables, and the empty one is its value.
    """
    if said is None:
        return f"{op}: result{path}" if path else f"{op}: the result"
    match = _KEY.match(path)
    name = match[1] if match else ""
    return f"{name or said}{path[match.end() :] if match else path}"


def _differ(
    op: str, parts: Sequence[Subgraph], i: int, other: int, what: str, hint: str | None = None,
    against: int = 0,
) -> EagerflowError:  # fmt: skip
    paths = tree.paths(parts[0].treedef)
    a, b = sorted((against, other))
    of = "on" if what == "devices" else "of"
    return TraceError(
        f"{_leaf_name(op, paths[i], parts[0].said)} is {of} different {what} in two branches",
        given=f"{parts[a].leaves[i].text} from {parts[a].line(i)}\n"
        f"    and {parts[b].leaves[i].text} from {parts[b].line(i)}",
        hint=hint,
    )
