"""Python's builtins in converted code, for values that only the graph knows.

`any`, `all`, `sum`, `max`, `min`, `pow`, `type`, `list`, `print`, `id` and `next`. For `range`,
`zip`, `enumerate` and `reversed` see `autograph/flow/iterables.py`, for builtins that make texts
`autograph/values/formatting.py`.
"""

from __future__ import annotations

import builtins
import math
import operator as operators
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial, reduce
from typing import Any, Final
from weakref import WeakKeyDictionary

from eagerflow.autograph.conversion.comprehensions import REDUCTIONS
from eagerflow.autograph.conversion.convert import call, operator, replacements, with_numbers
from eagerflow.autograph.flow.conditionals import choose, if_, not_, or_
from eagerflow.autograph.flow.identity import is_, is_not, note
from eagerflow.autograph.flow.iterables import AbstractSource, as_source
from eagerflow.autograph.flow.loop_statements import for_
from eagerflow.autograph.tracking.blocks import as_test, refuse_reached, tracer_here
from eagerflow.autograph.values.formatting import is_symbolic
from eagerflow.autograph.values.lists import Grown
from eagerflow.core import interpreter
from eagerflow.core.placeholders import has_placeholder
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.core.to_tensor import tensor_of
from eagerflow.dims import Dim, maximum, minimum, spelled
from eagerflow.dims.number_stand_ins import AbstractAsked, asked
from eagerflow.errors import ShapeError, TraceError
from eagerflow.graph.ir import Node
from eagerflow.graph.passes.rewrite import effect_of
from eagerflow.ops.state import callbacks
from eagerflow.source import capture
from eagerflow.tracing.numbers import extreme
from eagerflow.tracing.numpy_arrays import TracedArray
from eagerflow.tracing.tracer import Tracer

_KNOWN: Final = tuple(getattr(builtins, name) for name in sorted(REDUCTIONS))

#: by trace, the lines that print, by file and number: whether they print in each run
_printed: Final[WeakKeyDictionary[Tracer, dict[tuple[str, int], bool]]] = WeakKeyDictionary()


@operator
def reduced(function: Any, made: Callable[[], Any], plain: Callable[[], Any]) -> Any:
    """A call of a builtin with a comprehension, or of another function of the builtin's name."""
    known = any(function is one for one in _KNOWN)
    return made() if known else plain()


def _all(items: Iterable[Any], /) -> Any:
    """`all`; a bool tensor if a tensor among the items decides."""
    return not_(_any(items, wanted=False))


def _any(items: Iterable[Any], /, *, wanted: bool = True) -> Any:
    """`any`, likewise: whether the truth of an item is ``wanted``."""
    source = _rows_of(items)
    if source is not None:
        rows = _scalars(source)
        return (rows != 0 if wanted else rows == 0).any()
    result: Any = False
    nodes = tracer_here().graph.nodes if interpreter.is_traced() else []
    known = -1  # number of nodes when a tensor first decided
    for x in items:
        if known >= 0 and hasattr(items, "__next__"):
            _refuse_effects(nodes[known:])
        truth = as_test(x)
        value = bool(x) if truth is None else truth
        result = or_(result, lambda value=value: value if wanted else not_(value))
        if result is True:
            return True
        known = len(nodes) if known < 0 and result is not False else known
    return result


def _refuse_effects(nodes: Iterable[Node]) -> None:
    """Refuse effects in the computation of an item that need not be computed."""
    late = next((node for node in nodes if effect_of(node) != "pure"), None)
    if late is not None:
        raise TraceError(
            "any() or all() of a generator with side effects, and a tensor decides where it ends",
            given=f"{late.op}, at {late.source}",
            hint="write the generator in the call, any(f(x) for x in xs), or a loop",
        )


def _rows_of(items: Any) -> AbstractSource | None:
    """The source for a loop in the graph, as it is now; None for an iterable of Python."""
    return as_source(tensor_of(items) if isinstance(items, AbstractArray) else items)


def _scalars(source: Any) -> Tensor:
    """The rows of a tensor, one element each."""
    (rows,) = source.rows()
    if any(type(d) is not int or d != 1 for d in rows.shape[1:]):
        raise ShapeError(
            "the truth of a tensor with axes is ambiguous",
            given=f"rows of {rows.type}",
            hint="say which elements count: x.any() or x.all()",
        )
    flat: Tensor = rows.reshape(rows.shape[:1])
    return flat


def _sum(items: Iterable[Any], /, start: Any = 0) -> Any:
    """`sum`, also of a tensor or a list of unknown length."""
    source = _rows_of(items)
    if source is None:
        return builtins.sum(items, start)
    total = start

    def body(x: Any) -> None:
        nonlocal total
        total = total + x

    for_(source, body, None, (("total", 0, True, False),))
    return total


