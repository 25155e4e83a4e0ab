"""Symbolic sizes: exact integer arithmetic with sizes that are known by name only.

A `Dim` is a polynomial over *atoms* in a canonical form, so that equal dims have equal terms. Atoms
are names, and the operations beyond polynomials: ``a//b``, ``a%b``, ``max(a,b)`` and
``broadcast(a,b)``, the size that ``a`` and ``b`` broadcast to. Every name stands for an integer
that is not negative.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from numbers import Integral, Number
from typing import Any, Final, final

from eagerflow.dims import dim_text, polynomial
from eagerflow.dims.number_stand_ins import EXACT_UFUNCS, AbstractAsked, has_a_say
from eagerflow.dims.polynomial import Terms
from eagerflow.dims.size_questions import by_name, resolver
from eagerflow.errors import DimError, UnhashableError

#: classes of integers, dims included
_INTEGERS: Final = (int, Integral)


def _is_size(x: Any) -> bool:
    """Whether ``x`` is an integer that can be part of a size: a loop's iteration count cannot."""
    return isinstance(x, _INTEGERS) and not getattr(x, "varies", False)


def _operator(
    function: Callable[[Any, Any], Any], exact: Callable[[Terms, Terms], Terms] | None = None
) -> tuple[Any, Any]:
    """An operator, and its reflected form.

    Args:
        function: Python's operator.
        exact: the operation on two integer sizes; other operands use the numbers of the trace.
    """
    name = f"__r{function.__name__.strip('_')}__"

    def forward(self: Dim, other: Any) -> Any:
        if exact is not None and _is_size(other):
            return _wrap(exact(self.terms, _terms_of(other)))
        if not isinstance(other, Number) and (has_a_say(other, name) or resolver.get() is None):
            return NotImplemented
        return function(self._number(), other)

    def reflected(self: Dim, other: Any) -> Any:
        if exact is not None and _is_size(other):
            return _wrap(exact(_terms_of(other), self.terms))
        return function(other, self._number())

    return forward, reflected


def _comparison(
    sign: str, python: Callable[[Any, Any], Any], decide: Callable[[Terms, Terms], bool | None]
) -> Any:
    """A comparison, decided if the result is the same for all sizes.

    Args:
        sign: the sign of the comparison.
        python: the comparison of numbers.
        decide: the comparison of two integer sizes; None if undecided.
    """

    def compare(self: Dim, other: Any) -> Any:
        if _is_size(other):
            decided = decide(self.terms, _terms_of(other))
            if decided is not None:
                return decided
        elif not isinstance(other, (float, complex)):
            return NotImplemented
        why = f"{self} {sign} {other}"
        size = self.ask(why)
        return bool(python(size, other.ask(why) if type(other) is Dim else other))

    return compare


