"""`Holders`: finds the holders of objects, mostly without a scan of all objects of the program."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator, Sequence
from sys import getrefcount
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Final, final
from weakref import ref

from eagerflow.graph.ir import Graph, Node, Value

#: maximum number of objects near a trace that are visited; failures had 80 to 450
_NEAR: Final = 5_000
#: maximum number of items of a container that is visited
_WIDE: Final = 2_000
_CONTAINERS: Final = (list, tuple, dict, set, frozenset, deque)
#: types of objects that hold no tensor or number of a trace themselves, and many others
_CLOSED: Final = (ModuleType, type, CodeType, BuiltinFunctionType, ref, Graph, Node, Value)


@final
class Holders:
    """Finds the holders of objects of a trace: the objects that refer to them.

    Python keeps no list of holders, and `gc.get_referrers` scans all objects of the program. But an
    object has a reference count: if as many references are found near the trace, there are no
    others.

    Args:
        near: objects where the search begins, such as the function that was called.
    """

    def __init__(self, near: Sequence[Any]) -> None:
        self._near = list(near)

    def of(self, objects: list[Any], own: Sequence[Any] = ()) -> list[list[Any]]:
        """The holders of each object.

        No local variable of a running call may hold an object, or the whole program is scanned.

        Args:
            objects: the objects.
            own: containers that do not count; nor does ``objects``.
        """
        near = self.near(objects, own)
        return _anywhere(objects, own) if near is None else near

    def near(self, objects: list[Any], own: Sequence[Any] = ()) -> list[list[Any]] | None:
        """As `of`; None if an object has holders that are not near."""
        left = {key: count - _OWN for key, count in _counts(objects).items()}
        for container in (objects, *own):
            for x in gc.get_referents(container):
                if id(x) in left:
                    left[id(x)] -= 1
        holders: dict[int, list[Any]] = {key: [] for key in left}
        missing = sum(count != 0 for count in left.values())
        counted = {id(objects), *map(id, own)}
        for holder, held in _walk(self._near) if missing else ():
            if id(holder) in counted:
                continue
            for key in [id(x) for x in held if id(x) in left]:
                missing += (left[key] == 0) - (left[key] == 1)
                left[key] -= 1
                if not any(holder is known for known in holders[key]):
                    holders[key].append(holder)
            if not missing:
                return [holders[id(x)] for x in objects]
        return None if missing else [[] for _ in objects]


def _walk(roots: Sequence[Any]) -> Iterator[tuple[Any, list[Any]]]:
    """The objects reachable from the roots, the nearest first, each with its referents."""
    queue = deque(roots)
    seen: set[int] = set()
    while queue and len(seen) < _NEAR:
        holder = queue.popleft()
        if id(holder) in seen:
            continue
        seen.add(id(holder))
        held = gc.get_referents(holder)
        yield holder, held
        if type(holder) is FunctionType:
            names = holder.__globals__
            held += [names[name] for name in holder.__code__.co_names if name in names]
        queue.extend(x for x in held if _leads_on(x))


def _leads_on(x: Any) -> bool:
    """Whether to visit the referents of an object; no code of its class runs."""
    kind = type(x)
    if not gc.is_tracked(x) or issubclass(kind, _CLOSED):
        return False
    plain: Any = next((plain for plain in _CONTAINERS if issubclass(kind, plain)), None)
    if plain is None:
        return True
    return plain.__len__(x) <= _WIDE and not (kind is dict and "__builtins__" in x)


def _anywhere(objects: list[Any], own: Sequence[Any]) -> list[list[Any]]:
    """The holders of each object among all objects of the program."""
    holders: dict[int, list[Any]] = {id(x): [] for x in objects}
    known = {id(objects), *map(id, own)}
    for holder in gc.get_referrers(*objects) if objects else ():
        if id(holder) not in known:
            for key in holders.keys() & set(map(id, gc.get_referents(holder))):
                holders[key].append(holder)
    return [holders[id(x)] for x in objects]


def _counts(objects: list[Any]) -> dict[int, int]:
    return {id(x): getrefcount(x) for x in objects}


#: number of references that `_counts` itself adds, besides that of the list
_OWN: Final = next(iter(_counts([object()]).values())) - 1
