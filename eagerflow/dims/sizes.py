"""Functions of sizes, each an int or a `Dim`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from eagerflow.dims import polynomial, text
from eagerflow.dims.dim import Dim, Size, terms_of, wrap

__all__ = [
    "broadcast",
    "evaluate",
    "exact_quotient",
    "maximum",
    "may_equal",
    "minimum",
    "parse_dim",
    "same",
    "substitute",
    "symbols",
]


def broadcast(a: Size, b: Size) -> Size:
    """The size that two sizes broadcast to; whether they do is seen at run time.

    Raises:
        ShapeError: they cannot, whatever the names stand for.

    >>> from eagerflow.dims import broadcast
    >>> n = ef.Dim("n")
    >>> broadcast(n, 1), broadcast(n, 4), broadcast(n, n), broadcast(n, ef.Dim("m"))
    (n, 4, n, broadcast(m,n))
    """
    return wrap(polynomial.broadcast(terms_of(a), terms_of(b)))


def maximum(a: Size, b: Size) -> Size:
    """The larger of two sizes.

    >>> from eagerflow.extending import maximum
    >>> n = ef.Dim("n")
    >>> maximum(n, n + 1), maximum(n - 2, 0)
    (n+1, max(n-2,0))
    """
    if type(a) is int and type(b) is int:
        return max(a, b)
    return wrap(polynomial.extreme("max", terms_of(a), terms_of(b)))


def minimum(a: Size, b: Size) -> Size:
    """The smaller of two sizes.

    >>> from eagerflow.dims import minimum
    >>> minimum(ef.Dim("n"), 2), minimum(ef.Dim("n") + 2, 2)
    (min(n,2), 2)
    """
    if type(a) is int and type(b) is int:
        return min(a, b)
    return wrap(polynomial.extreme("min", terms_of(a), terms_of(b)))


def exact_quotient(a: Size, b: Size) -> Size:
    """``a // b`` where ``b`` is known to divide ``a`` and not to be zero.

    >>> from eagerflow.dims import exact_quotient
    >>> n = ef.Dim("n")
    >>> 6 * n // n, exact_quotient(6 * n, n)
    (6*n//n, 6)
    """
    quotient = polynomial.divide(terms_of(a), terms_of(b))
    return a // b if quotient is None else wrap(quotient)


def same(a: Size, b: Size) -> bool:
    """Whether two sizes are equal whatever the names stand for; asks for no size.

    >>> from eagerflow.extending import same
    >>> n = ef.Dim("n")
    >>> same(n + n, 2 * n), same(n, ef.Dim("m")), same(n, 4), same(4, 4)
    (True, False, False, True)
    """
    if a is b:
        return True
    if type(a) is int and type(b) is int:
        return a == b
    return polynomial.equal(terms_of(a), terms_of(b)) is True


def may_equal(a: Size, b: Size) -> bool:
    """Whether two sizes are equal for some of what the names stand for; asks for no size.

    For rules: what may be equal is checked by the kernel, when the sizes are known.

    >>> from eagerflow.extending import may_equal
    >>> n = ef.Dim("n")
    >>> may_equal(n, 4), may_equal(n, n + 1), may_equal(4, 5)
    (True, False, False)
    """
    if type(a) is int and type(b) is int:
        return a == b
    return polynomial.equal(terms_of(a), terms_of(b)) is not False


def symbols(sizes: Iterable[Size]) -> frozenset[str]:
    """The names that occur in ``sizes``."""
    return frozenset().union(*(s.symbols for s in sizes if type(s) is Dim))


def evaluate(size: Size, sizes: Mapping[str, int]) -> int:
    """The size, given those of all names (see `Dim.evaluate`)."""
    return size.evaluate(sizes) if type(size) is Dim else int(size)


def substitute(size: Size, sizes: Mapping[str, Size]) -> Size:
    """The size with other sizes in place of some names (see `Dim.substitute`)."""
    return size.substitute(sizes) if type(size) is Dim else size


def parse_dim(source: str, owner: int = 0) -> Size:
    """The size that ``source`` says.

    Args:
        source: as `Dim` prints it.
        owner: of the names.

    Raises:
        DimError: it is none.

    >>> from eagerflow.dims import parse_dim
    >>> parse_dim("2*n+1"), parse_dim("6//4"), parse_dim("max(n, n+1)")
    (2*n+1, 1, n+1)
    """
    return wrap(text.parse(source, owner))
