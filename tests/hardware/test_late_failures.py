"""Failures of kernels of an asynchronous device, which are raised where a value is read."""

from __future__ import annotations

from typing import Any

import pytest

import eagerflow as ef
from eagerflow import errors, hardware
from eagerflow.core import kernel_lookup
from eagerflow_kernels import table
from eagerflow_kernels.asynchronous import AsyncBackend
from tests.fakes.by_hand import registered
from tests.messages import points_at


def _fails_late(x: ef.Tensor) -> ef.Tensor:
    return ef.take(x, ef.tensor([5], device=x.device))  # the line at fault


def test_a_late_failure_is_raised_where_it_is_read_and_names_the_line_that_issued_it(hand) -> None:
    x = ef.tensor([1.0, 2.0], device="hand:0")
    y = _fails_late(x)
    z = (y + 1.0).to("hand:1") * 2.0
    for read in (lambda: z.numpy(), lambda: z.sum().item(), lambda: bool(y), lambda: z.to("cpu:0")):
        with pytest.raises(errors.TensorIndexError, match="index 5 is out of range") as caught:
            read()
        assert "# the line at fault" in str(caught.value)
        assert "x=f32[2]@hand:0" in str(caught.value)
    assert (x + x).tolist() == [2.0, 4.0]  # the device works on
    hardware.synchronize("hand:0")  # all failures have been reported


def test_who_synchronizes_is_told_what_nobody_has_read(hand) -> None:
    x = ef.tensor([1.0, 2.0], device="hand:0")
    _fails_late(x)
    with pytest.raises(errors.TensorIndexError, check=points_at("line at fault")):
        hardware.synchronize("hand:0")
    hardware.synchronize("hand:0")


def test_a_late_failure_in_a_graph_names_the_line_of_its_node(hand) -> None:
    f = ef.trace(lambda x, i: ef.take(x * 2.0, i) + 1.0)  # the line at fault
    x = ef.tensor([1.0, 2.0], device="hand:0")
    right, wrong = (ef.tensor([i], device="hand:0") for i in (1, 7))
    assert f(x, right).tolist() == [5.0]
    result = f(x, wrong)
    for _ in range(2):
        with pytest.raises(errors.TensorIndexError, check=points_at("line at fault")) as caught:
            result.numpy()
        assert caught.value.__notes__ == ["  node: %take of <lambda>"]


def test_a_late_failure_that_was_sent_names_the_line_that_issued_it() -> None:
    def f(x: ef.Tensor, i: ef.Tensor) -> ef.Tensor:
        with ef.device("async:0"):
            y = ef.take(x, i)  # the line at fault
        with ef.device("cpu:0"):
            return y * 2.0

    traced, x = ef.trace(f), ef.tensor([1.0, 2.0])
    assert traced(x, ef.tensor([1])).tolist() == [4.0]
    with pytest.raises(errors.TensorIndexError, check=points_at("line at fault")) as caught:
        traced(x, ef.tensor([7])).numpy()
    assert caught.value.__notes__[0] == "  node: %take of f"  # not the Send that reads it
    assert "Send" not in "".join(caught.value.__notes__)


def test_shapes_and_dtypes_are_refused_at_once(hand) -> None:
    x = ef.tensor([1.0, 2.0], device="hand:0")
    with pytest.raises(errors.ShapeError, match="shapes cannot be broadcast together"):
        x + ef.ones(3, device="hand:0")
    with pytest.raises(errors.TensorIndexError):
        x[5]
    with pytest.raises(errors.DeviceError, match="different devices"):
        x + ef.ones(2, device="hand:1")


def test_a_kernel_of_the_user_that_gives_something_else_is_told_late(hand) -> None:
    table.special("negative", "hand")(lambda x: x.astype("float64"))
    try:
        x = -ef.tensor([1.0], device="hand:0")
        with pytest.raises(errors.KernelError, match="gives another dtype than"):
            x.numpy()
    finally:
        table.remove("negative", "hand")
    assert (-ef.tensor([1.0], device="hand:0")).tolist() == [-1.0]


def test_faults_can_be_put_in_before_any_piece() -> None:
    left = [0]

    def fault() -> None:
        left[0] -= 1
        if left[0] == 0:
            raise OSError("the cable is out")

    def outcome(count: int) -> str:
        left[0] = count
        x = ef.tensor([1.0, 2.0], device="frail:0")
        try:
            result = str((x + x).to("frail:1").tolist())
        except errors.EagerflowError as error:
            result = f"{type(error).__name__}: {error.given if error.given else error.wrong}"
        left[0] = 0
        assert (ef.ones(2, device="frail:0") * 3.0).tolist() == [3.0, 3.0]  # the device works on
        return result

    for _ in registered(AsyncBackend("frail", threads=False, before_piece=fault)):
        outcomes = [outcome(count) for count in range(1, 19)]
    copying = "DeviceError: OSError('the cable is out')"
    adding = "FileError: x1=f32[2]@frail:0, x2=f32[2]@frail:0"
    assert outcomes == [copying] * 5 + [adding] * 2 + [copying] * 10 + ["[2.0, 4.0]"]


class UnspeakableError(Exception):
    """An error that has no text."""

    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


@pytest.mark.parametrize("device", ["hand:0", "async:0"])
@pytest.mark.parametrize("raised", [UnspeakableError, SystemExit, GeneratorExit])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_no_reader_waits_for_ever_whatever_is_raised(hand, device: str, raised: Any) -> None:
    def kernel(x: Any) -> Any:
        raise raised

    f = ef.trace(lambda x: (ef.cos(x) * 2.0).to("cpu:0") + 1.0)
    x = ef.ones(2, device=device)
    assert f(x).shape == (2,)
    kind = device.partition(":")[0]
    table.special("cos", kind)(kernel)
    try:
        for read in (lambda: ef.cos(x).tolist(), lambda: bool((ef.cos(x) + x)[0]), lambda: f(x)):
            with pytest.raises((errors.EagerflowError, raised)):
                read()
            with pytest.raises((errors.EagerflowError, raised)), ef.deadline(60):
                read()
    finally:
        table.remove("cos", kind)
    assert ef.cos(x).tolist() == ef.cos(ef.ones(2)).tolist()  # the device works on


def test_a_rule_that_raises_when_it_words_an_error_is_told_late(hand, monkeypatch) -> None:
    def kernel(x: Any) -> Any:
        raise ValueError("too hot")

    def rule(*given: Any) -> Any:
        raise ZeroDivisionError("in the rule")

    table.special("cos", "hand")(kernel)
    try:
        y = ef.cos(ef.ones(2, device="hand:0"))
        monkeypatch.setattr(kernel_lookup, "infer_specs", rule)
        with pytest.raises(errors.KernelError, match="the kernel raised ValueError") as caught:
            y.tolist()
    finally:
        table.remove("cos", "hand")
    assert any("ZeroDivisionError('in the rule')" in note for note in caught.value.__notes__)


def test_who_raises_when_told_of_an_end_keeps_nobody_else_from_it(hand) -> None:
    told: list[Any] = []

    def refuse(error: Exception | None) -> None:
        raise ValueError("not now")

    x = ef.ones(2, device="hand:0")
    y = x + x
    for done in (told.append, refuse, told.append):
        hand.when_ready(x._data, done)
    with pytest.raises(ValueError, match="not now"):
        hand.pump(100)
    assert told == [None, None]
    assert y.tolist() == [2.0, 2.0]
