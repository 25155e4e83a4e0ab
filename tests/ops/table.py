"""Checks one `OpCase`: values against its reference, types against its rules, gradients against
numeric derivatives. `COLUMNS` are the ways to run a case; a later stage adds a way, not a test.
`columns_of` says which of them run which dtypes row by row; others run several rows in one trace
(`tests/ops/one_trace.py`).

Traced code is compared with eager mode bit for bit as well (`tests/ops/tracing.py`); so are its
gradients, which then need no numeric derivatives. Other sizes on one trace: `tests/ops/sizes.py`.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.core.infer import infer_specs
from eagerflow.core.interpreter import AbstractInterpreter
from eagerflow.core.monitors import monitored
from eagerflow.core.tensor import AbstractArray, Tensor, type_of
from eagerflow.errors import MoveWarning
from eagerflow.events import TransferEvent
from eagerflow.runtime.executable import spans_devices
from tests.numeric import numeric_vjp_check
from tests.ops.case import LAYOUTS, TOLERANCE, OpCase, Sample, np_dtype
from tests.ops.gradients import gradient
from tests.ops.tracing import State, call_traced, compare_traced, run_traced, traced
from tests.placement.scattered import CPUS
from tests.programs.columns import MIXED, partitioned
from tests.recorded import recorded

Run = Callable[[Callable[..., Any], Sequence[Any], dict[str, Any]], Any]


def _elsewhere(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run on a device that is not the current one; the results must be there as well."""
    with ef.config(cpu_devices=2):
        moved = [map_type(AbstractArray, _to_other_device, a) for a in args]
        result = function(*moved, **kwargs)
        if any(a is not b for a, b in zip(moved, args, strict=True)):
            map_type(Tensor, _check_other_device, result)
    return result


def _to_other_device(x: Any) -> Any:
    return ef.Variable(x, device="cpu:1") if isinstance(x, ef.Variable) else x.to("cpu:1")


def _check_other_device(x: Tensor) -> None:
    assert x.device == "cpu:1", f"the result is on {x.device}"


