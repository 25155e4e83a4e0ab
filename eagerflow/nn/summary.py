"""Summaries of models: a table of modules with output types, parameters and bytes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, final

import eagerflow as ef
from eagerflow.errors import PrecisionWarning, TraceWarning
from eagerflow.extending import children, table_html, table_lines, tree, walk
from eagerflow.nn.module_calls import noting
from eagerflow.nn.module_text import short_type

_HEADINGS: Final = ("layer", "class", "output", "parameters", "bytes")
_LEFT: Final = 3  # columns aligned to the left


@final
@dataclass(frozen=True)
class SummaryRow:
    """A row of a summary, about one module.

    Attributes:
        path: path of the module; empty for the summarised module itself.
        name: name of its class.
        output: types of its output; empty if the example inputs do not reach it.
        calls: number of its calls.
        parameters: number of elements of the parameters that the module holds itself; shared
            parameters count at the first module.
        nbytes: memory of its variables in bytes, buffers included, counted likewise.
    """

    path: str
    name: str
    output: str
    calls: int
    parameters: int
    nbytes: int


@final
@dataclass(frozen=True, repr=False)
class Summary:
    """The result of ``module.summary(...)``: prints as text, and as a table in a notebook.

    Attributes:
        rows: a row for each module, in the order of definition.
        trainable: number of elements of parameters that are not frozen.
        note: a warning if the example inputs make the module compute in another precision than
            that of its parameters; else empty.

    >>> table = ef.nn.Linear(3, 2).summary(ef.zeros((5, 3)))
    >>> table.rows[0].output, table.parameters, table.nbytes
    ('f32[5,2]', 8, 32)
    """

    rows: tuple[SummaryRow, ...]
    trainable: int
    note: str = ""

    @property
    def parameters(self) -> int:
        """The number of elements of all parameters."""
        return sum(row.parameters for row in self.rows)

    @property
    def nbytes(self) -> int:
        """The memory of all variables, in bytes."""
        return sum(row.nbytes for row in self.rows)

    def __repr__(self) -> str:
        lines = table_lines([_HEADINGS, *map(_cells, self.rows)], _LEFT)
        return "\n".join([*lines, *self._notes()])

    def _repr_html_(self) -> str:
        return table_html(self._notes(), _HEADINGS, map(_cells, self.rows), _LEFT)

    def _notes(self) -> list[str]:
        return [self._total(), *[self.note] * bool(self.note)]

    def _total(self) -> str:
        total = self.parameters
        if self.trainable == total:
            what = "all trainable"
        else:
            what = f"{self.trainable:,} trainable, {total - self.trainable:,} frozen"
        return f"{total:,} parameters ({_bytes(self.nbytes)}), {what}"


def summarise(
    module: Any,
    kind: type,
    run: Callable[..., None],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Summary:
    """The summary of a module.

    Args:
        module: the module.
        kind: the class `Module`.
        run: function that calls the module.
        args: example inputs; without any, outputs are left out.
        kwargs: example inputs given by name.
    """
    outputs: dict[int, list[str]] = {}
    for called, result in _called(run, args, kwargs) if args or kwargs else ():
        outputs.setdefault(id(called), []).append(_types(result))
    counted: set[int] = set()
    rows = []
    for path, value, _ in walk(module, kind):
        if isinstance(value, kind):
            own = [v for v in _own(value, kind) if id(v) not in counted]
            counted.update(map(id, own))
            rows.append(_row(path, value, outputs.get(id(value), []), own))
    trainable = sum(v.size for v in module.trainable.values())
    return Summary(tuple(rows), trainable, _precision(module, (args, kwargs)))


def _precision(module: Any, inputs: Any) -> str:
    """The note about inputs that are wider than the parameters; else empty."""
    own = {v.dtype for v in module.parameters.values()}
    arrays = [x for x in tree.leaves(inputs) if hasattr(x, "dtype") and hasattr(x, "shape")]
    wide = {x.dtype for x in map(ef.asarray, arrays) if x.dtype.is_floating}
    if len(own) != 1 or not wide:
        return ""
    (dtype,), widest = own, max(wide, key=lambda d: d.itemsize)
    if not dtype.is_floating or widest.itemsize <= dtype.itemsize:
        return ""
    return (
        f"inputs of {widest.short} and parameters of {dtype.short}: all is computed in "
        f"{widest.short}, which .astype(ef.{dtype.name}) of the inputs saves"
    )


def _called(run: Callable[..., None], args: Any, kwargs: Any) -> list[tuple[Any, Any]]:
    """The modules that are called, each with its result."""
    with noting() as notes, warnings.catch_warnings():
        # effects that a trace cannot follow do not matter: this trace is never run
        warnings.simplefilter("ignore", TraceWarning)
        warnings.simplefilter("ignore", PrecisionWarning)  # the summary has a note about it
        ef.trace(run).graph(*args, **kwargs)
        return notes


def _own(module: Any, kind: type) -> Iterator[ef.Variable]:
    """The variables that a module holds itself, each once."""
    variables = {id(v): v for _, v in children(module, kind) if isinstance(v, ef.Variable)}
    yield from variables.values()


def _row(path: str, module: Any, outputs: list[str], own: list[ef.Variable]) -> SummaryRow:
    different = list(dict.fromkeys(outputs))
    return SummaryRow(
        path,
        type(module).__name__,
        " | ".join(different),
        len(outputs),
        sum(v.size for v in own if v.trainable),
        sum(v.size * v.dtype.itemsize for v in own),
    )


def _types(result: Any) -> str:
    """The types of the tensors in a result, such as ``f32[8,10], f32[2]``."""
    return ", ".join(
        short_type(x) for x in tree.leaves(result) if isinstance(x, (ef.Tensor, ef.Variable))
    )


def _cells(row: SummaryRow) -> tuple[str, ...]:
    output = f"{row.output} x{row.calls}" if row.calls > 1 else row.output
    return (row.path, row.name, output, f"{row.parameters:,}", _bytes(row.nbytes))


def _bytes(count: int) -> str:
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= (size if unit != "kB" else 10 * size):  # four digits are easy to read
            return f"{count / size:.1f} {unit}"
    return f"{count:,} B"
