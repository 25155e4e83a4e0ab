"""`show`: the view of an object of eagerflow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Final, Protocol, runtime_checkable

from eagerflow.core.tensor import AbstractArray
from eagerflow.errors import TensorValueError, TraceError
from eagerflow.formatting import seconds_text
from eagerflow.function.bound_function import BoundFunction
from eagerflow.function.traced_function import TracedFunction
from eagerflow.graph.ir import Graph, Node
from eagerflow.pictures.svg import to_svg
from eagerflow.profiling.profiles import Profile
from eagerflow.resources.barrier import BarrierState
from eagerflow.resources.meetings import AbstractMeeting
from eagerflow.resources.queue_levels import to_html
from eagerflow.resources.resources_at_tasks import ResourceAtTask
from eagerflow.views.live import MOST_BOXES, LiveView
from eagerflow.views.object_panels import (
    array_panel,
    dataset_panel,
    model_alarms,
    model_panel,
    profile_panel,
    stage_waits,
)
from eagerflow.views.panels import Probe, picture_svg
from eagerflow.views.view import View, bars, bars_svg, preformatted
from eagerflow.watching import shared
from eagerflow.watching.graph_columns import NodeIndex
from eagerflow.watching.node_costs import NodeCost
from eagerflow.watching.value_pictures import picture_of
from eagerflow.watching.value_statistics import value_statistics

_OPS: Final = 6
_SLOWEST: Final = 5
_BOXES: Final = 40
_ALARMS: Final = 5


@runtime_checkable
class _Module(Protocol):
    """A module of `eagerflow.nn`, which need not be loaded."""

    def summary(self) -> Any:
        """A table of its layers."""

    @property
    def state(self) -> Any:
        """Its variables, by path."""


@runtime_checkable
class _Dataset(Protocol):
    """A dataset of `eagerflow.data`, which need not be loaded."""

    def iterator(self) -> Any:
        """An iterator over its elements."""

    def prefetch(self, count: int) -> Any:
        """The dataset with a stage that prefetches."""


@runtime_checkable
class _Reader(Protocol):
    """An iterator of a dataset."""

    @property
    def dataset(self) -> Any:
        """The dataset that it reads."""

    def _repr_html_(self) -> str: ...


@runtime_checkable
class _Drawn(Protocol):
    """An object with HTML of its own: a queue, an iterator, a profile, a summary."""

    def _repr_html_(self) -> str: ...


def show(obj: object, *, limit: int = MOST_BOXES) -> View:
    """The current view of an object: a text, and in a notebook a picture or a table.

    - A traced function: its traces, with the reasons, and the picture of the graph that was used
      last; its slowest nodes, if `eagerflow.dashboard` watches.
    - A graph: its inputs and outputs, its ops, and its picture.
    - A tensor or a variable: least, largest and mean element, NaN and infinite ones, and the
      distribution of the elements.
    - A queue, an accumulator, a barrier, a mutex, an iterator of a dataset: its level, with the
      number of waiters; of an iterator also how long readers waited, if `eagerflow.dashboard`
      watches. A profile: its tables.
    - A dataset: its stages. A model: its layers, and its variables with NaN or infinite elements.

    Args:
        obj: the object.
        limit: boxes of a graph that a view shows at once; scopes that would exceed it stay closed,
            or are closed if they are farthest from the scope that a reader opens.

    Raises:
        TensorValueError: there is no view of such an object.

    >>> print(ef.show(ef.tensor([[1.0, 1.0], [4.0, 10.0]])))
    f32[2,2]@cpu:0: 1 to 10, mean 4
    █▁▁▁▁▄▁▁▁▁▁▁▁▁▁▄
    """
    if isinstance(obj, BoundFunction):
        obj = obj.__func__
    if isinstance(obj, TracedFunction):
        return _function(obj, limit)
    if isinstance(obj, Graph):
        return _graph(obj, limit)
    if isinstance(obj, AbstractArray):
        return _array(obj)
    if isinstance(obj, _Module) and not isinstance(obj, type):
        return _module(obj)
    if isinstance(obj, _Dataset) and not isinstance(obj, type):
        return _dataset(obj)
    if isinstance(obj, Profile):
        live = _panel("profile", partial(profile_panel, obj))
        return View(repr(obj), obj._repr_html_(), live=live)
    resource = getattr(obj, "resource", None)
    if isinstance(resource, (AbstractMeeting, ResourceAtTask)):
        return _queue(obj, resource)
    if isinstance(obj, _Reader) and not isinstance(obj, type):
        return _reader(obj)
    if isinstance(obj, _Drawn) and not isinstance(obj, type):
        return _drawn(obj)
    if isinstance(resource, BarrierState):
        return _text(repr(obj))
    raise TensorValueError(
        "show: there is no view for an object of this type",
        given=f"an object of the class {type(obj).__name__}",
        expected="a traced function, graph, tensor, variable, queue, dataset, profile or model",
    )


def _queue(obj: object, resource: AbstractMeeting | ResourceAtTask) -> View:
    """The view of a queue or its like; a task tells the level of one that it holds."""
    live = LiveView("queues", resource.label, queues=(resource.label,))
    if isinstance(obj, _Drawn):
        return View(repr(obj), obj._repr_html_(), live=live)
    if isinstance(resource, ResourceAtTask):
        return View(repr(obj), preformatted(repr(obj)), live=live)
    level = resource.level()
    return View(f"{level.name}: {level}", to_html(level.name, [level]), live=live)


def _text(text: str, html: str = "", svg: str = "") -> View:
    return View(text, preformatted(text) + html, svg)


def _drawn(obj: Any) -> View:
    return View(repr(obj), obj._repr_html_())


# --- arrays ---------------------------------------------------------------------------------------


def _array(array: Any) -> View:
    statistics = value_statistics(array.numpy())
    _, _, rest = str(statistics).partition("], ")
    head = f"{array.type}@{array.device}" if "@" not in str(array.type) else str(array.type)
    text = f"{head}: {rest or f'{statistics.size} elements'}"
    if not any(statistics.histogram):
        return _text(text)
    counts = [float(count) for count in statistics.histogram]
    drawn = bars_svg(counts, f"distribution of the elements, {rest}")
    url, label = picture_of(array.numpy())
    picture = picture_svg(url, label) if url else drawn
    text = f"{text}\n{bars(counts)}"
    live = _panel(head, partial(array_panel, array))
    html = f"{preformatted(text)}<div>{drawn}</div><div>{picture}</div>" if url else drawn
    return View(text, html, picture, live)


def _panel(title: str, probe: Probe) -> LiveView:
    return LiveView("panel", title, probe=probe)


# --- models and datasets --------------------------------------------------------------------------


def _module(module: Any) -> View:
    summary, name = module.summary(), type(module).__name__
    live = _panel(name, lambda: model_panel(module.state, name))
    alarms = model_alarms(module.state)
    told = alarms[:_ALARMS]
    if len(alarms) > _ALARMS:
        told.append(f"{len(alarms) - _ALARMS} more variables with NaN or infinite elements")
    text = "\n".join([repr(summary), *told])
    html = summary._repr_html_() + (preformatted("\n".join(told)) if told else "")
    return View(text, html, live=live)


def _dataset(dataset: Any) -> View:
    stages = _stages(repr(dataset))
    text = "\n".join(stages)
    probe = partial(dataset_panel, stages, shared, clock=perf_counter)
    return View(text, preformatted(text), live=_panel("dataset", probe))


def _reader(reader: _Reader) -> View:
    """The level of each stage, and how long readers of stages of these names waited."""
    waits = stage_waits(_stages(repr(reader.dataset)), shared, perf_counter)
    told = [
        f"  {w.stage}: {w.elements:,} elements, its reader waited {seconds_text(w.waited)}"
        + f", {w.share:.0%} of the time".replace("%", " %") * shared.is_open
        for w in waits if w is not None
    ]  # fmt: skip
    html = reader._repr_html_() + (preformatted("\n".join(told)) if told else "")
    return View("\n".join([repr(reader), *told]), html)


# --- graphs and functions -------------------------------------------------------------------------


def _graph(graph: Graph, limit: int) -> View:
    nodes = NodeIndex(graph).nodes
    lines = [f"graph {graph.name or 'without a name'}: {_counted(nodes)}"]
    lines += [f"  takes {', '.join(map(repr, graph.inputs))}"] * bool(graph.inputs)
    lines.append(f"  gives {', '.join(str(v.spec) for v in graph.outputs) or 'nothing'}")
    devices = Counter(str(n.device) for n in nodes if n.device)
    if len(devices) > 1:
        lines.append("  on " + ", ".join(f"{name} ({n} nodes)" for name, n in devices.items()))
    picture = _picture(graph)
    text = "\n".join(lines)
    live = LiveView("graph", graph.name or "graph", graph, limit=limit)
    return View(text, preformatted(text) + picture["text/html"], picture["image/svg+xml"], live)


def _picture(graph: Graph) -> dict[str, str]:
    """A picture with as many boxes as can be read at once; `Graph` itself shows more."""
    return to_svg(graph, limit=_BOXES)._repr_mimebundle_()


def _counted(every: Iterable[Node]) -> str:
    """Text of the number of nodes, and of their ops."""
    nodes = [node.op for node in every if node.op != "constant"]
    counts = Counter(nodes).most_common()
    shown = [f"{op} {count} times" if count > 1 else op for op, count in counts[:_OPS]]
    shown += [f"{len(counts) - _OPS} more ops"] * (len(counts) > _OPS)
    return f"{len(nodes)} node{'s' * (len(nodes) != 1)}: {', '.join(shown) or 'none'}"


def _function(function: TracedFunction[..., Any], limit: int) -> View:
    lines = [repr(function)[1:-1]]
    lines += [f"  {i}. {t.signature}: {t.reason}" for i, t in enumerate(function.traces, 1)]
    try:
        entry = function.latest()
    except TraceError:
        return _text("\n".join([*lines, "  call it to get a graph"]))
    graph = _graph(entry.optimised, limit)
    numbers = [one.number for one in entry.executables()]
    lines += graph.text.split("\n") + list(_times(numbers))
    text, drawn = "\n".join(lines), graph.html.removeprefix(preformatted(graph.text))
    shown, name = entry.optimised, entry.optimised.name or "graph"
    live = LiveView("graph", name, shown, (numbers[0],), limit=limit)
    return View(text, preformatted(text) + drawn, graph.svg, live)


def _times(numbers: Iterable[int]) -> Iterable[str]:
    """Texts about the times of executables, as far as they were watched."""
    for number in numbers:
        times, observed = shared.log.executables.get(number), shared.observed(number)
        if times is not None and times.count:
            p50, p95 = times.recent.percentiles(50, 95)
            yield f"{times.count:,} steps: {seconds_text(p50)}, p95 {seconds_text(p95)}"
            yield from cost_lines([] if observed is None else observed.costs.table())


def cost_lines(costs: Sequence[NodeCost]) -> list[str]:
    """The slowest nodes, a line each."""
    return [
        f"  {cost.share:4.0%} {cost.node}{f' in {cost.layer}' * bool(cost.layer)}, "
        f"{seconds_text(cost.seconds)} (of {cost.steps} observed steps)"
        for cost in costs[:_SLOWEST]
    ]


# --- datasets -------------------------------------------------------------------------------------


def _stages(text: str) -> list[str]:
    """The calls that made a dataset, a line each: split at the dots between them."""
    lines, depth, quote = [""], 0, ""
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote and text[i - 1] != "\\" else quote
        elif c in "'\"":
            quote = c
        elif c in "([{<":
            depth += 1
        elif c in ")]}>":
            depth -= 1
        if c == "." and not depth and not quote and text[i - 1] == ")":
            lines.append("  ")
        lines[-1] += c
    return lines
