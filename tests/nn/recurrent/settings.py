"""A table of recurrent layers and cells, and the numbers that they are compared on.

`record.py` runs it with PyTorch, `test_recorded.py` with eagerflow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from tests.nn import settings
from tests.nn.settings import numbers

Array = np.ndarray[Any, Any]
TARGET = settings.TARGET.with_name("recurrent.npz")
TIME, BATCH, INPUTS, HIDDEN = 5, 3, 2, 3
#: lengths not sorted, one of all steps, one of a single step
LENGTHS = (2, 5, 1)


@dataclass(frozen=True)
class Setting:
    """A layer or cell with the arguments of one call.

    Attributes:
        name: the name of the row.
        layer: the name of the class.
        options: its arguments after the sizes.
        shape: the shape of the input.
        lengths: the lengths of the sequences, if these differ.
        starts: whether an initial state is given.
    """

    name: str
    layer: str
    options: dict[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] = (TIME, BATCH, INPUTS)
    lengths: tuple[int, ...] | None = None
    starts: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def states(self) -> list[tuple[str, tuple[int, ...]]]:
        """Name and shape of the tensors of a state."""
        get = self.options.get
        batch: tuple[int, ...]
        if self.layer.endswith("Cell"):
            lead, batch = (), self.shape[:-1]
        else:
            lead = (get("num_layers", 1) * (1 + get("bidirectional", False)),)
            batch = self.shape[0 if get("batch_first") else 1 : -1][:1]
            batch = batch if len(self.shape) == 3 else ()
        named_shapes = [("h", (*lead, *batch, get("proj_size") or HIDDEN))]
        if self.layer.startswith("LSTM"):
            named_shapes.append(("c", (*lead, *batch, HIDDEN)))
        return named_shapes


def input_of(setting: Setting) -> Array:
    return numbers(f"{setting.name} input", setting.shape)


def starts_of(setting: Setting) -> list[Array]:
    return [numbers(f"{setting.name} start {name}", shape) for name, shape in setting.states]


def variable_of(setting: Setting, path: str, shape: tuple[int, ...]) -> Array:
    return numbers(f"{setting.name} {path}", shape)


def cotangent_of(setting: Setting, name: str, shape: tuple[int, ...]) -> Array:
    return numbers(f"{setting.name} cotangent {name}", shape)


#: name, class, options
KINDS: list[tuple[str, str, dict[str, Any]]] = [
    ("tanh", "RNN", {}),
    ("relu", "RNN", {"nonlinearity": "relu"}),
    ("lstm", "LSTM", {}),
    ("projected lstm", "LSTM", {"proj_size": 2}),
    ("gru", "GRU", {}),
]


def rows() -> list[Setting]:
    settings = []
    for (name, layer, options), layers, both, lengths in product(
        KINDS, (1, 2), (False, True), (None, LENGTHS)
    ):
        text = f"{name}, {layers} layers{', both ways' * both}{', lengths' * (lengths is not None)}"
        extra: dict[str, Any] = {"num_layers": layers} if layers > 1 else {}
        extra |= {"bidirectional": True} if both else {}
        starts = (layers > 1) is not both
        settings.append(Setting(text, layer, options | extra, lengths=lengths, starts=starts))
    for name, layer, options in KINDS:
        settings += _odd(name, layer, options)
        if "proj_size" not in options:
            settings += _cells(name, f"{layer}Cell", options)
    return settings


def _odd(name: str, layer: str, options: dict[str, Any]) -> list[Setting]:
    first = {**options, "batch_first": True}
    swapped = (BATCH, TIME, INPUTS)
    return [
        Setting(f"{name} without bias", layer, {**options, "bias": False}, starts=True),
        Setting(f"{name}, batch first", layer, first, swapped, starts=True),
        Setting(f"{name}, batch first, lengths", layer, first, swapped, LENGTHS),
        Setting(f"{name} of one sequence", layer, options, (TIME, INPUTS), starts=True),
        Setting(f"{name} of one step", layer, options, (1, BATCH, INPUTS)),
        Setting(f"{name} of a batch of 1", layer, options, (TIME, 1, INPUTS), (3,)),
        Setting(f"{name}, no sequence to the end", layer, options, lengths=(3, 1, 2)),
    ]


def _cells(name: str, layer: str, options: dict[str, Any]) -> list[Setting]:
    return [
        Setting(f"{name} cell", layer, options, (BATCH, INPUTS)),
        Setting(f"{name} cell with a state", layer, options, (BATCH, INPUTS), starts=True),
        Setting(f"{name} cell of a row", layer, options, (INPUTS,), starts=True),
        Setting(f"{name} cell without bias", layer, {**options, "bias": False}, (BATCH, INPUTS)),
    ]
