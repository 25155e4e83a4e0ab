"""Kernels that users register are compared with the type rule on their first call for a lane."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import KernelError, TensorValueError
from eagerflow_kernels import table
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