def _in_scope(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run in a device scope, with operands from elsewhere, each of which is moved once."""
    given: list[Any] = []
    for a in args:
        map_type(AbstractArray, given.append, a)
    with ef.config(cpu_devices=2), ef.device("cpu:1"), recorded(TransferEvent) as seen:
        result = function(*args, **kwargs)
    own = function is ef.py_call  # the user gives the device of the results
    if not own and not any(isinstance(x, ef.Variable) for x in given):  # each read moves
        moves = [(event.origin, event.device) for event in seen.events]
        assert set(moves) <= {("cpu:0", "cpu:1")}, f"moved: {moves}"
        assert len(moves) <= len({id(x) for x in given}), f"moved: {moves}"
    return result


def _traced_in_scope(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """Run eagerly and traced in a device scope: the same bits, on the same devices."""
    with ef.config(cpu_devices=2), ef.device("cpu:1"), warnings.catch_warnings():
        warnings.simplefilter("ignore", MoveWarning)
        return call_traced(function, args, kwargs)


@contextmanager
def _cut_over(*devices: str, taped: bool = False) -> Iterator[None]:
    """Cut every graph that has a node which may run on another device into partitions."""
    with partitioned(devices) as seen:
        yield
    # under a tape the graph of the trace is replaced by two, or else replayed
    graphs = seen.graphs[1:] if taped else seen.graphs
    assert seen.ended or not any(map(spans_devices, graphs)), "no step was partitioned"


LATE = "partitioned, late and in pieces"
#: the ways to run an op: name of the column -> run(function, args, kwargs)
COLUMNS: dict[str, Run] = {
    "eager": lambda function, args, kwargs: function(*args, **kwargs),
    "cpu:1": _elsewhere,
    "scope": _in_scope,
    "traced": run_traced,
    "traced in a scope": _traced_in_scope,
    "called": call_traced,
    "partitioned": call_traced,
    LATE: call_traced,
}
#: the context in which a column runs, given whether it does so under a tape
WITHIN: dict[str, Callable[..., AbstractContextManager[Any]]] = {
    "partitioned": partial(_cut_over, *CPUS),
    LATE: partial(_cut_over, *MIXED),
}
ALONE = ("eager", "cpu:1", "scope")
#: columns that compare with eager mode themselves, where types are checked and gradients numeric
COMPARED = frozenset({"traced", "traced in a scope", "called", *WITHIN})
#: the dtypes that stand for their kinds, where a case has them; else the first dtype of a kind
_FIRST = ("int64", "uint8", "float32", "complex64")


class RuleChecker(AbstractInterpreter):
    """A monitor: every op's result must be of the type and on the device that its rules give.

    It records the names of the ops seen.
    """

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def bind(self, op: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        result = self.below.bind(op, inputs, attrs)
        self.seen.add(op.name)
        if op.name not in DATA_DEPENDENT:
            want = infer_specs(op, [type_of(x) for x in inputs], attrs)
            got = [type_of(x) for x in (result if isinstance(result, tuple) else (result,))]
            assert got == want, f"{op.name}: rules {want}, kernel {got}"
        return result


#: ops whose sizes depend on values; their type rules raise an error
DATA_DEPENDENT = frozenset(
    {
        "mask_indices",
        "count_segments",
        "decode_image",
        "decode_raw",
        "nonzero",
        "parse_example",
        "repeat_each",
        "unique_all",
        "unique_counts",
        "unique_inverse",
        "unique_values",
        "zeros_for",
    }
)


@contextmanager
def rules_checked():
    """Check the rules of every op bound within the block; yields the names of the ops seen."""
    checker = RuleChecker()
    with monitored(checker):
        yield checker.seen


def function_of(case: OpCase) -> Callable[..., Any]:
    """The public function that a case names."""
    function: Any = ef
    for part in case.name.split("."):
        function = getattr(function, part)
    if case.seed is None:
        return function
    seed, draws = case.seed, function
    return lambda *args, **kwargs: draws(*args, generator=ef.random.Generator(seed), **kwargs)


def one_of_each_kind(case: OpCase) -> list[str]:
    """The dtypes of a case that stand for the others of their kinds."""
    kinds: dict[str, str] = {}
    for name in sorted(case.dtypes, key=lambda name: name not in _FIRST):
        kinds.setdefault(np_dtype(name).kind, name)
    return list(kinds.values())


def one_of_each_function(cases: Sequence[OpCase]) -> list[OpCase]:
    """The first case of each function: for what depends on the ops, and on no attribute of them."""
    return list({case.name: case for case in reversed(cases)}.values())


def layout_of(case: OpCase) -> str:
    """The layout that covers most of a case."""
    return next((x for x in ("matrix", "vector") if x in case.layouts), case.layouts[0])


def columns_of(case: OpCase, dtype: str, layout: str) -> tuple[str, ...]:
    """The columns that run one row of a case's values: all columns where the row covers most."""
    shows_most = layout == layout_of(case) and dtype in one_of_each_kind(case)
    return ALONE if shows_most else ALONE[:1]


def arguments(case: OpCase, dtype: str, layout: str, *, special: bool = False) -> list[Any]:
    """The arguments of a case as NumPy arrays; the same for the same case, dtype and layout."""
    return made(case, sample_of(case, dtype, *LAYOUTS[layout], special=special))


def sample_of(
    case: OpCase, dtype: str, shape: tuple[int, ...], strided: bool, *, special: bool = False
) -> Sample:
    """The sample that makes the arguments; equal for the same case, dtype and shape."""
    seed = zlib.crc32(f"{case.id} {dtype} {shape} {strided} {special}".encode())
    return Sample(np.random.default_rng(seed), dtype, shape, strided, special)


def made(case: OpCase, sample: Sample) -> list[Any]:
    """The arguments that a case makes of a sample."""
    with np.errstate(all="ignore"):
        return list(case.make(sample))


def map_arrays(function: Callable[[Any], Any], value: Any) -> Any:
    """``value`` with ``function`` applied to the NumPy arrays in it, also in lists and tuples."""
    return map_type(np.ndarray, function, value)


def map_type(kind: type, function: Callable[[Any], Any], value: Any) -> Any:
    """``value`` with ``function`` applied to objects of a type in it, also in lists and tuples."""
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, (list, tuple)):
        mapped = [map_type(kind, function, v) for v in value]
        if all(a is b for a, b in zip(mapped, value, strict=True)):
            return value
        return mapped if isinstance(value, list) else tuple(mapped)
    return value


def _widen(array: Any) -> Any:
    low = array.dtype.kind in "fV" and array.dtype.itemsize < 4
    return array.astype(np.float32) if low else array


def flatten(value: Any) -> list[Any]:
    """The results as a flat list of NumPy arrays."""
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in flatten(v)]
    if isinstance(value, Tensor):
        return [value.numpy()]
    return [np.asarray(value)]


def check_values(
    case: OpCase, dtype: str, layout: str, columns: Sequence[str], *, special: bool = False
) -> None:
    """Run a case in some columns and compare each with its reference."""
    check_arguments(case, arguments(case, dtype, layout, special=special), columns)


