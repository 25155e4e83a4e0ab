"""Which terms each pass over a row computes.

A term that needs the result of a reduction needs a pass of its own after it. What a pass computes
and a later one reads again is kept in the row of an output that is written later, if there is one
of its kind; else it is computed again, which gives the same bits. So loops need no memory besides
their outputs.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Final, final

from eagerflow_kernels.native.loop_form import REDUCTIONS, SCANS, Loops

#: operations that cost less than to read a value back
_CHEAP: Final = frozenset({"load", "constant", "size", "index"})


@final
@dataclass(frozen=True, slots=True)
class RowPass:
    """One pass over the inner axis.

    Attributes:
        row_terms: terms of the row that are computed before it.
        terms: terms of the elements, in order.
        kept: of these, the ones that are read back, with the output that holds each.
        reductions: the terms that it reduces to.
        stores: numbers of outputs, with the term that is written to each.
    """

    row_terms: tuple[int, ...]
    terms: tuple[int, ...]
    kept: dict[int, int]
    reductions: tuple[int, ...]
    stores: tuple[tuple[int, int], ...]


def passes_of(loops: Loops) -> list[RowPass]:
    """The passes, in order; the last one may have nothing but terms of the row."""
    stages = _stages(loops)
    last = max(stages, default=0)
    roots: list[set[int]] = [set() for _ in range(last + 1)]
    for term in loops.terms:
        if term.operation in REDUCTIONS:
            roots[stages[term.operands[0]]].add(term.operands[0])
    for x, array in zip(loops.results, loops.outputs, strict=True):
        if array.inner:
            roots[stages[x]].add(x)
    holders = _holders(loops, stages, roots)
    return [_pass(loops, stages, roots, holders, stage) for stage in range(last + 1)]


def scans_in(loops: Loops, row_pass: RowPass) -> list[int]:
    """The scans that a pass computes."""
    return [
        n for n in row_pass.terms if loops.terms[n].operation in SCANS and n not in row_pass.kept
    ]


def _stages(loops: Loops) -> list[int]:
    """For each term the pass that computes it, or before which it is computed."""
    stages: list[int] = []
    for term in loops.terms:
        stage = max((stages[x] for x in term.operands), default=0)
        stages.append(stage + 1 if term.operation in REDUCTIONS else stage)
    return stages


def _made_of(loops: Loops, wanted: Iterable[int], ends: Container[int]) -> dict[int, None]:
    """The terms of elements that some are made of, these included, in the order of the search.

    Args:
        loops: the loops.
        wanted: the terms.
        ends: terms of which what they are made of is left out.
    """
    terms: dict[int, None] = {}
    pending = list(wanted)
    while pending:
        number = pending.pop()
        if number in terms or not loops.terms[number].inner:
            continue
        terms[number] = None
        if number not in ends:
            pending.extend(loops.terms[number].operands)
    return terms


def _uses(
    loops: Loops, stages: list[int], roots: list[set[int]], again: set[int]
) -> dict[int, int]:
    """Terms of elements that a later pass than their own reads directly, and the last that does.

    A cheap term is none of them, and none that is computed ``again``; what these are made of is
    looked at in their place.
    """
    last: dict[int, int] = {}
    dear = [n for n, t in enumerate(loops.terms) if t.operation not in _CHEAP and n not in again]
    for stage, wanted in enumerate(roots):
        before = {number for number in dear if stages[number] < stage}
        read = [number for number in _made_of(loops, wanted, before) if number in before]
        last |= dict.fromkeys(read, stage)
    return last


def _holders(loops: Loops, stages: list[int], roots: list[set[int]]) -> dict[int, int]:
    """Which output holds which term until it is read again."""
    again: set[int] = set()
    while True:
        uses = _uses(loops, stages, roots, again)
        holders = _places(loops, stages, uses)
        homeless = uses.keys() - holders.keys()
        if not homeless:
            return holders
        again |= homeless  # what they are made of is then read later than it seemed


def _places(loops: Loops, stages: list[int], uses: dict[int, int]) -> dict[int, int]:
    """An output for as many terms as possible, those first that take longest to compute."""
    holders: dict[int, int] = {}
    taken: set[int] = set()
    for number, until in sorted(uses.items(), key=lambda use: -_weight(loops, use[0])):
        for output, array in enumerate(loops.outputs):
            result = loops.results[output]
            fits = array.inner and array.kind == loops.terms[number].kind
            if fits and output not in taken and (stages[result] >= until or result == number):
                holders[number] = output
                taken.add(output)
                break
    return holders


def _weight(loops: Loops, number: int) -> int:
    """How many terms of elements a term is made of."""
    return len(_made_of(loops, [number], ()))


def _pass(
    loops: Loops, stages: list[int], roots: list[set[int]], holders: dict[int, int], stage: int
) -> RowPass:
    wanted = set(roots[stage])
    wanted.update(x for x in holders if stages[x] == stage)
    before = {number for number in holders if stages[number] < stage}
    terms = _made_of(loops, wanted, before)
    read = {number: holders[number] for number in terms if number in before}
    stores = [(output, x) for x, output in holders.items() if stages[x] == stage]
    for output, (x, array) in enumerate(zip(loops.results, loops.outputs, strict=True)):
        if array.inner and stages[x] == stage and (output, x) not in stores:
            stores.append((output, x))
    return RowPass(
        row_terms=tuple(
            n for n, t in enumerate(loops.terms)
            if not t.inner and t.operation not in REDUCTIONS and stages[n] == stage
        ),
        terms=tuple(sorted(terms)),
        kept=read,
        reductions=tuple(
            n for n, t in enumerate(loops.terms)
            if t.operation in REDUCTIONS and stages[t.operands[0]] == stage
        ),
        stores=tuple(stores),
    )  # fmt: skip
