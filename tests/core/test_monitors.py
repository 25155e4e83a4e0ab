"""Monitors: NaN check, verification, timing; per process, per block, per thread, chained."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.core import op as op_module
from eagerflow.core.interpreter import stack
from eagerflow.core.monitors import timed
from eagerflow.core.op import Op, bind, define
from eagerflow_kernels import table
from tests.recorded import Recorder, recorded

# NumPy warns before the monitors that are tested here
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture
def _for_all() -> Iterator[None]:
    """For tests that call ``ef.config``: take it back."""
    yield
    ef.config(check_nan=False, verify=False)


@pytest.fixture
def mistaken() -> Iterator[Op]:
    """An op of eagerflow's own whose kernel gives another shape than its rule says."""

    def kernel(xp: ModuleType, x: np.ndarray) -> np.ndarray:
        return x[None]

    kernel.__module__ = "eagerflow_kernels"  # those of users are always compared
    table.portable("mistaken")(kernel)
    op = define("mistaken", infer=lambda x: x, nondifferentiable=True)
    yield op
    table.remove("mistaken")
    del op_module._ops["mistaken"]


# --- check_nan --------------------------------------------------------------------------------


def test_the_first_op_that_makes_a_nan_is_named() -> None:
    x = ef.tensor([1.0, -1.0])
    with ef.config(check_nan=True), pytest.raises(errors.NonFiniteError) as caught:
        ef.exp(ef.sqrt(x)) + 1.0
    message = str(caught.value)
    assert "sqrt: made a NaN from finite inputs" in message
    assert "x=f32[2]@cpu:0" in message
    assert "test_monitors.py" in message
    assert "ef.exp(ef.sqrt(x))" in message
    assert isinstance(caught.value, FloatingPointError)


@pytest.mark.parametrize("how", [lambda f: f, ef.trace], ids=["eager", "traced"])
def test_the_values_and_the_number_of_bad_ones_are_shown(how) -> None:
    x = ef.tensor([2.0, 0.0, -1.0])
    with ef.config(check_nan=True), pytest.raises(errors.NonFiniteError) as caught:
        how(ef.log)(x)
    given = (
        "x=f32[3]@cpu:0; values from -1 to 2; 1 NaN and 1 infinite of 3 elements, the first at [1]"
    )
    assert caught.value.given == given
    y = ef.tensor([2.0j, 0.0])
    with ef.config(check_nan=True), pytest.raises(errors.NonFiniteError) as caught:
        how(ef.divide)(y, ef.zeros(2))
    assert "values from 0 to 2 in absolute value, 0 in absolute value; 2 NaN of 2" in str(
        caught.value.given
    )


@pytest.mark.parametrize(
    ("made", "hint", "mended"),
    [
        (lambda x: ef.log(x), "ef.log(ef.clip(x, min=1e-12))", lambda x: ef.log(ef.clip(x, 1e-12))),
        (lambda x: 1.0 / x, "ef.where(y != 0, y, 1.0)", lambda x: 1.0 / ef.where(x != 0, x, 1.0)),
        (lambda x: x / x, "before dividing", lambda x: x / ef.where(x != 0, x, 1.0)),
        (lambda x: ef.sqrt(x - 1), "ef.clip(x, min=0.0)", lambda x: ef.sqrt(ef.clip(x - 1, 0.0))),
        (
            lambda x: ef.exp(1e3 * x),
            "x.max(axis=-1, keepdims=True)",
            lambda x: ef.exp(1e3 * x - (1e3 * x).max(axis=-1, keepdims=True)),
        ),
        (
            lambda x: (1e5 * x).astype(ef.float16),
            "float16 ends at 65,504",
            lambda x: (1e5 * x).astype(ef.bfloat16),
        ),
        (lambda x: ef.logit(x), "binary_cross_entropy_with_logits", lambda x: x),
        (
            ef.grad(lambda x: ef.sqrt(x).sum()),
            "at 0 the slope of a root is infinite",
            ef.grad(lambda x: ef.where(x > 0, ef.sqrt(ef.where(x > 0, x, 1.0)), 0.0).sum()),
        ),
        (
            ef.grad(lambda x: (x**0.5).sum()),
            "choose the base before",
            ef.grad(lambda x: (ef.where(x > 0, x, 1.0) ** 0.5).sum()),
        ),
    ],
)
def test_the_usual_remedy_is_named(made, hint: str, mended) -> None:
    x = ef.tensor([0.0, 1.0])
    for run in (lambda f: f, ef.trace):
        with ef.config(check_nan=True):
            with pytest.raises(errors.NonFiniteError) as caught:
                run(made)(x)
            run(mended)(x)
        text = caught.value.hint or ""
        assert hint in text
        assert text.endswith("; ef.config(check_nan=False) lets it pass")
        assert f"hint: {text}" in str(caught.value)