def check_arguments(case: OpCase, args: list[Any], columns: Sequence[str]) -> None:
    """Run a case on given arguments in some columns, and compare each with its reference."""
    before = [a.copy() for a in flatten_arrays(args)]
    state = State(args)
    results = {}
    for column in columns:
        state.restore()
        results[column] = _run(case, args, column)
    for old, new in zip(before, flatten_arrays(args), strict=True):
        np.testing.assert_array_equal(old, new, err_msg=f"{case.id} wrote into its argument")
    wide = [map_arrays(_widen, a) for a in args]
    with np.errstate(all="ignore"):
        want = case.reference(*wide, **({} if case.plain else case.kwargs))
    for column, got in results.items():
        try:
            _check_result(case, got, want)
        except AssertionError as error:
            error.add_note(f"column: {column}")
            raise


def _run(case: OpCase, args: list[Any], column: str) -> Any:
    tensors = [map_arrays(ef.asarray, a) for a in args]
    # a monitor has each op of a graph run by itself, not by the program
    watching = nullcontext() if column in COMPARED else rules_checked()
    with np.errstate(all="ignore"), watching, within(column):
        return COLUMNS[column](function_of(case), tensors, case.kwargs)


def within(column: str, **how: Any) -> AbstractContextManager[Any]:
    """The context in which a column runs."""
    return WITHIN[column](**how) if column in WITHIN else nullcontext()


def _check_result(case: OpCase, got: Any, want: Any) -> None:
    if case.compare is not None:
        case.compare(got, want)
        return
    got_arrays, want_arrays = flatten(got), flatten(want)
    assert len(got_arrays) == len(want_arrays), f"{case.id}: {len(got_arrays)} results"
    for g, w in zip(got_arrays, want_arrays, strict=True):
        _compare(case, g, w)


def flatten_arrays(args: Sequence[Any]) -> list[Any]:
    """The NumPy arrays among arguments."""
    arrays: list[Any] = []
    map_arrays(lambda a: arrays.append(a), list(args))
    return arrays


def _compare(case: OpCase, got: Any, want: Any) -> None:
    assert got.shape == want.shape, f"{case.id}: shape {got.shape}, expected {want.shape}"
    if got.dtype.kind in "biuO" or (want.dtype.kind in "biu" and case.exact):
        np.testing.assert_array_equal(got, want, err_msg=case.id)
        return
    name = got.dtype.name
    wide = np.complex128 if "c" in (got.dtype.kind, want.dtype.kind) else np.float64
    g, w = got.astype(wide), want.astype(wide)
    if case.exact:
        np.testing.assert_array_equal(g, w, err_msg=case.id)
        return
    with np.errstate(all="ignore"):
        w_in_range = want.astype(np_dtype(name)).astype(wide)
        finite = np.isfinite(w_in_range)
        scale = max(1.0, float(np.max(np.abs(w[finite]), initial=0.0)))
        np.testing.assert_array_equal(g[~finite], w_in_range[~finite], err_msg=case.id)
        worst = float(np.max(np.abs(g - w)[finite], initial=0.0))
    limit = TOLERANCE[name] * case.tolerance * scale
    assert worst <= limit, f"{case.id} {name}: error {worst:.3g} > {limit:.3g}\n{g}\n{w}"


def check_gradient(
    case: OpCase, dtype: str, layout: str, column: str = "eager", order: int = 1
) -> None:
    """Compare the gradients of a case with numeric derivatives along random directions.

    Columns that compare with eager mode compare the bits of the function's gradients, and of those
    of the gradient function, which is traced itself.
    """
    args = arguments(case, dtype, layout)
    function, run = function_of(case), COLUMNS[column]
    if column in COMPARED:
        compare_gradients(function, args, case.grad, case.kwargs, column, order)
        return
    rng = np.random.default_rng(zlib.crc32(case.id.encode()))

    def f(*tensors: Any) -> Any:
        return run(function, tensors, case.kwargs)

    numeric_vjp_check(f, args, case.grad, rng, order=order)


def compare_gradients(
    function: Callable[..., Any], args: Sequence[Any], wrt: Sequence[int], kwargs: dict[str, Any],
    column: str, order: int,
) -> None:  # fmt: skip
    """Compare the gradients of a function in a column that compares with eager mode."""
    tensors = [map_arrays(ef.asarray, a) for a in args]
    with np.errstate(all="ignore"), within(column):
        COLUMNS[column](gradient(function, wrt, kwargs, order), tensors, {})
    with np.errstate(all="ignore"), within(column, taped=True):
        compare_traced(
            gradient(function, wrt, kwargs, order),
            gradient(traced(function), wrt, kwargs, order),
            tensors,
        )
