"""NumPy arrays, as arguments and captured: NumPy's results, or an error with the rewrite."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.errors import TraceError
from tests.function.expectations.program import Steps, Trace, program

x = ef.tensor([1.0, 2.0, 3.0])


def _doubles() -> np.ndarray:
    return np.array([3.0, 1.0, 2.0])


def _bytes() -> np.ndarray:
    return np.arange(4, dtype=np.uint8)


def _matrix() -> np.ndarray:
    return np.arange(12.0).reshape(3, 4)


# --- NumPy's results: three calls with other elements -------------------------------------------


def _branch(b):
    if b.sum() > 3:
        c = b * 2
    else:
        c = b / 2
    return c, c.dtype == np.float64


def _early_return(b):
    if b.mean() > b[0]:
        return {"a": (b, b.sum())}
    return {"a": (b * 2, b.max())}


def _loop(b):
    count = 0
    while b.sum() > 1:
        b = b / 2
        count += 1
    return b, count


def _loop_over_rows(b):
    total = b[0] * 0
    for row in b:
        total = total + row
    return total


def _loop_in_the_graph(b):
    total = b * 0
    for row in ef.asarray(b):
        total = total + b
        last = row * 2
    return total, last


def _own_elements(b):
    out = np.zeros_like(b)
    for i in range(len(b)):
        out[i] = b[i] * 2
    out += 1
    alias = out
    alias *= 3
    return out


def _kinds(b):
    kinds = isinstance(b, np.ndarray), isinstance(b[0], np.floating), isinstance(b[0], float)
    return kinds, isinstance(b, (list, ef.Tensor)), hasattr(b, "cuda")


def _types(b):
    if type(b) is np.ndarray:
        return b * 2
    return b * 3


def _dtype(b):
    return b / 255 if np.issubdtype(b.dtype, np.integer) else b


def _switched(b):
    return ef.cond(b.sum() > 3, lambda: b * 2, lambda: b / 2)


def _taped(b):
    with ef.GradientTape() as tape:
        y = ef.asarray(b)
        tape.watch(y)
        z = (y * b).sum()
    return tape.gradient(z, y), b * 2


ROWS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "true_division": (_bytes, lambda b: b / 255),
    "true_division_as_tensor": (_bytes, lambda b: ef.asarray(b / 255)),
    "overflow": (_bytes, lambda b: b * 200 + 100),
    "integer_mean": (_bytes, lambda b: (b.mean(), np.mean(b, axis=0), b.sum())),
    "standardised": (_matrix, lambda b: (b - b.mean(0)) / b.std(0)),
    "comparison": (_doubles, lambda b: (b > 1.5, b == b[0], (b != 2).any())),
    "floats_of_integers": (_bytes, lambda b: (np.sqrt(b), np.sin(b))),
    "where": (_doubles, lambda b: np.where(b > 1, b, 0)),
    "mask": (_doubles, lambda b: b[b > 1]),
    "joined": (_matrix, lambda b: (np.concatenate([b, b[:1]]), np.stack([b, b + 1], axis=1))),
    "products": (_matrix, lambda b: (b.T @ b, b.dot(b.T), b @ ef.ones((4, 2)))),
    "with_tensors": (_doubles, lambda b: (x + b, b - x, x * (b * 2), b == x)),
    "with_arrays": (_doubles, lambda b: b * np.arange(3) + np.float32(1)),
    "with_lists": (_doubles, lambda b: b + [1, 2, 3]),  # noqa: RUF005 - not a list
    "elements": (_doubles, lambda b: (b[0], b[-1] + 1, b[:1], b[...], b[None, 1])),
    "loop_over_elements": (_doubles, lambda b: [i * e for i, e in enumerate(b)]),
    "unpacked": (_doubles, lambda b: (lambda p, q, r: p + q * r)(*b)),
    "sum_of_python": (_bytes, lambda b: (sum(b), max(b), min(b))),
    "returned_itself": (_doubles, lambda b: (b, [b], {"b": b})),
    "returned_views": (_matrix, lambda b: (b[1:], b.T, b.reshape(-1), b[::2, None])),
    "returned_twice": (_doubles, lambda b: (lambda c: (c, c))(b * 2)),
    "kinds": (_doubles, _kinds),
    "types": (_doubles, _types),
    "dtype": (_bytes, _dtype),
    "sizes": (_matrix, lambda b: (b.shape, b.ndim, b.size, len(b), b.nbytes, np.shape(b))),
    "copies": (_doubles, lambda b: (b.copy(), copy.copy(b) + 1, copy.deepcopy(b), b.astype(int))),
    "branch": (_doubles, _branch),
    "early_return": (_doubles, _early_return),
    "while_loop": (_doubles, _loop),
    "loop_over_rows": (_matrix, _loop_over_rows),
    "loop_in_the_graph": (_doubles, _loop_in_the_graph),
    "cond": (_doubles, _switched),
    "own_elements": (_doubles, _own_elements),
    "called": (_doubles, lambda b: (ef.call(lambda c: c * 2, b), ef.remat(lambda c: c * 2)(b))),
    "taped": (_doubles, _taped),
    "stacked": (_doubles, lambda b: (ef.stack([b, b]), ef.tensor([b, b + 1]))),
    "py_call": (_doubles, lambda b: ef.py_call(lambda c: ef.asarray(c.tolist()), "f32[3]", b)),
    "scalar": (lambda: np.float32(2.5), lambda b: (b * 2, 2 - b, isinstance(b, float))),
    "without_axes": (lambda: np.array(2.5), lambda b: (b * 2, b[...], b)),
    "empty": (lambda: np.zeros(0, np.float32), lambda b: (b.sum(), b * 2, b.any())),
    "fortran_order": (lambda: np.asfortranarray(_matrix()), lambda b: (b * 2, b.ravel(), b.sum(0))),
}  # fmt: skip


def _row(name: str, make: Callable[[], Any], function: Callable[[Any], Any]) -> None:
    def body(trace: Trace) -> Steps:
        f = trace(function)
        for factor in (1, 2, 3):
            array = make()
            array *= array.dtype.type(factor)
            result = f(array)
            yield result, array, [part is array for part in _parts(result)]
            yield [isinstance(p, np.ndarray) and np.shares_memory(p, array) for p in _parts(result)]

    body.__name__ = f"numpy_{name}"
    program(1)(body)


def _parts(result: Any) -> Iterator[Any]:
    if isinstance(result, (list, tuple)):
        for part in result:
            yield from _parts(part)
    else:
        yield result


for _name, _how in ROWS.items():
    _row(_name, *_how)


# --- operations that no graph performs ----------------------------------------------------------


def _view_written(b):
    view = b[1:]
    view[0] = 9
    return ef.asarray(b)


def _in_place(b):
    b += 1
    return b


def _result_with_a_view(b):
    own = b * 2
    view = own[1:]
    own += 1
    return view


def _result_as_a_tensor(b):
    own = b * 2
    tensor = ef.asarray(own)
    own += 1
    return tensor


def _shape_set(b):
    b.shape = (3, 1)
    return b


REFUSED: dict[str, Callable[[Any], Any]] = {
    "sort": lambda b: b.sort(),
    "fill": lambda b: b.fill(0),
    "view_written": _view_written,
    "row_written": lambda b: b.__setitem__(0, 5),
    "in_place": _in_place,
    "in_place_with_a_view": _result_with_a_view,
    "in_place_with_a_tensor": _result_as_a_tensor,
    "tensor_added_in_place": lambda b: b.__iadd__(x),
    "out": lambda b: np.add(b, 1, out=b),
    "at": lambda b: np.add.at(b, [0], 1),
    "copyto": lambda b: np.copyto(b, 0),
    "shape_set": _shape_set,
    "asarray_of_numpy": lambda b: np.asarray(b) * 2,
    "array_of_arrays": lambda b: np.array([b, b]),
    "norm": lambda b: np.linalg.norm(b),
    "argsort": lambda b: np.argsort(b),
    "reduce": lambda b: np.add.reduce(b),
    "cube": lambda b: b**3,
    "float_floor_division": lambda b: b // 2,
    "dtype_option": lambda b: np.sum(b, dtype=np.float32),
    "degrees_of_freedom": lambda b: b.std(ddof=1),
    "flags": lambda b: b.flags.writeable,
    "flat": lambda b: b.flat[0],
    "bytes": lambda b: b.tobytes(),
    "float": lambda b: float(b[0]),
    "hash": lambda b: hash(b[0]),
    "set": lambda b: set(b),
    "ufunc_with_a_tensor": lambda b: np.add(b, x),
    "none": lambda b: b == None,
    "text": lambda b: b == "x",
}


def _refused(name: str, function: Callable[[Any], Any]) -> None:
    def body(trace: Trace) -> Steps:
        array = _doubles()
        try:
            yield function is None, trace(function)(array)
        except TraceError:
            assert array.tolist() == [3.0, 1.0, 2.0]
            raise

    body.__name__ = f"numpy_refuses_{name}"
    program(0, error=TraceError, words=("ef.asarray(b",))(body)


for _name, _what in REFUSED.items():
    _refused(_name, _what)


@program(traces=0, error=TraceError, words=("byte order", "ef.asarray(b)"))
def numpy_array_of_another_machine(trace: Trace) -> Steps:
    yield trace(lambda b: b[1:])(np.ones(3, ">f4"))


@program(traces=0, error=TraceError, words=("an array of NumPy of float64", "f64[3]"))
def numpy_array_in_one_branch_only(trace: Trace) -> Steps:
    def f(b):
        if b.sum() > 3:
            c = b * 2
        else:
            c = ef.asarray(b)
        return c

    yield trace(f)(_doubles())


# --- several arrays, and numbers ----------------------------------------------------------------


@program(traces=2)
def numpy_array_twice(trace: Trace) -> Steps:
    f = trace(lambda a, b: (a is b, a * b))
    one, other = _doubles(), _doubles()
    for a, b in [(one, other), (one, one), (other, one), (other, other)]:
        yield f(a, b)


@program(traces=5, reports=("was traced 3 times because of b",))
def numpy_array_scalar_and_tensor(trace: Trace) -> Steps:
    f = trace(lambda b: b / 2)
    number = np.float32(3)
    for b in [_doubles(), number, np.array(3, np.float32), ef.tensor(number), _bytes()] * 2:
        yield f(b)


@program()
def numpy_array_times_numbers(trace: Trace) -> Steps:
    f = trace(lambda b, k: (b * k, k - b))
    for k in (2, 5, -3):
        yield f(np.arange(4, dtype=np.int16), k)


@program(traces=2)
def numpy_arrays_of_several_sizes(trace: Trace) -> Steps:
    f = trace(lambda b: (b / 255, b.sum(axis=0), (b - b.mean()) / b.shape[0]))
    for n in (2, 3, 4, 7):
        yield f(np.arange(2 * n, dtype=np.uint8).reshape(n, 2))


@program()
def numpy_arrays_in_containers(trace: Trace) -> Steps:
    @trace
    def f(batch):
        batch["mean"] = batch["images"].mean()
        batch["log"].append(batch["images"].max() / 2)
        batch["same"] = batch["images"]
        return batch["images"] * batch["scales"][0]

    for i in range(3):
        batch: dict[str, Any] = {"images": _bytes() + i, "scales": (np.float32(i),), "log": []}
        yield f(batch), batch, batch["same"] is batch["images"]


@program()
def numpy_results_kept_outside(trace: Trace) -> Steps:
    kept = SimpleNamespace(last=None, log=[])

    @trace
    def f(b):
        kept.last = b * 2
        kept.log.append(b[0])
        return b.sum()

    for i in range(3):
        yield f(_doubles() + i), kept.last, kept.log, kept.last.flags.writeable


@program()
def numpy_view_shows_later_writes(trace: Trace) -> Steps:
    f = trace(lambda b: (b[1:], b.T, b + 0))
    array = _doubles()
    for i in range(3):
        results = f(array)
        array[1] = i
        yield results


@program()
def numpy_result_is_the_callers(trace: Trace) -> Steps:
    f = trace(lambda b: b * 2)
    array = _doubles()
    first = f(array)
    first[0] = 7
    yield first, f(array), array


@program(traces=3, reports=("was traced 3 times because of b",))
def numpy_array_that_is_static(trace: Trace) -> Steps:
    f = trace(lambda a, b: a * np.linalg.norm(b), static="b")
    array = _doubles()
    for i in (0, 0, 5):
        array[0] += i
        yield f(x, array), f(x, array.copy())
    yield f(x, _doubles() * 7), f(x, array)


# --- captured arrays ----------------------------------------------------------------------------


@program()
def numpy_table_with_an_argument(trace: Trace) -> Steps:
    table = np.arange(3)
    f = trace(lambda b: (b + table, table / b, x * table))
    for i in range(3):
        yield f(_doubles())
        table[i] = 10


@program(traces=3, reports=("was traced 3 times because enclosing table",))
def numpy_table_in_a_function_of_numpy(trace: Trace) -> Steps:
    table = np.arange(3)
    f = trace(lambda b: (np.where(b > 1, table, b), b * np.cumsum(table)))
    for i in range(3):
        yield f(_doubles())
        table[i] = 10


@program(traces=3, reports=("was traced 3 times because enclosing table",))
def numpy_table_computed_by_numpy(trace: Trace) -> Steps:
    table = np.arange(3)
    f = trace(lambda b: b * (table * 2) + x)
    for i in range(3):
        yield f(_doubles())
        table[i] = 10


@program(traces=2)
def numpy_table_of_another_dtype(trace: Trace) -> Steps:
    holder = SimpleNamespace(table=np.arange(3, dtype=np.uint8))
    f = trace(lambda b: b + holder.table)
    yield f(_bytes()[:3])
    holder.table = np.arange(3, dtype=np.uint8) * 2
    yield f(_bytes()[:3])
    holder.table = np.arange(3.0)
    yield f(_bytes()[:3])


@program(traces=3, reports=("was traced 3 times because enclosing table",))
def numpy_table_returned(trace: Trace) -> Steps:
    table = np.arange(3.0)
    f = trace(lambda b: (b + table, table))
    for i in range(3):
        result = f(_doubles())
        yield result, result[1] is table
        table[i] = 9.0


@program(traces=3, reports=("was traced 3 times because config['table']",))
def numpy_table_in_a_dict(trace: Trace) -> Steps:
    config = {"table": np.arange(3)}
    f = trace(lambda b: b / config["table"][1:].sum())
    for i in range(3):
        yield f(_doubles())
        config["table"][i] += 5


@program(traces=3, reports=("was traced 3 times because enclosing table",))
def numpy_table_of_two_names(trace: Trace) -> Steps:
    table = np.arange(3)
    config = SimpleNamespace(table=table)
    f = trace(lambda b: b + table + np.cumsum(config.table)[-1])
    for i in range(3):
        yield f(_doubles())
        table[i] = 10


@program()
def numpy_table_of_two_names_in_the_graph(trace: Trace) -> Steps:
    table = np.arange(3)
    config = SimpleNamespace(table=table)
    f = trace(lambda b: (b + table, x * config.table, ef.asarray(config.table)))
    for i in range(3):
        yield f(_doubles())
        table[i] = 10


@program(traces=2)
def numpy_table_of_objects(trace: Trace) -> Steps:
    table = np.array([2, "a"], dtype=object)
    f = trace(lambda b: b * table[0])
    yield f(_doubles())
    table[0] = 3
    yield f(_doubles())


@program(traces=0, error=TraceError, words=("writes into an array of NumPy", "ef.Variable"))
def numpy_table_written(trace: Trace) -> Steps:
    table = np.arange(3.0)

    def f(b):
        table[0] = 5
        return b + table

    yield trace(f)(_doubles())


@program(traces=0, error=TraceError, words=("writes into an array of NumPy", "ef.Variable"))
def numpy_table_added_to(trace: Trace) -> Steps:
    table = np.arange(3.0)

    def f(b):
        nonlocal table
        table += 1
        return b + table

    try:
        yield trace(f)(_doubles())
    except TraceError:
        assert table.tolist() == [0.0, 1.0, 2.0]
        raise
