"""Kernels that users register: each result is compared with the type rule, inputs are safe."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.core import op as op_records
from eagerflow.core.op import bind, get_op
from eagerflow.errors import KernelError, KernelWarning, OpDefinitionError, TensorValueError
from eagerflow.ops.rules.type_rules import elementwise
from eagerflow.types import BYTES, DTYPES
from eagerflow_kernels import table
from tests.kernel_table import replaced_kernel, restored_kernels
from tests.messages import says

_ROW = ("sinh", "cpu", ("float32",))


@pytest.fixture
def register() -> Iterator[Callable[[Any], None]]:
    yield lambda kernel: table.special(*_ROW)(kernel) and None
    table.remove(*_ROW)


MODES: dict[str, Callable[[], Any]] = {
    "eager": lambda: ef.sinh(ef.ones(3)),
    "traced": lambda: ef.trace(lambda x: ef.sinh(x))(ef.ones(3)),
}
WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "shape": (lambda x: x[:2], "another shape"),
    "axes": (lambda x: x[None], "another shape"),
    "dtype": (lambda x: x.astype("f8"), "another dtype"),
    "unknown dtype": (lambda x: x.astype("U4"), "another dtype"),
    "nothing": (lambda x: None, "no array"),
    "list": (lambda x: [1.0, 2.0, 3.0], "no array"),
    "number": (lambda x: 3.0, "no array"),
    "two": (lambda x: (x, x), "no array"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_the_type_rule_is_refused(register: Any, name: str, mode: str) -> None:
    kernel, words = WRONG[name]
    register(kernel)
    for _ in range(2):  # the refusal is not forgotten
        with pytest.raises(
            KernelError, check=says(f"sinh: a kernel that was registered gives {words}")
        ):
            MODES[mode]()


def test_the_error_shows_the_line_of_the_kernel(register: Any) -> None:
    def mine(x: Any) -> Any:  # the culprit
        return x[:2]

    register(mine)
    with pytest.raises(KernelError, check=says("# the culprit")):
        MODES["eager"]()


@pytest.mark.parametrize("mode", MODES)
def test_what_a_kernel_raises_shows_its_line(register: Any, mode: str) -> None:
    def mine(x: Any) -> Any:
        return np.zeros(3).reshape(2)  # the culprit

    register(mine)
    with pytest.raises(TensorValueError) as caught:
        MODES[mode]()
    assert "# the culprit" in "".join(caught.value.__notes__)
    assert "# the culprit" in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("mode", MODES)
def test_what_fits_runs_as_it_is(register: Any, mode: str) -> None:
    calls: list[int] = []

    def mine(x: Any) -> Any:
        calls.append(1)
        return x * 2

    register(mine)
    assert [MODES[mode]().tolist() for _ in range(3)] == [[2.0] * 3] * 3
    assert len(calls) == 3


@pytest.mark.parametrize("mode", MODES)
def test_every_call_is_compared_with_the_type_rule(register: Any, mode: str) -> None:
    results = [lambda x: x * 2, lambda x: x[:1], lambda x: x.astype("f8"), lambda x: x * 3]
    register(lambda x: results.pop(0)(x))
    assert MODES[mode]().tolist() == [2.0] * 3
    for words in ("another shape", "another dtype"):
        with pytest.raises(KernelError, check=says(f"gives {words}")):
            MODES[mode]()
    assert MODES[mode]().tolist() == [3.0] * 3


def test_each_shape_has_its_own_types(register: Any) -> None:
    register(lambda x: x[:3] * 2)
    assert ef.sinh(ef.ones(3)).tolist() == ef.sinh(ef.ones(3)).tolist() == [2.0] * 3
    with pytest.raises(KernelError, check=says(r"got: float32\[3\] .*\n  expected: f32\[5\]")):
        ef.sinh(ef.ones(5))


@pytest.mark.parametrize("traced", [False, True])
def test_a_kernel_cannot_write_into_its_input(register: Any, traced: bool) -> None:
    def doubled(x: Any) -> Any:
        x *= 2  # the culprit
        return x

    register(doubled)
    x = ef.ones(3)
    function = ef.trace(lambda x: ef.sinh(x)) if traced else ef.sinh
    with pytest.raises(KernelError, check=says("writes into its input.*\\n.*\\n  hint: .*copy")):
        function(x)
    assert x.tolist() == [1.0] * 3


def test_a_result_that_is_the_input_can_be_written_by_others(register: Any) -> None:
    register(lambda x: x)
    x = ef.ones(3)
    y = ef.sinh(x)
    assert not np.shares_memory(np.asarray(x), np.asarray(y))
    assert y.tolist() == [1.0] * 3


def test_another_number_of_outputs_in_low_precision_is_refused() -> None:
    wrong = replaced_kernel("slogdet", "cpu", lambda x: (x, x, x))
    with wrong, pytest.raises(KernelError, check=says("gives another number of outputs")):
        bind(get_op("slogdet"), ef.eye(2, dtype=ef.bfloat16))


# --- rows that would never be called ------------------------------------------------------------


@pytest.fixture
def _restored() -> Iterator[None]:
    with restored_kernels():
        yield


@pytest.mark.parametrize("dtypes", [("float31",), ("float32", "f4"), "float32"])
def test_an_unknown_dtype_is_refused_at_once(dtypes: Any) -> None:
    with pytest.raises(ValueError, match="special: the dtypes of a kernel of 'sinh' are a tuple"):
        table.special("sinh", "cpu", dtypes)


def test_more_dtypes_than_inputs_are_refused_at_once() -> None:
    words = "never be called.*\\n.*2 dtypes.*for 1 input\\n(.*\\n)*.*once for each"
    with pytest.raises(OpDefinitionError, check=says(words)):
        table.special("sinh", "cpu", ("float32", "float64"))(lambda x: x)
    assert not table.dtypes_of_users("sinh")


@pytest.mark.usefixtures("_restored")
@pytest.mark.parametrize("dtypes", [("float32",), ("float32", "float64"), None])
def test_a_dtype_for_each_input_or_for_all_is_taken(dtypes: Any) -> None:
    table.special("add", "cpu", dtypes)(np.add)


@pytest.mark.usefixtures("_restored")
def test_an_op_that_is_defined_later_refuses_them() -> None:
    table.portable("later")(lambda xp, x: x)
    table.special("later", "cpu", ("float32", "float64"))(lambda x: x)
    try:
        with pytest.raises(OpDefinitionError, check=says("a kernel of later would never")):
            op_records.define("later", infer=elementwise(), nondifferentiable=True)
    finally:
        op_records._ops.pop("later", None)


@pytest.mark.usefixtures("_restored")
def test_unknown_names_warn() -> None:
    with pytest.warns(KernelWarning, match="no kind of device 'cpuu' so far.*mean 'cpu'"):
        table.special("sinh", "cpuu")(lambda x: x)
    with pytest.warns(KernelWarning, match="no op named 'sinhh' so far.*mean 'sinh'"):
        table.special("sinhh", "cpu")(lambda x: x)
    with pytest.warns(KernelWarning, match="no op named 'qqqq' so far.*define the op first"):
        table.special("qqqq", "cpu")(lambda x: x)


def test_the_table_knows_the_dtypes() -> None:
    assert {*DTYPES, BYTES.name} == table.DTYPE_NAMES


# --- gradient rules that cannot be called --------------------------------------------------------

RULES: dict[str, tuple[Any, str]] = {
    "one": ((lambda g, out, x, y: g,), "not one vjp rule for each input\n.*1 rule for 2 inputs"),
    "short": (
        (lambda g, x: g, lambda g, x: g),
        r"rule of input 0 .*\n.*\(g, x\)\n.*g, out, x1, x2",
    ),
    "no tuple": (lambda g, out, x, y: g, "not in a tuple"),
}


@pytest.mark.usefixtures("_restored")
@pytest.mark.parametrize("name", RULES)
def test_rules_that_cannot_be_called_are_refused(name: str) -> None:
    rules, words = RULES[name]
    table.portable("scaled")(lambda xp, x, y: x * y)
    try:
        with pytest.raises(OpDefinitionError, check=says(words)):
            op_records.define("scaled", infer=elementwise(), vjp=rules, saved="inputs")
    finally:
        op_records._ops.pop("scaled", None)


_ARGUMENTS: dict[str, Callable[[Any], Any]] = {
    "a missing attribute": lambda op: bind(op, ef.ones(3)),
    "an unknown attribute": lambda op: bind(op, ef.ones(3), k=2.0, power=3),
    "two inputs": lambda op: bind(op, ef.ones(3), ef.ones(3), k=2.0),
}


@pytest.fixture
def cube() -> Iterator[Any]:
    with restored_kernels():

        @table.portable("scaled_cube")
        def kernel(xp: Any, x: Any, *, k: float) -> Any:
            return k * x**3

        yield op_records.define("scaled_cube", infer=elementwise(), nondifferentiable=True)
    op_records._ops.pop("scaled_cube", None)


@pytest.mark.parametrize("mode", ["eager", "traced"])
@pytest.mark.parametrize("kind", ["portable", "special"])
@pytest.mark.parametrize("name", _ARGUMENTS)
def test_arguments_that_a_kernel_does_not_take(cube: Any, name: str, kind: str, mode: str) -> None:
    call, form = _ARGUMENTS[name], "kernel(xp, x, *, k)"
    if kind == "special":

        @table.special("scaled_cube", "cpu", ("float32",))
        def of_cpu(x: Any, *, k: float) -> Any:
            return k * x**3

        form = "of_cpu(x, *, k)"
    with pytest.raises(KernelError) as caught:
        call(cube) if mode == "eager" else ef.trace(lambda: call(cube))()
    assert caught.value.wrong.startswith("scaled_cube: the kernel does not take these")
    assert caught.value.expected == form
    assert "bind(scaled_cube, x, k=...)" in str(caught.value.hint)
    assert ("power=3" in str(caught.value.given)) == (name == "an unknown attribute")
    assert isinstance(caught.value.__cause__, TypeError)


def test_a_type_error_within_a_kernel_is_no_matter_of_its_arguments(register: Any) -> None:
    register(lambda x: len(x, 1))  # type: ignore[call-arg] - is the mistake
    with pytest.raises(KernelError, match=r"the kernel raised TypeError\('len\(\) takes"):
        ef.sinh(ef.ones(3))


def test_the_line_of_the_kernel_is_told_not_that_of_a_library(register: Any) -> None:
    def kernel(x: Any) -> Any:
        return np.linalg.inv(x)  # <- of the kernel

    register(kernel)
    with pytest.raises(TensorValueError) as caught:
        ef.sinh(ef.zeros((2, 2)))
    (note,) = caught.value.__notes__
    assert note.startswith("  kernel: ")
    assert "# <- of the kernel" in note


@pytest.fixture
def vectors() -> Iterator[Callable[[type[Exception]], Any]]:
    """Makes an op whose type rule raises the given error for anything but vectors."""
    with restored_kernels():
        table.portable("vectors_only")(lambda xp, x: x + xp.asarray(1, x.dtype))

        def define(error: type[Exception]) -> Any:
            def rule(x: Any) -> Any:
                if len(x.shape) != 1:
                    raise error("only vectors")  # <- of the rule
                return x

            return op_records.define("vectors_only", infer=rule, nondifferentiable=True)

        yield define
    op_records._ops.pop("vectors_only", None)


@pytest.mark.parametrize(
    ("error", "told_as"),
    [
        (errors.ShapeError, errors.ShapeError),
        (IndexError, errors.TensorIndexError),
        (ValueError, errors.TensorValueError),
        (LookupError, errors.OpDefinitionError),
    ],
)
@pytest.mark.parametrize("mode", ["eager", "traced"])
def test_errors_of_type_rules_are_the_same_in_each_call(
    vectors: Any, error: type[Exception], told_as: type[Exception], mode: str
) -> None:
    op = vectors(error)

    def call(x: ef.Tensor) -> Any:
        return bind(op, x)  # <- the line

    function = call if mode == "eager" else ef.trace(call)
    told = []
    for _ in range(3):  # the rule runs at the first call, and at later ones after the kernel
        with pytest.raises(told_as) as caught:
            function(ef.ones((2, 2)))
        cause = caught.value.__cause__
        assert error is told_as or type(cause) is error, cause
        told.append("\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())]))
        np.testing.assert_array_equal(function(ef.ones(2)), [2, 2])
    assert told[0] == told[1] == told[2]
    parts = ["only vectors", "vectors_only", "x=f32[2,2]@cpu:0", "# <- the line"]
    parts += ["  type rule: ", "# <- of the rule"] * (error is not told_as)
    for part in parts:
        assert part in told[0]


def test_dtypes_of_a_kernel_may_be_dtypes_and_not_one_alone() -> None:
    with restored_kernels():
        table.special("sinh", "cpu", (ef.float32,))(lambda x: x + 100)
        assert ef.sinh(ef.zeros(1)).tolist() == [100.0]
        with pytest.raises(ValueError, match=r"are a tuple, such as .*; got float32"):
            table.special("sinh", "cpu", ef.float32)  # type: ignore[arg-type]


@pytest.mark.usefixtures("_restored")
def test_a_name_for_each_of_two_inputs_is_used() -> None:
    table.special("add", "cpu", ("float32", "float32"))(lambda x1, x2: x1 + x2 + 100)
    assert (ef.ones(1) + ef.ones(1)).tolist() == [102.0]


def test_a_special_kernel_that_takes_a_namespace_is_refused() -> None:
    with pytest.raises(ValueError, match="for one kind of device gets no xp"):
        table.special("sinh", "cpu")(lambda xp, x: x)


def test_a_full_stack_is_no_fault_of_a_type_rule(vectors: Any) -> None:
    op = vectors(RecursionError)
    with pytest.raises(RecursionError):
        bind(op, ef.ones((2, 2)))
