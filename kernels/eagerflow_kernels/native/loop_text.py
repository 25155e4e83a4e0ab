"""Text of loops: one term per line, constants by their exact value."""

from __future__ import annotations

from eagerflow_kernels.native.loop_form import (
    FLOATS,
    PICK,
    REDUCTIONS,
    SCATTER,
    Loops,
    Term,
    value_of,
)


def show(loops: Loops) -> str:
    """The text of loops, in the grammar of `loop_form`.

    >>> from eagerflow_kernels.native.loop_form import LoopArray, LoopBuilder
    >>> b = LoopBuilder([LoopArray("f32")])
    >>> print(show(b.build("double", [b.apply("multiply", b.load(0), b.constant(2.0, "f32"))])))
    loops double(f32) -> f32:
      %0 = load 0: f32
      %1 = constant 0x1.0000000000000p+1: f32
      %2 = multiply %0 %1: f32
      return %2
    """
    terms = [f"  %{number} = {show_term(term)}" for number, term in enumerate(loops.terms)]
    results = ", ".join(f"%{x}" for x in loops.results)
    return "\n".join([f"loops {loops.signature.head}:", *terms, f"  return {results}"])


def show_term(term: Term) -> str:
    """One term, without its number."""
    words = [term.operation, *(f"%{x}" for x in term.operands)]
    if term.operation == "constant":
        value = value_of(term.constant, term.kind)
        words.append(float(value).hex() if term.kind in FLOATS else str(value))
    elif term.operation in ("load", PICK, SCATTER, "shift_left", "shift_right"):
        words.append(str(term.constant))
    inner = "[n]" if term.inner and term.operation not in REDUCTIONS else ""
    return f"{' '.join(words)}: {term.kind}{inner}"
