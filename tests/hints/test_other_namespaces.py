"""Names that another namespace of eagerflow has, and namespaces that are imported by their path."""

from __future__ import annotations

import importlib
from functools import reduce

import pytest

import eagerflow as ef
from eagerflow.errors import UnknownNameError
from eagerflow.hints import missing_imports
from tests.fresh_process import output_of


@pytest.mark.parametrize(
    ("space", "name", "place"),
    [
        ("extending", "check_grads", "ef.check_grads"),
        ("", "Linear", "ef.nn.Linear"),
        ("", "mse_loss", "ef.nn.functional.mse_loss"),
        ("", "Normal", "ef.distributions.Normal"),
        ("nn", "einsum", "ef.einsum"),
        ("optim", "value_and_grad", "ef.value_and_grad"),
        ("linalg", "rfft", "ef.fft.rfft"),
    ],
)
def test_a_name_of_another_namespace_is_told(space: str, name: str, place: str) -> None:
    module = reduce(getattr, filter(None, space.split(".")), ef)
    with pytest.raises(UnknownNameError) as caught:
        getattr(module, name)
    assert (caught.value.hint or "").startswith(f"{place}(")
    assert reduce(getattr, place.split(".")[1:], ef) is not None


def test_so_it_is_in_an_import() -> None:
    form = "ef.check_grads(f, args, "
    with pytest.raises(ImportError) as caught:
        exec("from eagerflow.extending import check_grads")
    assert (missing_imports.remedy(caught.value) or "").startswith(form)


@pytest.mark.parametrize("name", ["fft", "io", "linalg", "random"])
def test_a_namespace_can_be_imported_by_its_path(name: str) -> None:
    module = importlib.import_module(f"eagerflow.{name}")
    assert module is getattr(ef, name)
    member = module.__all__[0]
    code = f"from eagerflow.{name} import {member}; import eagerflow as ef\n"
    assert output_of(f"{code}print({member} is ef.{name}.{member})") == "True\n"
