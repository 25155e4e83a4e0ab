"""The text form of sizes, in Python's own syntax and precedence.

Grammar::

dim ::= integer | name | dim ("+" | "-" | "*" | "//" | "%") dim | "-" dim | "(" dim ")"
      | ("broadcast" | "max" | "min") "(" dim ("," dim)* ")"
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from eagerflow.dims import polynomial
from eagerflow.dims.polynomial import Atom, Monomial, Terms
from eagerflow.errors import DimError

_LENGTH_LIMIT: Final = 2000


def to_text(terms: Terms) -> str:
    """The text of a size in Python's syntax, without spaces."""
    parts: list[str] = []
    for monomial, c in terms:
        sign = "-" if c < 0 else "+" if parts else ""
        # a leading minus sign would belong to the dividend
        parts.append(sign + _term_text(monomial, abs(c), bare=bool(parts) or c > 0))
    return "".join(parts) or "0"


def _term_text(monomial: Monomial, c: int, bare: bool) -> str:
    if not monomial:
        return str(c)
    factors = [_atom_text(atom, bare and c == 1 and len(monomial) == 1) for atom in monomial]
    return "*".join(factors if c == 1 else [str(c), *factors])


def _atom_text(atom: Atom, bare: bool) -> str:
    kind, *parts = atom
    if kind == "name":
        return str(parts[0])
    if kind not in ("floordiv", "mod"):
        return f"{kind}({','.join(map(to_text, parts))})"
    left = to_text(parts[0]) if len(parts[0]) == 1 else f"({to_text(parts[0])})"
    right = f"({to_text(parts[1])})" if _compound(parts[1]) else to_text(parts[1])
    text = f"{left}{'//' if kind == 'floordiv' else '%'}{right}"
    return text if bare else f"({text})"


def _compound(terms: Terms) -> bool:
    """Whether ``terms`` need parentheses behind an operator."""
    if len(terms) != 1:
        return True
    ((monomial, c),) = terms
    if not monomial:
        return c < 0
    return c != 1 or len(monomial) > 1 or monomial[0][0] in ("floordiv", "mod")


_OPERATORS: Final[dict[type[ast.operator], Callable[[Terms, Terms], Terms]]] = {
    ast.Add: polynomial.add,
    ast.Sub: polynomial.subtract,
    ast.Mult: polynomial.multiply,
    ast.FloorDiv: polynomial.floordiv,
    ast.Mod: polynomial.mod,
}


def parse(text: str, owner: int) -> Terms:
    """The terms of a text; the inverse of `to_text`.

    Raises:
        DimError: the text is not a size.
    """
    try:
        if len(text) > _LENGTH_LIMIT:
            raise DimError(f"a size of {len(text)} characters")
        return _read(ast.parse(text.strip(), mode="eval").body, owner)
    except DimError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError):
        raise DimError(
            f"{text!r} is not a size", expected="names and integers with + - * // %"
        ) from None


def _read(node: ast.expr, owner: int) -> Terms:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return polynomial.constant(value)
        case ast.Name(id=name):
            return polynomial.symbol(name, owner)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return polynomial.scale(_read(operand, owner), -1)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_read(left, owner), _read(right, owner))
        case ast.Call(
            func=ast.Name(id="broadcast" | "max" | "min" as name), args=args, keywords=[]
        ) if args:
            return polynomial.MAKERS[name][0](*(_read(a, owner) for a in args))
    raise DimError(f"'{ast.unparse(node)}' is not a size")