@final
class Dim(AbstractAsked):
    """A size that is known by name only, or an expression of such sizes.

    For `isinstance` it is an int. ``+ - * // %`` with integers and other dims give dims (or
    integers, where names cancel out). A comparison is decided if its result is the same for all
    sizes. Otherwise, and for ``int()``, ``bool()``, ``hash()``, use as an index, other members of
    int, and text made by the user's code, the current trace is asked for the size.

    Args:
        name: an identifier. Names belong to one trace: see ``owner``.
        owner: distinguishes names of different traces; not printed.

    Raises:
        DimError: the name is no identifier, or is reserved in the text of a graph.

    >>> n = ef.Dim("n")
    >>> 2 * (n + 1) - n, (4 * n + 6) // 2, n + 1 > n
    (n+2, 2*n+3, True)
    """

    __slots__ = ("__weakref__", "_text", "terms")

    kind = int
    terms: Terms
    _text: str | None

    def __new__(cls, name: str, owner: int = 0) -> Dim:
        return _make(polynomial.symbol(name, owner))

    @property
    def symbols(self) -> frozenset[str]:
        """The names that occur."""
        return frozenset(atom[1] for atom in polynomial.name_atoms(self.terms))

    @property
    def is_name(self) -> bool:
        """Whether it is a single name."""
        ((monomial, c), *rest) = self.terms
        return not rest and c == 1 and len(monomial) == 1 and monomial[0][0] == "name"

    @property
    def owners(self) -> frozenset[int]:
        """The owners of the names that occur."""
        return frozenset(atom[2] for atom in polynomial.name_atoms(self.terms))

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """The size, given the sizes of all names.

        Raises:
            DimError: the size of a name is missing.
            ShapeError: sizes that should broadcast do not.
            ZeroDivisionError: a divisor is zero.

        >>> (ef.Dim("n") // 2 + 1).evaluate({"n": 7})
        4
        """
        return polynomial.evaluate(self.terms, sizes)

    def substitute(self, sizes: Mapping[str, int | Dim]) -> int | Dim:
        """The dim with other sizes in place of some names.

        >>> (2 * ef.Dim("n") + ef.Dim("m")).substitute({"n": 3})
        m+6
        """
        return _wrap(polynomial.replace(self.terms, {k: _terms_of(v) for k, v in sizes.items()}))

    # --- arithmetic ---

    __add__, __radd__ = _operator(operator.add, polynomial.add)
    __sub__, __rsub__ = _operator(operator.sub, polynomial.subtract)
    __mul__, __rmul__ = _operator(operator.mul, polynomial.multiply)
    __floordiv__, __rfloordiv__ = _operator(operator.floordiv, polynomial.floordiv)
    __mod__, __rmod__ = _operator(operator.mod, polynomial.mod)
    __truediv__, __rtruediv__ = _operator(operator.truediv)
    _power, __rpow__ = _operator(operator.pow)
    __and__, __rand__ = _operator(operator.and_)
    __or__, __ror__ = _operator(operator.or_)
    __xor__, __rxor__ = _operator(operator.xor)
    __lshift__, __rlshift__ = _operator(operator.lshift)
    __rshift__, __rrshift__ = _operator(operator.rshift)

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if type(other) is int and 0 <= other <= 8 and modulus is None:
            return _wrap(reduce(polynomial.multiply, [self.terms] * other, polynomial.constant(1)))
        return self._power(other) if modulus is None else pow(self._number(), other, modulus)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __neg__(self) -> Any:
        return _wrap(polynomial.scale(self.terms, -1))

    def __invert__(self) -> Any:
        return -self - 1

    def __pos__(self) -> Dim:
        return self

    __trunc__ = __floor__ = __ceil__ = __pos__

    def __round__(self, digits: int | None = None) -> Any:
        return self if digits is None or digits >= 0 else round(self.ask("rounded"), digits)

    def __abs__(self) -> Any:
        return _wrap(polynomial.extreme("max", self.terms, polynomial.scale(self.terms, -1)))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        function = EXACT_UFUNCS.get(ufunc)
        if function is None or kwargs or not all(isinstance(x, _INTEGERS) for x in inputs):
            return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)
        return function(*[x if type(x) is Dim else int(x) for x in inputs])

    # --- comparisons ---

    __eq__ = _comparison("==", operator.eq, polynomial.equal)
    __lt__ = _comparison("<", operator.lt, polynomial.less)
    __gt__ = _comparison(">", operator.gt, lambda a, b: polynomial.less(b, a))
    __le__ = _comparison("<=", operator.le, polynomial.at_most)
    __ge__ = _comparison(">=", operator.ge, lambda a, b: polynomial.at_most(b, a))

    def __ne__(self, other: object) -> Any:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    # --- where Python needs the number itself ---

    def __bool__(self) -> bool:
        decided = polynomial.equal(self.terms, ())
        return not decided if decided is not None else bool(self.ask(f"bool({self})"))

    def __hash__(self) -> int:
        # not of the expression: {4: ...}[n] must find what it finds eagerly
        if resolver.get() is None:
            raise UnhashableError(f"the size {self} is not known here, so it has no hash")
        return hash(self.ask(f"hash({self})"))

    def __int__(self) -> int:
        return self.ask(f"int({self})")

    def __index__(self) -> int:
        return self.ask(f"{self} as an index, or in range()")

    def __float__(self) -> float:
        return float(self.ask(f"float({self})"))

    def __complex__(self) -> complex:
        return complex(self.ask(f"complex({self})"))

    def ask(self, what: str) -> int:
        """The size, from the current trace.

        Args:
            what: the operation that needs it, for messages.

        Raises:
            DimError: there is no trace.
            TraceError: the size depends on data.
        """
        block = resolver.get()
        if block is None or block.size is None:
            raise DimError(
                f"the size {self} is not known here",
                given=what,
                hint="a size outlived its trace: keep x.shape[i] inside the traced function",
            )
        return block.size(self, what)

    def _number(self) -> Any:
        block = resolver.get()
        if block is not None and block.number is not None:
            return block.number(self)
        return self.ask(f"{self} as a number")

    # --- text ---

    def __str__(self) -> str:
        shown = self._shown()
        return shown if by_name(sys._getframe(1)) else self._spelled(str, f"str({shown})")

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        shown = self._shown()
        if not spec and by_name(sys._getframe(1)):
            return shown
        return self._spelled(lambda size: format(size, spec), f"formatting {shown}")

    def _spelled(self, spell: Callable[[int], str], why: str) -> str:
        block = resolver.get()
        unknown = block.text if block is not None else None
        text = unknown(self, spell) if unknown is not None else None
        return spell(self.ask(why)) if text is None else text

    def _shown(self) -> str:
        if self._text is None:
            self._text = dim_text.to_text(self.terms)
        return self._text

    def __reduce__(self) -> tuple[Any, ...]:
        return (_make, (self.terms,))


