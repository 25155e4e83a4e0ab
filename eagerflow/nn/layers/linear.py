"""`Linear`, and layers that arrange other layers, or axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, final

import eagerflow as ef
from eagerflow.errors import EagerflowError, ShapeError, TensorValueError
from eagerflow.extending import SIZE, in_graph, require
from eagerflow.nn import functional as F
from eagerflow.nn import init
from eagerflow.nn.checks import check_one, linear_error, note_precision
from eagerflow.nn.module import Module

__all__ = ["Flatten", "Identity", "Linear", "Sequential"]


@final
class Linear(Module):
    """A linear map of the last axis: ``x @ weight.T + bias``.

    Input ``[..., in_features]``, output ``[..., out_features]``. Weight and bias are drawn from
    U(-k, k) with ``k = 1 / sqrt(in_features)``: He et al. (2015) with a negative slope of √5.

    Args:
        in_features: the size of the last axis of inputs.
        out_features: the size of the last axis of outputs.
        bias: whether there is a bias.
        dtype: dtype of the variables; float32 by default.
        generator: the generator to draw initial values from; the process's own by default.

    Attributes:
        weight: ``[out_features, in_features]``.
        bias: ``[out_features]``, or None.

    Raises:
        TensorValueError: a size is less than 1.

    >>> layer = ef.nn.Linear(3, 2)
    >>> layer(ef.ones((5, 3))).shape
    (5, 2)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: ef.types.DTypeLike = None,
        generator: ef.random.Generator | None = None,
    ) -> None:
        require("Linear", SIZE, in_features=in_features, out_features=out_features)
        self.in_features = in_features
        self.out_features = out_features
        shape = (out_features, in_features)
        weight = init.he_uniform(shape, math.sqrt(5), generator=generator, dtype=dtype)
        self.weight = ef.Variable(weight, name="weight")
        self.bias = small_bias(shape, generator, dtype) if bias else None

    def forward(self, x: ef.Tensor) -> ef.Tensor:
        try:
            out = F.linear(x, self.weight, self.bias)
        except ShapeError as error:  # looked into afterwards: no cost without an error
            raise linear_error(self, x, error) from None
        note_precision(out, self.weight)
        return out


def small_bias(shape: tuple[int, ...], generator: Any, dtype: ef.types.DTypeLike) -> ef.Variable:
    """A bias beside a weight of ``shape``, drawn from U(-k, k) with ``k = 1 / sqrt(fan_in)``."""
    bound = 1 / math.sqrt(max(init.fans(shape)[0], 1))
    value = init.uniform(shape[:1], -bound, bound, generator=generator, dtype=dtype)
    return ef.Variable(value, name="bias")


@final
class Sequential(Module):
    """A chain of layers, each called with the output of the layer before.

    Args:
        layers: modules, or any functions of one argument. Recurrent layers return a pair, of
            which a function picks the part for the next layer: ``lambda pair: pair[0]``.

    Raises:
        TensorValueError: a layer is not callable, or a layer that takes a tensor gets a tuple.

    >>> from eagerflow.nn import functional as F
    >>> model = ef.nn.Sequential(ef.nn.Linear(3, 8), F.relu, ef.nn.Linear(8, 2))
    >>> model(ef.ones((5, 3))).shape
    (5, 2)
    >>> model[0]
    Linear(3, 8)
    >>> len(model[1:])
    2
    """

    def __init__(self, *layers: Callable[[Any], Any]) -> None:
        for i, layer in enumerate(layers):
            if not callable(layer):
                raise TensorValueError(
                    "Sequential: a layer cannot be called",
                    given=f"layer {i}: {layer!r}",
                    expected="modules or functions",
                    hint="for a list of layers: Sequential(*layers)",
                )
        self.layers = list(layers)

    def forward(self, x: Any) -> Any:
        before = None
        for i, layer in enumerate(self.layers):
            check_one(layer, x, before)
            try:
                x, before = in_graph(layer)(x), layer
            except EagerflowError as error:
                error.add_note(f"  in layers.{i} of Sequential, a {type(layer).__name__}")
                raise
        return x

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Callable[[Any], Any]]:
        return iter(self.layers)

    def __getitem__(self, i: int | slice) -> Any:
        return Sequential(*self.layers[i]) if isinstance(i, slice) else self.layers[i]


@final
class Identity(Module):
    """Returns its input; stands in for a layer that is left out.

    >>> ef.nn.Identity()(ef.ones(2))
    Tensor([1., 1.], f32[2]@cpu:0)
    """

    def forward(self, x: Any) -> Any:
        return x


@final
class Flatten(Module):
    """Merges several axes into one, by default all but the first.

    Args:
        start_axis: the first axis to merge.
        end_axis: the last axis to merge.

    >>> ef.nn.Flatten()(ef.ones((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_axis: int = 1, end_axis: int = -1) -> None:
        self.start_axis = start_axis
        self.end_axis = end_axis

    def forward(self, x: ef.Tensor) -> ef.Tensor:
        return ef.asarray(x).flatten(self.start_axis, self.end_axis)
