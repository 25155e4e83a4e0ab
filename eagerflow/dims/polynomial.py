"""Polynomials with integer coefficients in a canonical form: the representation of symbolic sizes.

They are plain tuples. A *monomial* is a sorted tuple of atoms, in which a squared atom occurs
twice; *terms* are pairs of a monomial and its coefficient, the leading pair first. An *atom* is a
tuple of its kind and its parts: a name and its owner, or the terms of its operands. Names stand for
integers that are not negative. `eagerflow.dims.dim` defines Python's operators on top of them.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial, reduce
from math import gcd
from typing import Any, Final

from eagerflow.errors import DimError, ShapeError

Atom = tuple[Any, ...]
Monomial = tuple[Atom, ...]
Terms = tuple[tuple[Monomial, int], ...]
Bounds = tuple[int | None, int | None]

_NAME: Final = re.compile(r"[^\W\d]\w*")
#: words with another meaning where a size may stand in the text of a graph
_RESERVED: Final = re.compile(
    r"None|True|False|inf|nan|bool|int|float|complex|bytes|slice|device|tensor|graph"
    r"|broadcast|max|min|(i|u|f|bf|c)\d+|f8e\w+"
)
_TERM_LIMIT: Final = 1000


def symbol(name: str, owner: int) -> Terms:
    """A single name as terms.

    Raises:
        DimError: the name is no identifier, or is reserved in the text of a graph.
    """
    if not _NAME.fullmatch(name) or _RESERVED.fullmatch(name):
        raise DimError(f"{name!r} cannot be the name of a size", expected="an identifier")
    return _atom("name", name, owner)


def constant(value: int) -> Terms:
    """An integer as terms."""
    return (((), value),) if value else ()


def number(terms: Terms) -> int | None:
    """The integer value of ``terms``, None if a name occurs."""
    if not terms:
        return 0
    return terms[0][1] if len(terms) == 1 and not terms[0][0] else None


def _atom(*parts: Any) -> Terms:
    return (((parts,), 1),)


def _order(term: tuple[Monomial, int]) -> tuple[int, Monomial]:
    return -len(term[0]), term[0]


def _normal(coefficients: dict[Monomial, int]) -> Terms:
    if len(coefficients) > _TERM_LIMIT:
        raise DimError(f"a size has more than {_TERM_LIMIT} terms")
    return tuple(sorted(((m, c) for m, c in coefficients.items() if c), key=_order))


# --- arithmetic -------------------------------------------------------------------------------


def add(a: Terms, b: Terms, factor: int = 1) -> Terms:
    """``a + factor * b``."""
    coefficients = dict(a)
    for monomial, c in b:
        coefficients[monomial] = coefficients.get(monomial, 0) + factor * c
    return _normal(coefficients)


def subtract(a: Terms, b: Terms) -> Terms:
    """``a - b``."""
    return add(a, b, -1)


def scale(a: Terms, factor: int) -> Terms:
    """``factor * a``."""
    return tuple((m, c * factor) for m, c in a) if factor else ()


def multiply(a: Terms, b: Terms) -> Terms:
    """``a * b``."""
    if len(a) * len(b) > _TERM_LIMIT:
        raise DimError(f"a size has more than {_TERM_LIMIT} terms")
    coefficients: dict[Monomial, int] = {}
    for m1, c1 in a:
        for m2, c2 in b:
            monomial = tuple(sorted(m1 + m2))
            coefficients[monomial] = coefficients.get(monomial, 0) + c1 * c2
    return _normal(coefficients)


def floordiv(a: Terms, b: Terms) -> Terms:
    """``a // b``, rounded down as Python does."""
    divisor = number(b)
    if divisor is None:
        return _divided_by_name("floordiv", a, b)
    if divisor < 0:
        return floordiv(scale(a, -1), constant(-divisor))
    # multiples of the divisor leave the fraction, whatever the sign of the rest
    whole = tuple((m, c // divisor) for m, c in a if c // divisor)
    rest = tuple((m, c % divisor) for m, c in a if c % divisor)
    common = reduce(gcd, (c for m, c in rest if m), divisor)
    if common == divisor or _within(rest, divisor):
        return whole
    rest = tuple((m, c // common) for m, c in rest if c // common)
    return add(whole, _fraction(rest, divisor // common))


def _fraction(rest: Terms, divisor: int) -> Terms:
    """``rest // divisor`` in lowest terms; ``(a//2+1)//3`` becomes ``(a+2)//6``."""
    heads = [(m, c) for m, c in rest if m]
    if len(heads) == 1 and heads[0][1] == 1 and len(heads[0][0]) == 1:
        kind, *parts = heads[0][0][0]
        inner = number(parts[1]) if kind == "floordiv" else None
        if inner is not None:
            offset = scale(tuple(t for t in rest if not t[0]), inner)
            return floordiv(add(parts[0], offset), constant(inner * divisor))
    return _atom("floordiv", rest, constant(divisor))


def mod(a: Terms, b: Terms) -> Terms:
    """``a % b``, with the sign of ``b`` as in Python."""
    divisor = number(b)
    if divisor is None:
        return _divided_by_name("mod", a, b)
    if divisor < 0:
        return scale(mod(scale(a, -1), constant(-divisor)), -1)
    rest = tuple((m, c % divisor) for m, c in a if c % divisor)
    if number(rest) is not None or _within(rest, divisor):
        return rest
    common = reduce(gcd, (c for _, c in rest), divisor)
    rest = tuple((m, c // common) for m, c in rest)
    return scale(_atom("mod", rest, constant(divisor // common)), common)


def _divided_by_name(kind: str, a: Terms, b: Terms) -> Terms:
    """``a // b`` or ``a % b`` where ``b`` is no integer."""
    quotient = None
    if equal(b, ()) is False:
        small = at_most((), a) and less(a, b)
        quotient = () if small else divide(a, b)
    if quotient is None:
        return _atom(kind, a, b)
    return quotient if kind == "floordiv" else subtract(a, multiply(quotient, b))


def _within(a: Terms, limit: int) -> bool:
    low, high = _bounds(a)
    return low is not None and high is not None and low >= 0 and high < limit


def divide(a: Terms, b: Terms) -> Terms | None:
    """The polynomial q with ``a == q * b``, if there is one."""
    quotient: Terms = ()
    while a:
        if not b or len(quotient) > _TERM_LIMIT:
            return None
        factor, c = list(a[0][0]), a[0][1]
        for atom in b[0][0]:
            if atom not in factor:
                return None
            factor.remove(atom)
        if c % b[0][1]:
            return None
        term = ((tuple(factor), c // b[0][1]),)
        quotient = add(quotient, term)
        a = subtract(a, multiply(term, b))
    return quotient


def _flat(kind: str, parts: Iterable[Terms]) -> list[Terms]:
    """``parts`` without repetition; nested atoms of the same kind are replaced by their parts."""
    flat: set[Terms] = set()
    for part in parts:
        alone = len(part) == 1 and len(part[0][0]) == 1 and part[0][1] == 1
        inner: Atom = part[0][0][0] if alone else ("",)
        flat.update(inner[1:] if inner[0] == kind else (part,))
    return sorted(flat)


def broadcast(*parts: Terms) -> Terms:
    """The size that some sizes broadcast to.

    Raises:
        ShapeError: they do not broadcast, whatever the names stand for.
    """
    operands = [p for p in _flat("broadcast", parts) if number(p) != 1]
    # a size that cannot be 1 is the result: the other sizes are stretched to it
    fixed = [p for p in operands if equal(p, constant(1)) is False]
    for p in fixed[1:]:
        if equal(fixed[0], p) is False:
            raise ShapeError(
                "sizes do not broadcast",
                expected="sizes that are equal or 1",
            )
    if fixed:
        return min(fixed, key=lambda p: (number(p) is None, p))
    if not operands:
        return constant(1)
    return operands[0] if len(operands) == 1 else _atom("broadcast", *operands)


def extreme(kind: str, *parts: Terms) -> Terms:
    """The largest (``kind`` "max") or the smallest ("min") of sizes."""
    kept: list[Terms] = []
    for part in _flat(kind, parts):
        if not any(_beats(kind, other, part) for other in kept):
            kept = [other for other in kept if not _beats(kind, part, other)] + [part]
    kept.sort(key=lambda p: (number(p) is not None, p))
    return kept[0] if len(kept) == 1 else _atom(kind, *kept)


def _beats(kind: str, a: Terms, b: Terms) -> bool:
    return bool(at_most(b, a) if kind == "max" else at_most(a, b))


# --- decisions --------------------------------------------------------------------------------


def equal(a: Terms, b: Terms) -> bool | None:
    """Whether ``a == b``: always, never, or (None) it depends."""
    if a == b:
        return True
    for difference in _differences(a, b):
        if not difference:
            return True
        low, high = _bounds(difference)
        if (low is not None and low > 0) or (high is not None and high < 0):
            return False
        common = reduce(gcd, (c for m, c in difference if m), 0)
        if common and any(c % common for m, c in difference if not m):
            return False
    return None


def less(a: Terms, b: Terms) -> bool | None:
    """Whether ``a < b``: always, never, or (None) it depends."""
    for difference in _differences(b, a):
        low, high = _bounds(difference)
        if low is not None and low > 0:
            return True
        if high is not None and high <= 0:
            return False
    return None


def at_most(a: Terms, b: Terms) -> bool | None:
    """Whether ``a <= b``: always, never, or (None) it depends."""
    more = less(b, a)
    return None if more is None else not more


def _differences(a: Terms, b: Terms) -> Iterable[Terms]:
    """``a - b``, and once more with ``p - q*(p//q)`` for ``p%q``."""
    difference = subtract(a, b)
    yield difference
    if any(atom[0] == "mod" for monomial, _ in difference for atom in monomial):
        yield _rebuild(difference, _without_mod)


def _without_mod(atom: Atom) -> Terms:
    if atom[0] != "mod":
        return (((atom,), 1),)
    return subtract(atom[1], multiply(atom[2], floordiv(atom[1], atom[2])))


def _bounds(terms: Terms) -> Bounds:
    """The smallest and the largest value, None where unbounded or unknown."""
    low: int | None = 0
    high: int | None = 0
    for monomial, c in terms:
        least, most = _product_bounds([_atom_bounds(atom) for atom in monomial])
        if c < 0:
            least, most = most, least
        low = None if low is None or least is None else low + c * least
        high = None if high is None or most is None else high + c * most
    return low, high


def _product_bounds(factors: list[Bounds]) -> Bounds:
    if len(factors) == 1:
        return factors[0]
    low: int = 1
    high: int | None = 1
    for least, most in factors:
        if least is None or least < 0:
            return None, None
        low *= least
        high = None if high is None or most is None else high * most
    return low, high


def _atom_bounds(atom: Atom) -> Bounds:
    kind, *parts = atom
    if kind == "name":
        return 0, None
    lows, highs = zip(*map(_bounds, parts), strict=True)
    if kind == "max":
        return max(_known(lows), default=None), _all(max, highs)
    if kind == "min":
        return _all(min, lows), min(_known(highs), default=None)
    if kind == "broadcast":
        return _all(min, lows), _all(max, highs)
    divisor = number(parts[1])
    if kind == "floordiv" and divisor is not None:
        return _quotient(lows[0], divisor), _quotient(highs[0], divisor)
    if lows[1] is None or lows[1] < 0:
        return None, None
    if kind == "mod":
        return 0, None if highs[1] is None else max(highs[1] - 1, 0)
    return (0, highs[0]) if lows[0] is not None and lows[0] >= 0 else (None, None)


def _quotient(limit: int | None, divisor: int) -> int | None:
    return None if limit is None else limit // divisor


def _known(limits: Iterable[int | None]) -> list[int]:
    return [x for x in limits if x is not None]


def _all(choose: Callable[[list[int]], int], limits: tuple[int | None, ...]) -> int | None:
    return None if None in limits else choose(_known(limits))


# --- walks ------------------------------------------------------------------------------------


def name_atoms(terms: Terms) -> set[Atom]:
    """The atoms ``("name", name, owner)`` that occur, at any depth."""
    atoms: set[Atom] = set()
    for monomial, _ in terms:
        for atom in monomial:
            if atom[0] == "name":
                atoms.add(atom)
            else:
                atoms.update(*map(name_atoms, atom[1:]))
    return atoms


def _rebuild(terms: Terms, of: Callable[[Atom], Terms]) -> Terms:
    total: Terms = ()
    for monomial, c in terms:
        total = add(total, reduce(multiply, map(of, monomial), constant(c)))
    return total


def replace(terms: Terms, sizes: Mapping[str, Terms]) -> Terms:
    """``terms`` with other terms in place of some names."""

    def of(atom: Atom) -> Terms:
        kind, *parts = atom
        if kind == "name":
            return sizes.get(atom[1], (((atom,), 1),))
        return MAKERS[kind][0](*(replace(p, sizes) for p in parts))

    return _rebuild(terms, of)


def evaluate(terms: Terms, sizes: Mapping[str, int]) -> int:
    """The value, given the sizes of all names (see `eagerflow.dims.Dim.evaluate`)."""
    total = 0
    for monomial, c in terms:
        for atom in monomial:
            c *= _evaluate_atom(atom, sizes)
        total += c
    return total


def _evaluate_atom(atom: Atom, sizes: Mapping[str, int]) -> int:
    kind, *parts = atom
    if kind == "name":
        try:
            return sizes[parts[0]]
        except KeyError:
            given = f"sizes of {sorted(sizes)}"
            raise DimError(f"the size {parts[0]} is not known", given=given) from None
    return MAKERS[kind][1](*[evaluate(p, sizes) for p in parts])


def broadcast_sizes(*sizes: int) -> int:
    """The size that some sizes broadcast to.

    Raises:
        ShapeError: they do not broadcast.
    """
    stretched = sorted({s for s in sizes if s != 1})
    if len(stretched) > 1:
        raise ShapeError(
            "sizes do not broadcast",
            given=f"sizes {' and '.join(map(str, stretched))}",
            expected="sizes that are equal or 1",
        )
    return stretched[0] if stretched else 1


#: for each kind of atom the function of the terms of its parts, and the function of their values
MAKERS: Final[dict[str, tuple[Callable[..., Terms], Callable[..., int]]]] = {
    "floordiv": (floordiv, operator.floordiv),
    "mod": (mod, operator.mod),
    "broadcast": (broadcast, broadcast_sizes),
    "max": (partial(extreme, "max"), max),
    "min": (partial(extreme, "min"), min),
}
