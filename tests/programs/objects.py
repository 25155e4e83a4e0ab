"""Random programs over objects of Python: nested containers, records, aliases of one object.

A program is a list of statements on a *world*, written as lines of a function whose argument is a
tensor; the changes of the world between two calls are a list of such statements as well. So any
list of numbers is a program, and shrinks to a shorter one.
"""

from __future__ import annotations

import bisect
import copy
import heapq
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import eagerflow as ef
from tests.programs.source import function_of, indented

__all__ = ["CHANGES", "READS", "WRITES", "World", "function_on", "portrait"]


class AttributeDict(dict):
    """A dict whose items are attributes as well."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


@dataclass
class Config:
    """Settings, which are compared by value."""

    rate: float = 0.5
    steps: int = 2
    mode: str = "up"
    parts: list[Any] = field(default_factory=lambda: [1, 2.0])


class Made:
    """An object of a class that no run of a graph can make."""

    def __init__(self, n: Any, parts: Any) -> None:
        self.n = n
        self.parts = parts


class World:
    """The objects that a program can reach: containers, records, numbers and tensors."""

    def __init__(self) -> None:
        self.box: Any = {"n": 1, "loss": [2.5, 1.5], "inner": {"k": [0.5, 3]}}
        self.config = Config()
        self.other = Config()
        self.options = AttributeDict(lr=0.25, depth=3, names=["a", "b"])
        self.space = SimpleNamespace(scale=2.0, count=0)
        self.items: list[Any] = [1.0, 2, ef.tensor([0.5, -1.0])]
        self.same: Any = self.items
        self.heap: list[Any] = [0.5, 1.5, 4.0]
        self.queue: deque[Any] = deque([1.0, 2.0], maxlen=4)
        self.counts: Counter[str] = Counter("aab")
        self.order: OrderedDict[str, Any] = OrderedDict(p=1.0, q=2)
        self.flags = {1, 2}
        self.weight = ef.tensor([1.0, 2.0])
        self.twin = self.weight
        self.pair: Any = (1.0, [2.0])
        self.total: Any = 0.0
        self.made = Made(1.0, [2.0])


#: expressions that give a number or a tensor that fits ``x``
READS = (
    "world.box['n']", "world.box['inner']['k'][0]", "world.config.rate", "world.config.steps",
    "world.options.lr", "world.options['depth']", "world.space.scale", "len(world.items)",
    "len(world.box['loss'])", "len(world.same)", "world.weight", "world.twin", "world.total",
    "sum(world.heap)", "max(world.heap)", "world.pair[0]", "world.pair[1][-1]",
    "sum(world.counts.values())", "world.counts['a']", "world.order['p']", "len(world.order)",
    "len(world.queue)", "world.queue[0]", "len(world.flags)", "world.config.parts[0]",
    "(2.0 if world.config == world.other else 3.0)",
    "(2.0 if world.items is world.same else 3.0)",
    "(2.0 if world.weight is world.twin else 3.0)",
    "(2.0 if 'lr' in world.options else 3.0)", "(2.0 if 3 in world.flags else 3.0)",
    "(2.0 if world.config.mode == 'up' else 3.0)", "len(repr(world.other))",
    "sum(v for v in world.box['loss'])", "len(sorted(world.heap))", "len(world.options.names)",
    "world.space.count", "(world.config.rate + world.config.steps)",
)  # fmt: skip
#: statements that change the world, some of them by the tensor ``y``
WRITES = (
    "world.box['n'] += 1", "world.box['loss'].append(y.sum())", "world.box['loss'].append(0.5)",
    "world.box['inner']['k'].insert(0, 1.0)", "world.box['inner']['k'][0] = y.mean()",
    "world.box['new'] = y * 2", "world.box.pop('new', None)",
    "world.box['inner'] = {'k': [y.sum()]}",
    "world.config.rate = world.config.rate * 0.5", "world.config.steps += 1",
    "world.config.mode = 'down'", "world.config.parts.append(3)", "world.other = Config()",
    "world.options['lr'] = y.mean()", "world.options.depth = 4", "world.options.names.append('c')",
    "world.space.count += 1", "world.space.scale = y.sum()",
    "world.items[0] = y", "world.items.append(1)", "world.items.pop(0)", "world.items.reverse()",
    "world.items.insert(1, 2.5)", "world.items[1:2] = [7, 8.0]", "world.same.append(2.0)",
    "world.same = list(world.items)", "del world.items[-1]", "world.items.clear()",
    "heapq.heappush(world.heap, 0.75)", "heapq.heappop(world.heap)",
    "bisect.insort(world.heap, 1.0)", "world.heap.sort(reverse=True)",
    "world.queue.append(3.0)", "world.queue.appendleft(y.sum())", "world.queue.popleft()",
    "world.counts['a'] += 1", "world.counts.update('bc')", "world.order.move_to_end('p')",
    "world.order['r'] = y.mean()", "world.flags.add(3)", "world.flags.discard(1)",
    "world.weight += y", "world.weight = world.weight + 1", "world.twin = world.weight",
    "world.twin *= 2", "world.pair[1].append(y.sum())", "world.pair = (world.total, [1.0])",
    "world.total += 1.5", "world.total = y.sum()", "world.box = dict(world.box, n=5)",
    "world.made = Made(y.sum(), world.items)", "world.box['made'] = Made(y, [y, y])",
    "world.made.parts.append(y)", "world.same = world.made.parts",
    "world.made = Made(world.total, (world.weight, world.made))", "world.made.n = y",
    "world.other.parts = [world.made, y]", "world.total = world.made.n",
)  # fmt: skip
#: further changes between calls
CHANGES = (
    "world.same = world.items", "world.same = list(world.items)",
    "world.twin = ef.tensor([3.0, 1.0])", "world.weight = world.twin",
    "world.config = Config(0.75, 3)", "world.other = world.config",
    "world.other = copy.deepcopy(world.config)", "world.box = copy.deepcopy(world.box)",
    "world.options = AttributeDict(lr=1.5, depth=1, names=[])", "world.total = 3",
    "world.items[:] = [2.0, 1, ef.tensor([1.0, 1.0])]", "world.space.scale = 3",
)  # fmt: skip
_NAMES: dict[str, Any] = {
    "AttributeDict": AttributeDict, "Config": Config, "Made": Made, "bisect": bisect, "copy": copy,
    "ef": ef, "heapq": heapq,
}  # fmt: skip


class Line(NamedTuple):
    """A statement of a program: a read, a write, or one of them under a condition of Python.

    Attributes:
        what: the index of a read or write.
        guard: the index of the condition around it, mostly none.
    """

    what: int
    guard: int = 0


_GUARDS = ("", "", "", "if world.config.steps > 2:", "for _ in range(2):",
           "if len(world.items) > 2:", "if y.sum() > 0:", "try:")  # fmt: skip


def lines_of(program: Sequence[Line], *, fails: bool) -> list[str]:
    """The lines of a program; in the end it may raise an exception."""
    lines = ["y = x * 1.0"]
    for what, guard in program:
        i = what % (len(READS) + len(WRITES))
        line = f"y = y + {READS[i]} * x" if i < len(READS) else WRITES[i - len(READS)]
        head = _GUARDS[guard % len(_GUARDS)]
        lines += [head, f"    {line}"] if head else [line]
        if head == "try:":
            lines += ["finally:", "    world.space.count += 2"]
    return [*lines, "raise ValueError('the end')" if fails else "return y"]


def function_on(
    world: World, program: Sequence[Line], *, fails: bool = False
) -> Callable[[Any], Any]:
    """A program as a function of a tensor."""
    lines = ["def program(x):", *indented(lines_of(program, fails=fails))]
    return function_of(lines, {**_NAMES, "world": world})


def change(world: World, what: int) -> None:
    """Change a world outside of all traces."""
    statements = (*CHANGES, *WRITES)
    lines = ["def program(y):", f"    {statements[what % len(statements)]}"]
    function_of(lines, {**_NAMES, "world": world})(ef.tensor([0.25, 0.5]))


def portrait(world: Any) -> Any:
    """The observable state of a world, including the identity of its objects."""
    known: dict[int, int] = {}

    def of(x: Any) -> Any:
        if isinstance(x, (bool, int, float, str, type(None))):
            return type(x).__name__, repr(x)
        if id(x) in known:
            return "again", known[id(x)]
        known[id(x)] = len(known)
        if isinstance(x, ef.Tensor):
            return str(x.type), x.numpy().tobytes()
        if isinstance(x, dict):
            return type(x).__name__, [(of(k), of(v)) for k, v in x.items()]
        if isinstance(x, (set, frozenset)):
            return type(x).__name__, sorted(map(repr, x))
        if isinstance(x, (list, tuple, deque)):
            return type(x).__name__, [of(i) for i in x]
        return type(x).__name__, [(k, of(v)) for k, v in vars(x).items()]

    return of(world)
