"""Checks of the facts in op records: outputs, memory, order, costs, failures, laws of algebra.

The table of cases is run once, and each application of an op in it is checked; pure ones are
bound again with other values, or with arrays of another layout.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core.execute import resolve_kernel
from eagerflow.core.infer import infer
from eagerflow.core.interpreter import AbstractInterpreter
from eagerflow.core.monitors import monitored
from eagerflow.core.op import Op, all_ops, bind
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.errors import DataDependentError, EagerflowError, TensorIndexError
from eagerflow.types import TensorType
from tests.each import check_each, in_groups, names_of
from tests.ops.cases import ALL_CASES
from tests.ops.table import arguments, function_of, map_arrays, one_of_each_kind

ef.stop_gradient(0)  # the module with its op is imported on first use
OPS = all_ops()
#: number of applications of one op that are checked
MOST = 60
EXTREMES = {
    "b": [False, True],
    "i": [0, 1, -1, "min", "max"],
    "u": [0, 1, "max"],
    "f": [0.0, -0.0, 1.0, -1.5, math.nan, math.inf, -math.inf, "max", "min"],
    "c": [0, 1j, complex(math.nan, 1), complex(math.inf, -math.inf), complex(-1, -0.0)],
}


class Bound(NamedTuple):
    """One application of an op."""

    op: Op
    inputs: tuple[Tensor, ...]
    attrs: dict[str, Any]
    outputs: Any

    @property
    def results(self) -> tuple[Tensor, ...]:
        return self.outputs if isinstance(self.outputs, tuple) else (self.outputs,)

    @property
    def repeats(self) -> bool:
        """Whether the op may be bound again."""
        return self.op.effect == "pure" and bool(self.inputs)

    def again(self, inputs: Sequence[Tensor]) -> Bound:
        with np.errstate(all="ignore"):
            return Bound(self.op, tuple(inputs), self.attrs, bind(self.op, *inputs, **self.attrs))


class Recorder(AbstractInterpreter):
    """A monitor that keeps the applications of ops."""

    def __init__(self) -> None:
        self.bound: dict[str, dict[Any, Bound]] = {}

    def bind(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        result = self.below.bind(op, inputs, attrs)
        key = tuple([(x.dtype, x.ndim, _is_rows(x)) for x in inputs]), tuple(attrs)
        applications = self.bound.setdefault(op.name, {})
        if len(applications) < MOST:
            applications.setdefault(key, Bound(op, tuple(inputs), attrs, result))
        return result


@functools.cache
def recorded() -> dict[str, list[Bound]]:
    """Applications by op, from the cases: a few of each dtype, number of axes and layout."""
    recorder = Recorder()
    for case in ALL_CASES:
        for dtype in one_of_each_kind(case):
            for layout in case.layouts:
                args = [map_arrays(ef.asarray, a) for a in arguments(case, dtype, layout)]
                with monitored(recorder), np.errstate(all="ignore"):
                    function_of(case)(*args, **case.kwargs)
    return {name: list(applications.values()) for name, applications in recorder.bound.items()}


def bound(name: str) -> list[Bound]:
    """The applications of an op in the cases; none if other files test the op."""
    return recorded().get(name, [])


def array(x: Tensor) -> Any:
    """The array of a tensor; an array without elements for a list."""
    return x._data if isinstance(x._data, np.ndarray) else np.empty(0)


def _is_rows(x: Tensor) -> bool:
    return bool(array(x).flags.c_contiguous)


def otherwise(x: Tensor) -> Iterator[Tensor]:
    """Tensors with the same values in other layouts."""
    data = array(x)
    if data.ndim > 1 and data.size:
        yield ef.asarray(np.asfortranarray(data))
        yield ef.asarray(np.moveaxis(np.ascontiguousarray(np.moveaxis(data, 0, -1)), -1, 0))


def variants(one: Bound) -> Iterator[Bound]:
    """An application, and the same one with arrays in other layouts."""
    yield one
    if not one.repeats:
        return
    orders = [list(otherwise(x)) for x in one.inputs]
    for i in range(2):
        changed = [o[i] if o else x for o, x in zip(orders, one.inputs, strict=True)]
        if any(map(len, orders)):
            yield one.again(changed)
    for i, order in enumerate(orders):
        if order and len(one.inputs) > 1:
            yield one.again([*one.inputs[:i], order[0], *one.inputs[i + 1 :]])


# --- outputs and memory -------------------------------------------------------------------------


def _outputs_are_as_many_as_stated(name: str) -> None:
    op = OPS[name]
    for one in bound(name):
        assert isinstance(one.outputs, tuple) == (op.outputs != 1)
        if op.outputs is not None:
            assert len(one.results) == op.outputs
        try:
            want = infer(op, tuple(map(type_of, one.inputs)), one.attrs)
        except (DataDependentError, EagerflowError):
            continue
        assert isinstance(want, tuple) == (op.outputs != 1)
        assert not isinstance(want, tuple) or len(want) == len(one.results)


def _kernels_give_arrays_where_it_is_stated(name: str) -> None:
    op = OPS[name]
    for one in bound(name):
        if op.array_scalars and one.repeats:
            types = tuple(map(type_of, one.inputs))
            lanes = [x._lane for x in one.inputs]
            entry = resolve_kernel(op, types, one.attrs, lanes[0])
            results = entry.kernel(*map(array, one.inputs), **one.attrs)
            assert all(
                type(y) is np.ndarray for y in (results if type(results) is tuple else (results,))
            )


def _memory_comes_from_where_it_is_stated(name: str) -> None:
    op = OPS[name]
    if op.storage == "either":
        return
    for one in bound(name):
        for variant in variants(one):
            sources = [array(x) for x in variant.inputs]
            for result in map(array, variant.results):
                if op.storage == "fresh":
                    assert not any(np.shares_memory(result, x) for x in sources)
                elif op.storage == "same":
                    assert result is sources[0] or _is_same(result, sources[0])
                elif result.size:
                    assert np.shares_memory(result, sources[0])


def _is_same(a: Any, b: Any) -> bool:
    place, other = a.__array_interface__["data"], b.__array_interface__["data"]
    return (a.shape, a.strides, a.dtype, place) == (b.shape, b.strides, b.dtype, other)


def _strides(x: Any) -> list[int]:
    """The strides in elements, of axes longer than 1."""
    pairs = zip(x.strides, x.shape, strict=True)
    return [stride // x.itemsize for stride, size in pairs if size > 1]


def _ufunc_strides(arrays: Sequence[Any]) -> list[int]:
    """The strides of the result of a ufunc of these arrays."""
    flags = [["readonly"]] * len(arrays) + [["writeonly", "allocate"]]
    with np.nditer(
        [*arrays, None], ["refs_ok", "zerosize_ok"], flags, op_dtypes=[None] * (len(arrays) + 1)
    ) as walk:
        return _strides(walk.operands[-1])


def _check_order(op: Op, sources: list[Any], result: Any, attrs: dict[str, Any]) -> None:
    all_rows = all(x.flags.c_contiguous for x in sources)
    rows = result.flags.c_contiguous
    match op.order:
        case "rows":
            assert rows
        case "elementwise":
            assert _strides(result) == _ufunc_strides(sources)
        case "input":
            assert not sources[0].flags.c_contiguous or rows
            assert _strides(result) == _strides(sources[0])
        case "last input":
            order = np.argsort(_strides(sources[-1]), kind="stable")
            assert list(order) == list(np.argsort(_strides(result), kind="stable"))
        case "joined" | "reduced":
            assert not all_rows or rows
        case "product":
            assert rows or (result.ndim > 2 and not all_rows)
        case "permuted":
            assert result.strides == tuple(sources[0].strides[axis] for axis in attrs["axes"])
        case "repeated":
            assert sources[0].size != 1 or not any(_strides(result))
        case "unknown":
            pass


def _results_lie_as_stated(name: str) -> None:
    op = OPS[name]
    for one in bound(name):
        if op.order == "unknown" or not array(one.results[0]).size:
            continue
        for variant in variants(one):
            _check_order(
                op, list(map(array, variant.inputs)), array(variant.results[0]), variant.attrs
            )


def _many_elements_lie_as_stated(name: str) -> None:
    """Large arrays have kernels of their own."""
    axes = [(0, 1, 2), (2, 1, 0), (1, 2, 0)]
    for one in bound(name):
        if one.results[0].ndim != 2 or not one.repeats or not all(x.size for x in one.inputs):
            continue
        first = [np.resize(np.ascontiguousarray(array(x)), (16, 24, 32)) for x in one.inputs]
        for order in axes:
            back = tuple(np.argsort(order))
            laid = [np.ascontiguousarray(x.transpose(order)).transpose(back) for x in first]
            mixed = [*laid[:1], *first[1:]]
            for sources in (laid, mixed):
                variant = one.again([ef.asarray(x) for x in sources])
                inputs = [array(x) for x in variant.inputs]
                assert [x.strides for x in inputs] == [x.strides for x in sources]
                result = array(variant.results[0])
                assert _strides(result) == _ufunc_strides(inputs)
                assert not any(np.shares_memory(result, x) for x in inputs)


@pytest.mark.parametrize("name", sorted(n for n, op in OPS.items() if op.order == "reduced"))
def test_reductions_of_many_elements_lie_as_stated(name: str) -> None:
    x = ef.asarray(np.arange(16 * 24 * 32.0).reshape(16, 24, 32))
    axes = [(), (0,), (1,), (2,), (0, 2), (0, 1, 2)]
    for axis, keepdims in itertools.product(axes, (False, True)):
        with np.errstate(all="ignore"):
            result = array(bind(OPS[name], x, axis=axis, keepdims=keepdims))
        assert result.flags.c_contiguous
        assert not np.shares_memory(result, array(x))


def _elements_depend_on_their_place_alone(name: str) -> None:
    for one in bound(name):
        if not one.repeats or one.results[0].size < 2:
            continue
        shape = one.results[0].shape
        whole = [np.broadcast_to(array(x), shape) for x in one.inputs]
        before = array(one.again([ef.asarray(x.copy()) for x in whole]).results[0])
        place = (0,) * len(shape)
        filled = [ef.asarray(np.full(shape, x[place], x.dtype)) for x in whole]
        after = array(one.again(filled).results[0])
        if before.dtype.kind != "O":
            assert before[place].tobytes() == after[place].tobytes()


# --- elements ---------------------------------------------------------------------------------


def _elements_are_what_fills_it(name: str) -> None:
    op = OPS[name]
    for one in bound(name) if op.fill else ():
        number = op.fill(one.attrs) if op.fill else None
        assert number is None or (array(one.results[0]) == number).all() or number != number


def _inputs_are_summed(name: str) -> None:
    for one in bound(name) if OPS[name].sums else ():
        with np.errstate(all="ignore"):
            want = functools.reduce(np.add, map(array, one.inputs))
        assert np.array_equal(array(one.results[0]), want, equal_nan=want.dtype.kind in "fc")


def _rows_are_added_to_zeros(name: str) -> None:
    row_sum = OPS[name].row_sum
    for one in bound(name) if row_sum else ():
        (result,) = one.results
        shapes = [x.shape for x in one.inputs]
        if row_sum is None or len(shapes) != 2 or not result.ndim:
            continue
        if row_sum.is_whole(shapes[0], shapes[1], result.shape, one.attrs):
            dense = ef.asarray(row_sum.slices(one.inputs[0], one.inputs[1], result.shape))
            assert np.array_equal(array(dense), array(result))


# --- costs --------------------------------------------------------------------------------------


def _costs_are_numbers(name: str) -> None:
    for one in bound(name):
        inputs, outputs = list(map(type_of, one.inputs)), list(map(type_of, one.results))
        cost = OPS[name].cost(inputs, outputs, one.attrs)
        assert all(math.isfinite(part) and part >= 0 for part in cost)
        made = OPS[name].storage == "fresh" and all(x.size for x in (*one.inputs, *one.results))
        assert not made or (cost.flops + cost.matrix > 0 and cost.bytes > 0)


def _costs_of_elements_grow_with_their_number(name: str) -> None:
    for one in bound(name)[:1]:
        few, many = [
            OPS[name].cost(
                [type_of(x).like(shape=(n,)) for x in one.inputs],
                [type_of(y).like(shape=(n,)) for y in one.results],
                one.attrs,
            )
            for n in (10, 1000)
        ]
        assert many == tuple(100 * part for part in few)


def test_costs_of_sizes_that_contradict_each_other() -> None:
    """Estimates of symbolic sizes: an axis of size 1 may be taken for a longer one."""
    rows, column = TensorType(ef.float32, (2, 192)), TensorType(ef.float32, (64, 4))
    made = TensorType(ef.float32, (2, 4))
    cost = OPS["einsum"].cost([rows, column], [made], {"subscripts": "ij,jk->ik"})
    assert cost.matrix == 2 * 2 * 192 * 4


def test_costs_beside_each_other() -> None:
    def flops(name: str, *shapes: tuple[int, ...], **attrs: Any) -> float:
        types = [ef.zeros(shape).type for shape in shapes]
        outputs = infer(OPS[name], tuple(types), attrs)
        made = outputs if isinstance(outputs, tuple) else (outputs,)
        cost = OPS[name].cost(types, made, attrs)
        return cost.flops + cost.matrix

    assert flops("add", (10,), (10,)) == 10
    assert flops("exp", (10,)) > 10 * flops("negative", (10,))
    assert flops("matmul", (8, 16), (16, 4)) == 2 * 8 * 16 * 4
    assert flops("einsum", (8, 16), (16, 4), subscripts="ab,bc->ac") == 2 * 8 * 16 * 4
    assert flops("sum", (8, 16), axis=(1,), keepdims=False) == 8 * 16
    assert flops("reshape", (8, 16), shape=(16, 8)) == 0
    window = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
    products = 2 * 4 * 5 * 5 * (3 * 3 * 3)  # a window for each place of each channel
    assert products <= flops("convolution", (1, 3, 5, 5), (4, 3, 3, 3), **window) < 2 * products
    back = flops("convolution_weights", (1, 3, 5, 5), (1, 4, 5, 5), size=(3, 3), **window)
    assert products <= back < 2 * products


# --- failures -----------------------------------------------------------------------------------


def _extreme(x: Tensor, seed: int) -> Tensor:
    """A tensor of the same type with values at the ends of what it can hold."""
    data, dtype = array(x), x.dtype
    if not dtype.is_native or x.dtype.name == "bytes":
        return x
    info: Any = np.iinfo if dtype.is_integer else np.finfo
    values = [
        getattr(info(data.dtype), value) if isinstance(value, str) else value
        for value in EXTREMES[data.dtype.kind]
    ]
    rng = np.random.default_rng(seed)
    return ef.asarray(rng.choice(np.array(values, data.dtype), data.shape))


def _no_values_make_it_fail_that_does_not(name: str) -> None:
    op = OPS[name]
    for one in bound(name):
        if not one.repeats or op.failing(one.attrs) == "values":
            continue
        if any(type(x._data) is not np.ndarray for x in one.inputs):
            continue
        for seed in range(3):
            one.again([_extreme(x, seed) for x in one.inputs])


def _what_raises_may_fail(name: str) -> None:
    for one in bound(name):
        raised = OPS[name].raised(one.attrs)
        assert not raised or OPS[name].failing(one.attrs) == "values"
        assert all(issubclass(error, Exception) for error in raised)


FACTS = (
    _outputs_are_as_many_as_stated,
    _kernels_give_arrays_where_it_is_stated,
    _memory_comes_from_where_it_is_stated,
    _results_lie_as_stated,
    _elements_are_what_fills_it,
    _inputs_are_summed,
    _rows_are_added_to_zeros,
    _costs_are_numbers,
    _no_values_make_it_fail_that_does_not,
    _what_raises_may_fail,
)
FACTS_OF_ELEMENTS = (
    _elements_depend_on_their_place_alone,
    _costs_of_elements_grow_with_their_number,
)


def _facts(op: Op) -> list[Callable[[str], None]]:
    facts = list(FACTS)
    if op.elementwise:
        facts += FACTS_OF_ELEMENTS
        if op.order == "elementwise":
            facts.append(_many_elements_lie_as_stated)
    return facts


@pytest.mark.parametrize("names", in_groups(sorted(OPS)), ids=names_of)
def test_what_is_stated_is_so(names: list[str]) -> None:
    rows = [(fact, name) for name in names for fact in _facts(OPS[name])]
    check_each(rows, lambda fact, name: fact(name))


@pytest.mark.parametrize("name", ["take", "getitem", "take_along_axis"])
def test_indices_out_of_range_raise_what_is_stated(name: str) -> None:
    x, index = ef.tensor([1.0, 2.0]), ef.tensor([5])
    attrs: dict[str, Any] = {"key": ("array",)} if name == "getitem" else {"axis": 0}
    with pytest.raises(TensorIndexError):
        bind(OPS[name], x, index, **attrs)
    assert OPS[name].raised(attrs) == (TensorIndexError,)
