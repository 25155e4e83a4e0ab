"""The public names of ``ef.nn``: existence, documentation, and hints at other libraries' names."""

from __future__ import annotations

import inspect
import types
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import UnknownNameError
from tests.each import check_each

#: names promised by ef.nn
LAYERS = {
    "Module", "Linear", "Conv1d", "Conv2d", "ConvTranspose2d", "MaxPool2d", "AvgPool2d",
    "BatchNorm", "LayerNorm", "RMSNorm", "Dropout", "Embedding", "ShardedEmbedding",
    "RNN", "LSTM", "GRU", "MultiHeadAttention", "Sequential",
}  # fmt: skip


def public() -> dict[str, Any]:
    members = {n: v for n, v in vars(ef.nn).items() if inspect.isclass(v) and n[0] != "_"}
    for space in ("init", "metrics"):
        module = getattr(ef.nn, space)
        members |= {f"{space}.{name}": getattr(module, name) for name in module.__all__}
    return members


def test_the_layers_are_there() -> None:
    assert set(public()) >= LAYERS


def _is_documented(name: str, value: Any) -> None:
    assert ">>> " in (value.__doc__ or ""), f"ef.nn.{name} has no example"
    for method, member in inspect.getmembers(value) if inspect.isclass(value) else ():
        if not method.startswith("_") and isinstance(member, (types.FunctionType, property)):
            assert inspect.getdoc(member), f"ef.nn.{name}.{method} has no docstring"


def test_documented_with_an_example() -> None:
    check_each(public().items(), _is_documented)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("BatchNorm2d", r"ef\.nn\.BatchNorm\(channels\)"),
        ("Conv2D", "did you mean 'Conv2d'"),
        ("ModuleList", "a plain list of modules"),
        ("Parameter", "assign an ef.Variable"),
        ("MultiheadAttention", "did you mean 'MultiHeadAttention'"),
        ("ReLU", "ef.nn.functional.relu"),
        ("LeakyReLU", "ef.nn.functional.leaky_relu"),
        ("CrossEntropyLoss", "ef.nn.functional.cross_entropy"),
        ("MSELoss", "ef.nn.functional.mse_loss"),
    ],
)
def test_names_of_other_libraries(name: str, hint: str) -> None:
    with pytest.raises(UnknownNameError, match=f"eagerflow.nn has no '{name}'(.|\n)*{hint}"):
        getattr(ef.nn, name)
