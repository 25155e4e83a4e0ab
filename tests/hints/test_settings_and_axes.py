"""Guesses at settings, and values in the place of an axis: the hint names what to write."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import DTypeError, SettingError, TensorValueError, UnknownNameError
from eagerflow.settings import Settings
from tests.messages import says

X, Y = ef.tensor([1.0, 2.0]), ef.tensor([3.0, 1.0])


@pytest.mark.parametrize(
    ("function", "remedy"),
    [
        (ef.max, r"ef.maximum\(x, y\)"),
        (ef.min, r"ef.minimum\(x, y\)"),
        (ef.sum, r"x \+ y"),
        (ef.prod, r"x \* y"),
        (ef.any, r"x \| y"),
        (ef.all, r"x & y"),
        (ef.mean, r"ef.stack\(\[x, y\]\).mean\(axis=0\)"),
        (ef.std, r"ef.stack\(\[x, y\]\)"),
        (ef.argmax, r"ef.stack\(\[x, y\]\)"),
        (ef.logsumexp, r"ef.logaddexp\(x, y\)"),
        (ef.concat, r"ef.concat\(\[x, y\]\)"),
        (ef.stack, r"ef.stack\(\[x, y\]\)"),
        (ef.sort, r"ef.argsort\(y\)"),
    ],
)
@pytest.mark.parametrize("kind", [ef.float32, ef.int64])
def test_two_arrays_for_a_function_of_one(function: Any, remedy: str, kind: Any) -> None:
    with pytest.raises(DTypeError, check=says(rf"axis must be an integer[^|]*hint: .*{remedy}")):
        function(X.astype(kind), Y.astype(kind))


def test_a_text_is_named_as_a_whole() -> None:
    with pytest.raises(DTypeError, match="got: axis='rrr'\n"):
        ef.sum(X, axis="r" * 3)  # type: ignore[arg-type] - is refused
    with pytest.raises(DTypeError, match="got: shape='333'\n"):
        ef.zeros("3" * 3)  # type: ignore[arg-type] - is refused


def test_a_number_in_the_place_of_the_axis() -> None:
    with pytest.raises(DTypeError, check=says(r"ef.maximum\(x, y\)")):
        ef.max(X, 0.5)  # type: ignore[arg-type] - is refused
    with pytest.raises(DTypeError, check=says(r"ef.minimum\(x, y\)")):
        X.min(Y)


def test_an_array_is_no_axes_though_its_elements_might_be() -> None:
    with pytest.raises(DTypeError, check=says(r"axis=i64\[2\]@cpu:0")):
        ef.max(ef.ones((2, 2)), ef.tensor([0, 1]))  # type: ignore[arg-type] - is refused
    assert ef.max(ef.ones((2, 2)), ef.tensor(1)).shape == (2,)  # type: ignore[arg-type] - as NumPy
    assert ef.max(ef.ones((2, 2)), (0, 1)).shape == ()


def test_the_distance_of_two_arrays() -> None:
    with pytest.raises(TensorValueError, check=says(r"ef.linalg.norm\(x - y\)")):
        ef.linalg.norm(X, Y)  # type: ignore[arg-type] - is refused


@pytest.mark.parametrize("name", [f.name for f in fields(Settings)])
def test_a_setting_is_no_name_of_the_package(name: str) -> None:
    if name not in ("moves", "check_nan"):
        with pytest.raises(UnknownNameError, check=says(rf"ef.config\({name}=")):
            getattr(ef, name)
    with pytest.raises(UnknownNameError, check=says(r"ef.config\(")):
        getattr(ef, name)


@pytest.mark.parametrize("name", ["portable", "native", "use_portable", "set_kernels", "backend"])
def test_a_kernel_library_is_a_setting(name: str) -> None:
    with pytest.raises(UnknownNameError, check=says(r"ef.config\(kernels='portable'\)")):
        getattr(ef, name)


@pytest.mark.parametrize("changes", [{"portable": True}, {"kernels": "numpy"}, {"backend": "x"}])
def test_another_name_or_value_of_the_kernel_library(changes: dict[str, Any]) -> None:
    with pytest.raises(SettingError, check=says(r"ef.config\(kernels='portable'\)")):
        ef.config(**changes)
