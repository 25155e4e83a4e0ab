"""`Linear`, and layers that only arrange others or axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, final

import eagerflow as ef
from eagerflow.errors import EagerflowError, ShapeError, TensorValueError
from eagerflow.extending import SIZE, require
from eagerflow.nn import functional as F
from eagerflow.nn import init
from eagerflow.nn.checks import check_one, linear_error, note_precision
from eagerflow.nn.module import Module

__all__ = ["Flatten", "Identity", "Linear", "Sequential"]


@final
class Linear(Module):
    """``x @ weight.T + bias``, for the last axis.

    Input ``[..., in_features]``, output ``[..., out_features]``. Weight and bias are drawn from
    U(-k, k) with ``k = 1 / sqrt(in_features)``: He et al. (2015) with a negative slope of √5.

    Args:
        in_features: the size of the last axis of inputs.
        out_features: the size of the last axis of outputs.
        bias: whether there is a bias.
        dtype: of the variables; float32 by default.
        generator: where to draw the initial values from.

    Attributes:
        weight: ``[out_features, in_features]``.
        bias: ``[out_features]``, or None.

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
        except ShapeError as error:  # asked afterwards: it costs nothing where all is well
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
    """Calls one after the other with the output of the one before.

    Args:
        layers: modules, or any functions of one argument. What recurrent layers give is a pair;
            a function picks what the next layer takes: ``lambda pair: pair[0]``.

    Raises:
        TensorValueError: something cannot be called, or a layer gets a tuple that takes a tensor.

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
                    hint="of a list of layers: Sequential(*layers)",
                )
        self.layers = list(layers)

    def forward(self, x: Any) -> Any:
        before = None
        for i, layer in enumerate(self.layers):
            check_one(layer, x, before)
            try:
                x, before = layer(x), layer
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
    """Gives what it gets, such as in the place of a layer that is left out.

    >>> ef.nn.Identity()(ef.ones(2))
    Tensor([1., 1.], f32[2]@cpu:0)
    """

    def forward(self, x: Any) -> Any:
        return x


@final
class Flatten(Module):
    """Makes one axis of several, by default of all but the first.

    Args:
        start_axis: the first of them.
        end_axis: the last of them.

    >>> ef.nn.Flatten()(ef.ones((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_axis: int = 1, end_axis: int = -1) -> None:
        self.start_axis = start_axis
        self.end_axis = end_axis

    def forward(self, x: ef.Tensor) -> ef.Tensor:
        return ef.asarray(x).flatten(self.start_axis, self.end_axis)