Size = int | Dim


def number_of(dim: Dim) -> Any:
    """The stand-in that does arithmetic as a number: the size itself, if it is known."""
    return dim._number()


# --- between sizes and polynomials --------------------------------------------------------------


def _make(terms: Terms) -> Dim:
    dim = object.__new__(Dim)
    dim.terms = terms
    dim._text = None
    return dim


def _wrap(terms: Terms) -> Size:
    """The size of some terms: an int if no name is left."""
    value = polynomial.number(terms)
    return _make(terms) if value is None else value


def _terms_of(size: Any) -> Terms:
    """The terms of a size."""
    return size.terms if type(size) is Dim else polynomial.constant(int(size))


# --- functions of sizes, each an int or a `Dim` ------------------------------------------------


def broadcast(a: Size, b: Size) -> Size:
    """The size that two sizes broadcast to; whether they do is checked at run time.

    Raises:
        ShapeError: they do not broadcast, whatever the names stand for.

    >>> from eagerflow.dims import broadcast
    >>> n = ef.Dim("n")
    >>> broadcast(n, 1), broadcast(n, 4), broadcast(n, n), broadcast(n, ef.Dim("m"))
    (n, 4, n, broadcast(m,n))
    """
    return _wrap(polynomial.broadcast(_terms_of(a), _terms_of(b)))


def maximum(a: Size, b: Size) -> Size:
    """The larger of two sizes.

    >>> from eagerflow.extending import maximum
    >>> n = ef.Dim("n")
    >>> maximum(n, n + 1), maximum(n - 2, 0)
    (n+1, max(n-2,0))
    """
    return _extreme(max, a, b)


def minimum(a: Size, b: Size) -> Size:
    """The smaller of two sizes.

    >>> from eagerflow.dims import minimum
    >>> minimum(ef.Dim("n"), 2), minimum(ef.Dim("n") + 2, 2)
    (min(n,2), 2)
    """
    return _extreme(min, a, b)


def _extreme(python: Callable[[int, int], int], a: Size, b: Size) -> Size:
    if type(a) is int and type(b) is int:
        return python(a, b)
    return _wrap(polynomial.extreme(python.__name__, _terms_of(a), _terms_of(b)))


def exact_quotient(a: Size, b: Size) -> Size:
    """``a // b`` where ``b`` is known to divide ``a`` and not to be zero.

    >>> from eagerflow.dims import exact_quotient
    >>> n = ef.Dim("n")
    >>> 6 * n // n, exact_quotient(6 * n, n)
    (6*n//n, 6)
    """
    quotient = polynomial.divide(_terms_of(a), _terms_of(b))
    return a // b if quotient is None else _wrap(quotient)


def same(a: Size, b: Size) -> bool:
    """Whether two sizes are equal whatever the names stand for; decided without asking for a size.

    >>> from eagerflow.extending import same
    >>> n = ef.Dim("n")
    >>> same(n + n, 2 * n), same(n, ef.Dim("m")), same(n, 4), same(4, 4)
    (True, False, False, True)
    """
    if a is b:
        return True
    if type(a) is int and type(b) is int:
        return a == b
    return polynomial.equal(_terms_of(a), _terms_of(b)) is True


def may_equal(a: Size, b: Size) -> bool:
    """Whether two sizes are equal for some sizes of the names; decided without asking for one.

    For type rules: the kernel compares such sizes, when they are known.

    >>> from eagerflow.extending import may_equal
    >>> n = ef.Dim("n")
    >>> may_equal(n, 4), may_equal(n, n + 1), may_equal(4, 5)
    (True, False, False)
    """
    if type(a) is int and type(b) is int:
        return a == b
    return polynomial.equal(_terms_of(a), _terms_of(b)) is not False


def symbols(sizes: Iterable[Size]) -> frozenset[str]:
    """The names that occur in ``sizes``."""
    return frozenset().union(*(s.symbols for s in sizes if type(s) is Dim))


def evaluate(size: Size, sizes: Mapping[str, int]) -> int:
    """The size, given the sizes of all names (see `Dim.evaluate`)."""
    return size.evaluate(sizes) if type(size) is Dim else int(size)


def substitute(size: Size, sizes: Mapping[str, Size]) -> Size:
    """The size with other sizes in place of some names (see `Dim.substitute`)."""
    return size.substitute(sizes) if type(size) is Dim else size


def parse_dim(source: str, owner: int = 0) -> Size:
    """The size of a text.

    Args:
        source: a text as `Dim` prints it.
        owner: the owner of the names.

    Raises:
        DimError: the text is not a size.

    >>> from eagerflow.dims import parse_dim
    >>> parse_dim("2*n+1"), parse_dim("6//4"), parse_dim("max(n, n+1)")
    (2*n+1, 1, n+1)
    """
    return _wrap(dim_text.parse(source, owner))