def test_an_infinity_is_named() -> None:
    with ef.config(check_nan=True), pytest.raises(errors.NonFiniteError, match="an infinity"):
        ef.tensor(1.0) / 0.0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64", "float8_e5m2"])
def test_all_inexact_dtypes_are_checked(dtype) -> None:
    x = ef.ones(3, dtype=dtype)
    with ef.config(check_nan=True):
        assert (x + x).dtype == dtype
        with pytest.raises(errors.NonFiniteError):
            ef.divide(x, ef.zeros(3, dtype=dtype))


def test_large_numbers_are_finite() -> None:
    x = ef.tensor([[3e38, -3e38], [1e-40, 0.0]])
    with ef.config(check_nan=True):
        for y in (
            x * 1.0,
            x.T * 1.0,
            ef.zeros((0, 3)) * 1.0,
            ef.full((2,), 1e308, dtype="float64") * 1.0,
        ):
            assert ef.isfinite(y).all()


def test_what_is_not_made_from_finite_inputs_passes() -> None:
    bad = ef.tensor([float("nan"), float("inf")])
    with ef.config(check_nan=True):
        bad + 1.0
        ef.exp(bad)
        ef.full(2, float("inf"))
        ef.Variable(bad) * 1.0
        ef.where(ef.tensor([True, False]), ef.ones(2), float("-inf"))
        ef.pad(ef.ones(2), 1, constant_values=float("nan"))
        ef.tensor([1, 2]) // ef.tensor([1, 2])
        ef.ones(2, device="null:0") / 0.0


def rooted(x):
    y = ef.sqrt(x)
    return y.sum()


@pytest.mark.parametrize("gradient", [ef.grad(rooted), ef.trace(ef.grad(rooted)),
                                      ef.grad(ef.trace(rooted)),
                                      lambda x: ef.jvp(rooted, (x,), (x,))])  # fmt: skip
def test_the_backward_pass_is_checked(gradient) -> None:
    with ef.config(check_nan=True), pytest.raises(errors.NonFiniteError) as caught:
        gradient(ef.zeros(2))
    assert "y = ef.sqrt(x)" in str(caught.value)
    message = str(caught.value)
    origin = r"\n  in the (gradient|tangent) of sqrt, applied at .*y = ef\.sqrt\(x\)"
    assert re.search(origin, message)
    assert message.count("applied at") == 1
    assert "values" in message


def test_operators_in_place_are_checked() -> None:
    x = ef.ones(2)
    with ef.config(check_nan=True), pytest.raises(errors.NonFiniteError):
        x /= 0.0
    assert x.tolist() == [1.0, 1.0]


# --- verify -----------------------------------------------------------------------------------


def test_a_kernel_that_disagrees_with_its_rule_is_named(mistaken) -> None:
    x = ef.ones(2)
    assert bind(mistaken, x).shape == (1, 2)
    with ef.config(verify=True), pytest.raises(errors.KernelError) as caught:
        bind(mistaken, x)
    message = str(caught.value)
    assert "mistaken: the result is not of the type that the rule gives" in message
    assert "f32[1,2]@cpu:0 of x=f32[2]@cpu:0" in message
    assert "expected: f32[2]@cpu:0" in message


