"""Matching of a checkpoint with a live tree, and restoring once all values have been read.

Saved and live values are matched by path: a list of two layers fits a dict with keys 0 and 1, the
state of a module fits the module.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, final

import eagerflow as ef
from eagerflow.checkpoint.additions import additions
from eagerflow.checkpoint.nodes import ARRAYS, LEAVES, TreeNode, assembled, build, leaves, walk
from eagerflow.checkpoint.shards import Stored
from eagerflow.errors import CheckpointError
from eagerflow.extending import first_names, renaming
from eagerflow.types import TensorType

Partial = bool | Callable[[str], bool]
Rename = Mapping[str, str] | Callable[[str], str | None] | None


@final
@dataclass(slots=True)
class RestorePlan:
    """The matching of saved nodes with a live tree.

    Attributes:
        like: the live tree.
        taken: the saved nodes for the leaves of ``like`` and for the objects that restore
            themselves, by the ids of their nodes.
        left: paths of ``like`` without a saved value, except those excluded by ``partial``.
        unused: paths of the checkpoint without a target.
    """

    like: TreeNode
    taken: dict[int, TreeNode] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        """The names of the tensors that have to be read."""
        return {n.value for root in self.taken.values() for n in leaves(root) if n.kind in ARRAYS}


def fit(
    like: TreeNode, saved: TreeNode, stored: Mapping[str, Stored], partial: Partial, rename: Rename
) -> RestorePlan:
    """Match a saved tree with a live one.

    Raises:
        CheckpointError: the two do not fit; all differences are listed.
    """
    plan = RestorePlan(like)
    there, containers = _renamed(saved, rename)
    used: set[int] = set()
    misfits: list[str] = []
    shared: dict[int, Stored] = {}
    for target in _targets(like):
        path = target.path
        if callable(partial) and not partial(path):
            continue
        hooked = target.kind == "state"
        source = (containers if hooked else there).get(path)
        if source is None:
            plan.left.append(path)
            continue
        used.update(map(id, leaves(source)))
        plan.taken[id(target)] = source
        wrong = _hook_misfit(target) if hooked else _misfit(target, source, stored, shared)
        misfits += [f"{path or 'the tree'} ({wrong})"] if wrong else []
    plan.unused = [path for path, leaf in there.items() if id(leaf) not in used]
    _check(plan, partial, misfits, additions(like, saved, stored) if rename is None else "")
    return plan


# --- paths --------------------------------------------------------------------------------------


def _renamed(saved: TreeNode, rename: Rename) -> tuple[dict[str, TreeNode], dict[str, TreeNode]]:
    """Leaves and containers of a checkpoint by their renamed paths."""
    to = _renamer(rename, saved)
    there: dict[str, TreeNode] = {}
    folders: dict[str, TreeNode] = {}
    inner = {id(leaf) for leaf in leaves(saved)}
    for node in walk(saved):
        path = to(node.path)
        if path is None:
            continue
        if id(node) not in inner:
            folders.setdefault(path, node)
        elif there.setdefault(path, node) is not node:
            raise CheckpointError(
                "load: rename= gives one path to two values",
                given=f"{there[path].path!r} and {node.path!r} both become {path!r}",
            )
    return there, folders


def _renamer(rename: Rename, saved: TreeNode) -> Callable[[str], str | None]:
    if rename is None:
        return lambda path: path
    if callable(rename):
        return rename
    order = sorted(rename, key=len, reverse=True)
    paths = [node.path for node in walk(saved)]
    for old in order:
        if not any(_below(path, old) for path in paths):
            raise CheckpointError(
                f"load: rename= names {old!r}, which the checkpoint does not have",
                given=f"it has: {first_names([leaf.path for leaf in leaves(saved)])}",
            )

    def to(path: str) -> str:
        for old in order:
            if _below(path, old):
                rest = path[len(old) :].removeprefix(".")
                return ".".join(part for part in (rename[old], rest) if part)
        return path

    return to


def _below(path: str, prefix: str) -> bool:
    return not prefix or path == prefix or path.startswith(f"{prefix}.")


# --- matching -----------------------------------------------------------------------------------


def _targets(node: TreeNode) -> Iterator[TreeNode]:
    """The leaves of a live tree; objects that restore themselves stand in place of their leaves."""
    if node.kind == "state" and _restores_itself(node):
        yield node
        return
    if node.kind in LEAVES:
        yield node
    for _, child in node.children:
        yield from _targets(child)


def _restores_itself(node: TreeNode) -> bool:
    """Whether the state of an object is more than variables, which are restored in place."""
    state = node.children[0][1]
    return not _in_place(state) or not leaves(state)


def _in_place(node: TreeNode) -> bool:
    if node.kind == "state":
        return True  # restores itself
    if node.children:
        return all(_in_place(child) for _, child in node.children)
    return node.kind not in ("tensor", "plain")


def _hook_misfit(node: TreeNode) -> str:
    if _hook(node.value) is not None:
        return ""
    kind = type(node.value).__name__
    return f"the state of a {kind} has values that are not variables, and it has no load_state"


def _hook(owner: Any) -> Callable[[dict[str, Any]], None] | None:
    """The function that sets the state of ``owner``; None if there is none."""
    load: Callable[[dict[str, Any]], None] | None = getattr(owner, "load_state", None)
    if callable(load):
        return load
    declared = getattr(type(owner), "state", None)
    if "state" in getattr(owner, "__dict__", {}) or getattr(declared, "fset", None) is not None:
        return lambda state: setattr(owner, "state", state)
    return None


def _misfit(
    target: TreeNode, source: TreeNode, stored: Mapping[str, Stored], shared: dict[int, Stored]
) -> str:
    """The reason why ``source`` does not fit a leaf, in words; empty if it fits."""
    if target.kind in ARRAYS and source.kind in ARRAYS:
        here, there = target.value, stored[source.value]
        if here.dtype is not there.dtype or tuple(here.shape) != there.shape:
            saved = TensorType(there.dtype, there.shape)
            return f"{saved} for {TensorType(here.dtype, here.shape)}"
        first = shared.setdefault(id(here), there) if target.kind == "variable" else there
        if first.checksum != there.checksum:
            return "one variable here, and two values in the checkpoint"
        return ""
    if target.kind != source.kind:
        return f"{_words(source)} for {_words(target)}"
    if target.kind == "plain":
        kinds = {type(target.value), type(source.value)} - {type(None)}
        if len(kinds) > 1:
            return f"{source.value!r} for {target.value!r}"
    return ""


def _words(node: TreeNode) -> str:
    return type(node.value).__name__ if node.kind == "plain" else f"a {node.kind}"


def _check(plan: RestorePlan, partial: Partial, misfits: list[str], entries: str) -> None:
    missing = plan.left if partial is False or callable(partial) else []
    unexpected = plan.unused if partial is False else []
    lists = (("missing", missing), ("unexpected", unexpected), ("not fitting", misfits))
    wrong = [f"{title}: {first_names(names)}" for title, names in lists if names]
    if wrong:
        take = "partial=True takes the values that are there" if partial is False else None
        if entries and not missing:
            take = f"add {entries} to like=, and take it from the result; partial=True leaves it"
        renamed = renaming(missing, unexpected)
        if renamed is not None and take is not None:
            take = f"rename={{{renamed[0]!r}: {renamed[1]!r}}}, if these are the same; or {take}"
        leave = "partial=lambda path: ... says which paths are taken"
        raise CheckpointError(
            "load: the checkpoint does not fit like=",
            given="; ".join(wrong),
            expected="the same paths, dtypes and shapes",
            hint=leave if misfits else take,
        )
    if partial is not False and not plan.taken:
        raise CheckpointError(
            "load: nothing of like= is in the checkpoint",
            given=f"paths of like=: {first_names(plan.left)}",
            expected=f"paths of the checkpoint: {first_names(plan.unused)}",
            hint="rename= maps the paths of the checkpoint to those of like=",
        )


# --- restoring ----------------------------------------------------------------------------------


def put(plan: RestorePlan, tensors: Mapping[str, ef.Tensor]) -> Any:
    """Restore in place all that can be; returns a tree like ``plan.like``.

    Objects with a hook come first, since their own code may refuse: then the objects already
    restored get their old state back.
    """
    moved: dict[int, ef.Tensor] = {}
    hooks: list[tuple[TreeNode, dict[str, Any]]] = []
    for node in walk(plan.like):
        source = plan.taken.get(id(node))
        if source is not None and node.kind == "state":
            hooks.append((node, build(source, tensors)))
        elif source is not None and node.kind in ARRAYS:
            moved[id(node)] = tensors[source.value].to(node.value.device)
    result = _rebuilt(plan.like, plan.taken, moved)
    _run(hooks)
    for node in walk(plan.like):
        source = plan.taken.get(id(node))
        if source is None:
            continue
        if node.kind == "generator":
            node.value.state = dict(zip(("seed", "ticket"), source.value, strict=True))
        elif node.kind == "variable":
            node.value.assign(moved.pop(id(node)))
    return result


def _run(hooks: list[tuple[TreeNode, dict[str, Any]]]) -> None:
    done: list[TreeNode] = []
    try:
        for node, state in hooks:
            done.append(node)
            hook = _hook(node.value)
            if hook is not None:
                hook(state)
    except BaseException:
        for node in reversed(done):
            hook = _hook(node.value)
            if hook is not None:
                with suppress(Exception):  # the first error is the one to report
                    hook(_rebuilt(node.children[0][1], {}, {}))
        raise


def _rebuilt(node: TreeNode, taken: Mapping[int, TreeNode], moved: Mapping[int, ef.Tensor]) -> Any:
    """A tree like that of ``node``, with the leaves that are taken from the checkpoint."""
    if not node.children:
        source = taken.get(id(node))
        if source is None or node.kind not in ("tensor", "plain"):
            return node.value
        return moved[id(node)] if node.kind == "tensor" else source.value
    if node.kind == "state":
        return node.value
    parts = {key: _rebuilt(child, taken, moved) for key, child in node.children}
    if node.kind not in ("dict", "fields"):
        return assembled(node.kind, parts, getattr(node.value, "shape", None))
    if isinstance(node.value, tuple):
        return type(node.value)(*parts.values())
    made = copy.copy(node.value)  # keeps its class and other attributes
    if node.kind == "dict":
        made.update(parts)
    else:
        for name, part in parts.items():
            object.__setattr__(made, name, part)  # also where the class is frozen
    return made