def _extreme(
    plain: Callable[..., Any], beats: Callable[[Any, Any], Any], *items: Any, **options: Any
) -> Any:
    """`max` or `min`; where tensors decide, the graph computes it.

    Args:
        plain: Python's builtin.
        beats: whether a key is better than another.
        items: the positional arguments of the builtin.
        options: its keyword arguments.
    """
    if not options and set(map(type, items)) == {Dim, int}:
        return reduce(minimum if plain is builtins.min else maximum, items)
    values = items[0] if len(items) == 1 else items
    if not options and type(values) in (list, tuple):
        number = extreme(plain, values)
        if number is not None:
            return number
    key = options.get("key")
    key = call(key) if key is not None else lambda x: x
    source = _rows_of(items[0]) if len(items) == 1 else None
    if source is None:
        values = list(items[0] if len(items) == 1 else items)
        keys = list(map(key, values))  # a key may count its calls
        known = iter(keys)
        if interpreter.is_traced() and any(as_test(x) is not None for x in keys):
            return _best(values[0], values[1:], lambda _: next(known), beats)
        return plain(values, **{**options, "key": lambda _: next(known)})
    rows: Any = _scalars(source)

    def best_in_rows() -> Any:
        return _best(rows[0], rows[1:], key, beats)

    def none() -> Any:
        return plain((), **options)  # the default, or the error

    length = rows.shape[0]
    if type(length) is int:
        return best_in_rows() if length else none()
    if "default" in options:
        return choose(tensor_of(length) > 0, best_in_rows, none)
    if_(tensor_of(length) == 0, none, lambda: None, ())
    return best_in_rows()


def _best(
    first: Any, rest: Any, key: Callable[[Any], Any], beats: Callable[[Any, Any], Any]
) -> Any:
    """The item of ``first`` and ``rest`` with the best key; the first of equal ones."""
    best = first, key(first)

    def body(x: Any) -> None:
        nonlocal best
        value = key(x)
        best = choose(beats(value, best[1]), lambda: (x, value), lambda: best)

    if isinstance(rest, list):
        for x in rest:
            body(x)
    else:
        for_(rest, body, None, (("best", 0, True, False),))
    return best[0]


def _list(*items: Any) -> Any:
    """`list`; a list of unknown length keeps its stand-in."""
    if len(items) == 1 and type(items[0]) is Grown:
        return Grown(items[0].array, items[0].rows)
    return builtins.list(*items)


def printing_lines(tracer: Tracer) -> Mapping[tuple[str, int], bool]:
    """The lines at which converted code of a trace has printed, by file and number.

    The values say whether a line prints in each run of the graph.
    """
    return _printed.get(tracer, {})


def _print(*args: Any, **options: Any) -> None:
    """`print`; in each run of the graph if only the graph knows the text, or whether to print."""
    if not interpreter.is_traced():
        builtins.print(*args, **options)  # noqa: T201 - the user calls it
        return
    tracer = tracer_here()
    source = capture(1)
    args = tuple(map(_shown, args))
    repeats = source is not None and (tracer.parent is not None or is_symbolic((args, options)))
    if source is not None:
        lines, line = _printed.setdefault(tracer.root, {}), (source.file, source.line)
        lines[line] = repeats or lines.get(line, False)
    if repeats:
        callbacks.print(*args, **options)
    else:
        builtins.print(*args, **options)  # noqa: T201 - likewise


def _shown(x: Any) -> Any:
    """The argument of `print` for ``x``: its text, if that shows values of the trace."""
    if is_symbolic(x) or isinstance(x, str):
        return x
    text = spelled(str, x)
    return text if has_placeholder(text) or text != str(x) else x


def _next(iterator: Any, /, *default: Any) -> Any:
    """`next`; an error where the graph repeats the call, or decides whether it happens."""
    refuse_reached(iterator, "next()")
    return builtins.next(iterator, *default)


def _pow(*args: Any, **options: Any) -> Any:
    """`pow`; with a modulus Python's own, which calls no method of the right operands."""
    if len(args) + len(options) == 3:
        args, options = asked(args, "pow()"), asked(options, "pow()")
    return builtins.pow(*args, **options)


def _type(*args: Any, **options: Any) -> Any:
    """`type`; of a stand-in for a number or an array of NumPy, the type of that."""
    if len(args) == 1 and issubclass(type(args[0]), AbstractAsked):
        return args[0].kind
    if len(args) == 1 and type(args[0]) is TracedArray:
        return args[0].__class__
    return type(*args, **options)


def _id(x: Any, /) -> int:
    """`id`; with a note if its argument is a stand-in for an argument or a number."""
    if interpreter.is_traced():
        if any(one is x for one in tracer_here().whole.stand_ins):
            note(
                "id() of an argument is that of its stand-in in the trace",
                "pass id(...) as an argument of its own, or a name",
            )
        elif issubclass(type(x), AbstractAsked):
            note(
                "id() of a number is that of its stand-in in the trace",
                "compare numbers by ==, and use them as keys themselves",
            )
    return id(x)


replacements.update({
    builtins.any: _any, builtins.all: _all, builtins.sum: _sum,
    builtins.max: partial(_extreme, builtins.max, operators.gt),
    builtins.min: partial(_extreme, builtins.min, operators.lt),
    builtins.list: _list, builtins.print: _print, builtins.next: _next,
    builtins.pow: _pow, builtins.type: _type, builtins.id: _id,
    operators.is_: is_, operators.is_not: is_not,
    deque: with_numbers(deque), math.ldexp: with_numbers(math.ldexp),
})  # fmt: skip