def test_right_kernels_pass() -> None:
    x = ef.tensor([[3.0, 0.0], [1.0, 2.0]])
    with ef.config(verify=True, cpu_devices=2):
        ef.nonzero(x)
        ef.unique_values(x)
        x[x > 1]
        ef.linalg.qr(x)
        ef.random.normal((3,), device="cpu:1")
        ef.zeros(3, device="cpu:1") + 1
        v = ef.Variable(x)
        v.assign_add(1.0)
        x.to("cpu:1").to("null:3") @ x.to("null:3")
        ef.astype(x, "bfloat16").sum()


# --- the scope of monitors --------------------------------------------------------------------


def makes_nan() -> bool:
    try:
        ef.log(ef.tensor(-1.0))
    except errors.NonFiniteError:
        return False
    return True


def in_other_thread(function) -> object:
    result = []
    thread = threading.Thread(target=lambda: result.append(function()))
    thread.start()
    thread.join()
    return result[0]


@pytest.mark.usefixtures("_for_all")
def test_a_call_is_for_all_threads() -> None:
    assert makes_nan()
    ef.config(check_nan=True)
    assert not makes_nan()
    assert not in_other_thread(makes_nan)
    with ef.config(check_nan=False):
        assert makes_nan()
        assert not in_other_thread(makes_nan)
    assert not makes_nan()
    ef.config(check_nan=False)
    assert makes_nan()
    assert not stack.installed


def test_a_block_is_for_its_thread() -> None:
    with ef.config(check_nan=True):
        assert not makes_nan()
        assert in_other_thread(makes_nan)
    assert makes_nan()
    assert not stack.installed


def test_a_block_of_another_thread_may_end_later() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> bool:
        with ef.config(check_nan=True):
            inside.set()
            leave.wait(10)
            return makes_nan()

    results = []
    thread = threading.Thread(target=lambda: results.append(other()))
    with ef.config(check_nan=True):
        thread.start()
        inside.wait(10)
    assert makes_nan()
    leave.set()
    thread.join()
    assert results == [False]


@pytest.mark.usefixtures("_for_all")
@pytest.mark.parametrize("block", [False, True])
def test_both_chain(mistaken, block) -> None:
    def check() -> None:
        assert not makes_nan()
        with pytest.raises(errors.KernelError):
            bind(mistaken, ef.ones(2))

    if block:
        with ef.config(check_nan=True, verify=True):
            check()
        with ef.config(check_nan=True), ef.config(verify=True):
            check()
    else:
        ef.config(check_nan=True, verify=True)
        check()


@pytest.mark.usefixtures("_for_all")
def test_a_setting_made_within_a_profile_holds() -> None:
    with ef.profile() as p:
        ef.config(check_nan=True)
        assert not makes_nan()
        ef.config(check_nan=False)
        assert makes_nan()
    assert [e.name for e in p.events].count("log") == 1  # the other raised


# --- timing -----------------------------------------------------------------------------------


@pytest.fixture
def log() -> Iterator[Recorder]:
    """An instrument on the bus."""
    with recorded() as made:
        yield made


def test_timing_emits_an_event_per_op(log) -> None:
    x = ef.ones((2, 3))
    with timed():
        x + x
        ef.linalg.qr(x)
    add, qr = log.events
    assert (add.kind, add.name, add.device, add.nbytes) == ("op", "add", "cpu:0", 24)
    assert add.detail == "f32[2,3]@cpu:0"
    assert qr.detail == "f32[2,2]@cpu:0, f32[2,3]@cpu:0"
    assert add.thread == threading.get_ident()
    assert add.start <= add.stop <= qr.start
    assert add.seconds == add.stop - add.start
    assert add.source is not None
    assert add.source.text == "x + x"


def test_timing_within_timing_counts_once(log) -> None:
    with timed(), timed():
        ef.ones(2)
    assert [e.name for e in log.events] == ["full"]


def test_the_time_of_an_op_without_results() -> None:
    queue = ef.Queue(1, ef.tensor(0))
    with ef.profile() as p:
        queue.enqueue(1)
        queue.close()
    ops = [(e.name, e.device) for e in p.events if e.kind == "op"]
    assert ops == [("queue_enqueue", "cpu:0"), ("queue_close", "")]
