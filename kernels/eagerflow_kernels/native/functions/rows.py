"""Rules of reductions and scans along the inner axis, and of functions composed of them."""

from __future__ import annotations

from eagerflow_kernels.native.functions.arithmetic import reciprocal
from eagerflow_kernels.native.functions.exponential import exp
from eagerflow_kernels.native.functions.logarithms import log
from eagerflow_kernels.native.loop_form import FLOATS, LoopBuilder


def picked(b: LoopBuilder, x: int, place: int) -> int:
    """The row of a table whose number is given."""
    return b.pick(x, b.apply("convert", place, kind="i64"))


def total(b: LoopBuilder, x: int) -> int:
    """The sum; 0 of no elements."""
    return b.reduce("sum", x)


def largest(b: LoopBuilder, x: int) -> int:
    """The largest element; NaN if any is."""
    return b.reduce("max", x)


def smallest(b: LoopBuilder, x: int) -> int:
    """The smallest element; NaN if any is."""
    return b.reduce("min", x)


def product(b: LoopBuilder, x: int) -> int:
    """The product; 1 of no elements."""
    return b.reduce("product", x)


def any_of(b: LoopBuilder, x: int) -> int:
    """Whether any element is other than 0."""
    true = b.apply("convert", b.apply("convert", x, kind="bool"), kind="i32")
    return b.apply("less", b.constant(0, true), b.reduce("max", true))  # of none, the least


def all_of(b: LoopBuilder, x: int) -> int:
    """Whether no element is 0."""
    true = b.apply("convert", b.apply("convert", x, kind="bool"), kind="i32")
    return b.apply("convert", b.reduce("min", true), kind="bool")


def variance(b: LoopBuilder, x: int, *, correction: int) -> int:
    """The variance: the mean square of distances from the mean, in two passes."""
    kind = b.kind(x)
    rest = b.apply("subtract", x, mean(b, x))
    count = b.apply("subtract", b.size("f64"), b.apply("convert", correction, kind="f64"))
    count = b.apply("convert", b.apply("maximum", count, b.constant(0, "f64")), kind=kind)
    return b.apply("divide", b.reduce("sum", b.apply("multiply", rest, rest)), count)


def deviation(b: LoopBuilder, x: int, *, correction: int) -> int:
    """The square root of the variance."""
    return b.apply("sqrt", variance(b, x, correction=correction))


def mean(b: LoopBuilder, x: int) -> int:
    """The mean; NaN of no elements."""
    return b.apply("divide", b.reduce("sum", x), b.size(b.kind(x)))


def softmax(b: LoopBuilder, x: int) -> int:
    """Exponentials, scaled so that their sum is 1."""
    e = exp(b, b.apply("subtract", x, b.reduce("max", x)))
    return b.apply("divide", e, b.reduce("sum", e))


def log_softmax(b: LoopBuilder, x: int) -> int:
    """The logarithm of `softmax`."""
    below = b.apply("subtract", x, b.reduce("max", x))
    return b.apply("subtract", below, log(b, b.reduce("sum", exp(b, below))))


def logsumexp(b: LoopBuilder, x: int) -> int:
    """The logarithm of the sum of exponentials."""
    top = b.reduce("max", x)
    finite = b.apply("less", b.apply("absolute", top), b.constant(float("inf"), top))
    safe = b.apply("select", finite, top, b.constant(0, top))
    below = b.reduce("sum", exp(b, b.apply("subtract", x, safe)))
    return b.apply("add", safe, log(b, below))


def standardize(b: LoopBuilder, x: int, *, eps: int) -> tuple[int, int, int]:
    """(x - mean) / sqrt(variance + eps), and mean and variance."""
    size = b.size(b.kind(x))
    centre = b.apply("divide", b.reduce("sum", x), size)
    rest = b.apply("subtract", x, centre)
    spread = b.apply("divide", b.reduce("sum", b.apply("multiply", rest, rest)), size)
    root = b.apply("sqrt", b.apply("add", spread, eps))
    return b.apply("multiply", rest, reciprocal(b, root)), centre, spread


def shares_and_losses(b: LoopBuilder, x: int, scale: int) -> tuple[int, int, int]:
    """The softmax times ``scale``; the logarithm of its denominator, and the largest element."""
    top = b.reduce("max", x)
    e = exp(b, b.apply("subtract", x, top))
    total = b.reduce("sum", e)
    return b.apply("multiply", b.apply("divide", e, total), scale), log(b, total), top


def _first(b: LoopBuilder, x: int, extreme: str) -> int:
    """The index of the first extreme element, or of the first NaN."""
    met = b.apply("equal", x, b.reduce(extreme, x))
    if b.kind(x) in FLOATS:
        met = b.apply("or", met, b.apply("not_equal", x, x))
    return b.reduce("min", b.apply("select", met, b.index(), b.size("i64")))


def first_largest(b: LoopBuilder, x: int) -> int:
    """The index of the first largest element; of the first NaN if there is one."""
    return _first(b, _as_number(b, x), "max")


def first_smallest(b: LoopBuilder, x: int) -> int:
    """The index of the first smallest element; of the first NaN if there is one."""
    return _first(b, _as_number(b, x), "min")


def _as_number(b: LoopBuilder, x: int) -> int:
    return b.apply("convert", x, kind="i32") if b.kind(x) == "bool" else x


def count_nonzero(b: LoopBuilder, x: int) -> int:
    """Number of elements other than 0."""
    true = b.apply("convert", x, kind="bool")
    return b.reduce("sum", b.apply("convert", true, kind="i64"))


def running_total(b: LoopBuilder, x: int) -> int:
    """The cumulative sums, added one after the other."""
    return b.scan("running_sum", x)


def running_product(b: LoopBuilder, x: int) -> int:
    """The cumulative products, multiplied one after the other."""
    return b.scan("running_product", x)
