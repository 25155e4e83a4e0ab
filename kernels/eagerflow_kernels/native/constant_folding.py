"""Operations on constants, evaluated before LLVM sees them.

LLVM is not trusted with that. Its 22nd version took the smaller of 0 and 0 / 0 to be 0, where it
had to see through a reinterpretation of bits to find the constants; `interpreter` defines the
value. So a value that LLVM knows is one that it was told, never one that it derived.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eagerflow_kernels.native.interpreter import DTYPES, applied
from eagerflow_kernels.native.loop_form import LOW, OPERATIONS, Loops, Term, bits_of, value_of


def fold_constants(loops: Loops) -> Loops:
    """The same loops with a constant for each operation on nothing but constants.

    Terms keep their numbers. Constants of the low kinds do not exist: conversions to them stay.

    >>> from eagerflow_kernels.native.loop_form import LoopArray, LoopBuilder
    >>> from eagerflow_kernels.native.loop_text import show
    >>> b = LoopBuilder([LoopArray("f32")])
    >>> two = b.constant(2.0, "f32")
    >>> loops = b.build("fourfold", [b.apply("multiply", b.load(0), b.apply("add", two, two))])
    >>> print(show(fold_constants(loops)))
    loops fourfold(f32) -> f32:
      %0 = constant 0x1.0000000000000p+1: f32
      %1 = load 0: f32
      %2 = constant 0x1.0000000000000p+2: f32
      %3 = multiply %1 %2: f32
      return %3
    """
    terms: list[Term] = []
    for term in loops.terms:
        operands = [terms[x] for x in term.operands]
        constant = all(x.operation == "constant" for x in operands)
        if term.operation in OPERATIONS and term.kind not in LOW and constant:
            terms.append(_evaluated(term, operands))
        else:
            terms.append(term)
    return replace(loops, terms=tuple(terms))


def _evaluated(term: Term, operands: list[Term]) -> Term:
    scalars = [DTYPES[x.kind](value_of(x.constant, x.kind)) for x in operands]
    with np.errstate(all="ignore"):
        value = applied(term, *scalars)
    return Term("constant", term.kind, False, (), bits_of(value.item(), term.kind))
