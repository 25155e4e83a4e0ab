"""Draws by rejection sampling: gamma, beta and Dirichlet, and Poisson."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from eagerflow.core.moves_to_scopes import device_wins
from eagerflow.core.op import bind, define
from eagerflow.core.op_records.batch_rules import each_row
from eagerflow.core.op_records.cost_formulas import per_output
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.core.to_tensor import TensorLike, as_tensor, tensor_of
from eagerflow.errors import DTypeError, ShapeError
from eagerflow.hardware import Device
from eagerflow.ops.random.argument_order import shape_first
from eagerflow.ops.random.draws import draw_type, in_range, key_of, parameters
from eagerflow.ops.reduction.totals import sum
from eagerflow.ops.rules.arguments import DeviceLike, as_shape
from eagerflow.ops.rules.promotion import cast
from eagerflow.ops.shape.reshape_and_transpose import broadcast_to
from eagerflow.types import FLOAT32, DType, DTypeLike, Shape, ShapeLike, TensorType, as_dtype

if TYPE_CHECKING:
    from eagerflow.ops.names.random import Generator


def _shaped_type(
    key: TensorType, parameter: TensorType, *, shape: Shape, dtype: DType
) -> TensorType:
    if not parameter.dtype.is_floating:
        raise DTypeError("the parameter must be floating")
    return draw_type(key, shape=shape, dtype=dtype)


_GAMMA: Final = define(
    "random_gamma",
    infer=_shaped_type,
    nondifferentiable=True,
    precision="exact",
    cost=per_output(300),
    host_inputs=(0,),
    batch=each_row,
)
_POISSON: Final = define(
    "random_poisson",
    infer=_shaped_type,
    nondifferentiable=True,
    precision="exact",
    cost=per_output(300),
    host_inputs=(0,),
    batch=each_row,
)


@shape_first
@device_wins
def gamma(
    shape: ShapeLike,
    concentration: TensorLike,
    *,
    scale: TensorLike = 1.0,
    dtype: DTypeLike = None,
    generator: Generator | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Gamma-distributed random numbers. Gradients flow to ``scale`` alone.

    Args:
        shape: shape of the result; it broadcasts with the shapes of the parameters.
        concentration: the shape parameter, positive.
        scale: factor of the draws; the mean is ``concentration * scale``.
        dtype: a real floating dtype; by default that of the parameters, float32 for numbers.
        generator: the generator to draw from; the process's own by default.
        device: device of the result; by default that of the parameters, else the current device.

    Raises:
        TensorValueError: a parameter is not positive.

    >>> bool((ef.random.gamma((1000,), concentration=2.0) > 0).all())
    True
    """
    sizes, made, where, (concentration, scale) = parameters(
        "gamma", shape, dtype, device, concentration, scale
    )
    scale = in_range(scale, "positive", "gamma: scale is not positive", scale, dtype=made, on=where)
    values: Tensor = _gamma("gamma", sizes, concentration, made, where, generator) * scale
    return values


def _gamma(
    name: str, shape: Shape, concentration: Any, dtype: DType, where: Device,
    generator: Generator | None,
) -> Tensor:  # fmt: skip
    refusal = f"{name}: the concentration is not positive"
    checked = in_range(concentration, "positive", refusal, concentration, dtype=dtype, on=where)
    made = dtype if dtype.itemsize >= 4 else FLOAT32
    a = cast(as_tensor(checked, made, where), made)
    return cast(bind(_GAMMA, key_of(generator, where), a, shape=shape, dtype=made), dtype)


@shape_first
@device_wins
def beta(
    shape: ShapeLike,
    a: TensorLike,
    b: TensorLike,
    *,
    dtype: DTypeLike = None,
    generator: Generator | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Beta-distributed random numbers: a gamma draw over the sum of two gamma draws.

    Args:
        shape: shape of the result; it broadcasts with the shapes of the parameters.
        a: the first shape parameter (concentration at 1), positive.
        b: the second shape parameter (concentration at 0), positive.
        dtype: a real floating dtype; by default that of the parameters, float32 for numbers.
        generator: the generator to draw from; the process's own by default.
        device: device of the result; by default that of the parameters, else the current device.

    Raises:
        TensorValueError: a parameter is not positive.

    >>> x = ef.random.beta((1000,), a=2.0, b=3.0)
    >>> bool((x >= 0).all()), bool((x <= 1).all())
    (True, True)
    """
    sizes, made, where, (a, b) = parameters("beta", shape, dtype, device, a, b)
    x = _gamma("beta", sizes, a, made, where, generator)
    y = _gamma("beta", sizes, b, made, where, generator)
    share: Tensor = x / (x + y)
    return share


@device_wins
def dirichlet(
    shape: ShapeLike,
    concentration: TensorLike,
    *,
    dtype: DTypeLike = None,
    generator: Generator | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Dirichlet-distributed random vectors: probabilities of categories, which add up to 1.

    Args:
        shape: the batch shape; it broadcasts with the batch of ``concentration``.
        concentration: ``[..., k]``, positive.
        dtype: a real floating dtype; by default that of ``concentration``.
        generator: the generator to draw from; the process's own by default.
        device: device of the result; by default that of ``concentration``.

    Returns:
        ``[*shape, k]``.

    Raises:
        ShapeError: ``concentration`` has no axis.
        TensorValueError: ``concentration`` is not positive.

    >>> ef.random.dirichlet((5,), concentration=ef.tensor([1.0, 2.0, 3.0])).shape
    (5, 3)
    """
    given = tensor_of(concentration)
    if not given.shape:
        raise ShapeError("dirichlet: there are no categories", given=str(type_of(given)))
    sizes = (*as_shape("dirichlet", shape), 1)
    sizes, made, where, (whole,) = parameters("dirichlet", sizes, dtype, device, given)
    whole = broadcast_to(whole, sizes)
    x = _gamma("dirichlet", sizes, whole, made, where, generator)
    share: Tensor = x / sum(x, -1, keepdims=True)
    return share


@shape_first
@device_wins
def poisson(
    shape: ShapeLike = (),
    rate: TensorLike = 1.0,
    *,
    dtype: DTypeLike = "int64",
    generator: Generator | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Poisson-distributed random numbers: counts of events at a given rate.

    Args:
        shape: shape of the result; it broadcasts with the shape of ``rate``.
        rate: the mean, 0 or more.
        dtype: an integer or floating dtype.
        generator: the generator to draw from; the process's own by default.
        device: device of the result; by default that of ``rate``, else the current device.

    Raises:
        TensorValueError: the rate is negative.

    >>> ef.random.poisson((3,), rate=0.0)
    Tensor([0, 0, 0], i64[3]@cpu:0)
    """
    sizes, made, where, (rate,) = parameters("poisson", shape, None, device, rate)
    made = made if made.itemsize >= 4 else FLOAT32
    refusal = "poisson: the rate is negative or NaN"
    checked = in_range(rate, "scale", refusal, rate, dtype=made, on=where)
    mean = cast(as_tensor(checked, made, where), made)
    wanted = as_dtype(dtype)
    drawn = wanted if wanted.is_native else made
    values = bind(_POISSON, key_of(generator, where), mean, shape=sizes, dtype=drawn)
    return cast(values, wanted)
