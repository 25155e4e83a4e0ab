"""Assignment of terms to passes over a row.

A term that needs the result of a reduction is computed in a pass after it. A value that a later
pass needs is kept in the row of an output that is written later, if there is an output of its kind
and that is faster; else it is computed again, with the same bits. So loops need no memory besides
their outputs.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, final

from eagerflow_kernels.native.compiler_slices import breathe
from eagerflow_kernels.native.loop_form import FLOATS, PICK, REDUCTIONS, SCANS, Kind, Loops

#: operations that cost no more than to read a value back
_CHEAP: Final = frozenset({"load", "constant", "size", "index", PICK})
#: costs of operations that do not cost as much as an addition
_COSTS: Final = {"constant": 0, "size": 0, "index": 0, "divide": 5, "sqrt": 5}


@final
@dataclass(frozen=True, slots=True)
class RowPass:
    """One pass over the inner axis.

    Attributes:
        row_terms: terms of the row that are computed before the pass.
        terms: terms of the elements, in order.
        kept: the terms among ``terms`` that are read back, with the output that holds each.
        reductions: the terms of its reductions.
        stores: numbers of outputs, with the term that is written to each.
        condition: the condition of the search, if the only result of the pass is the index of the
            first element that satisfies it; else None.
        extreme: the reduction whose result an element is compared with, if the only result of the
            pass is the index of the first extreme element; else None.
    """

    row_terms: tuple[int, ...]
    terms: tuple[int, ...]
    kept: dict[int, int]
    reductions: tuple[int, ...]
    stores: tuple[tuple[int, int], ...]
    condition: int | None = None
    extreme: int | None = None


@lru_cache(maxsize=4)
def passes_of(
    loops: Loops, *, searching: bool = False, joining: bool = False
) -> tuple[RowPass, ...]:
    """The passes, in order; the last one may have nothing but terms of the row.

    Args:
        loops: the loops.
        searching: whether a pass may be a search, if a first element is its only result.
        joining: whether one pass may find an extreme element and search for the first such one.
    """
    keeping = _Keeping(loops)
    passes = [_pass(keeping, stage) for stage in range(keeping.last + 1)]
    if searching:
        passes = [_search(keeping, p) for p in passes]
    return tuple(_joined(loops, passes) if joining else passes)


def vector_kinds(loops: Loops) -> set[Kind]:
    """The kinds of the vectors that are computed along rows."""
    arrays = {a.kind for a in (*loops.inputs, *loops.outputs) if a.inner}
    passes = passes_of(loops, searching=True)
    numbers = {n for p in passes for n in p.terms}
    numbers |= {n for p in passes if p.condition is None for n in p.reductions}
    operands = {x for n in numbers for x in loops.terms[n].operands}
    return arrays | {loops.terms[n].kind for n in numbers | operands}


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
    """The transitive operands of terms, these included, among terms of elements.

    Args:
        loops: the loops.
        wanted: the terms.
        ends: terms whose operands are left out.
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


@final
@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a kept term: the row of an output, overwritten in the pass ``until``."""

    output: int
    until: int


@final
class _Keeping:
    """Finds the terms to keep, and the terms that each pass then computes.

    Args:
        loops: the loops.

    Attributes:
        stages: for each term the pass that computes it, or before which it is computed.
        roots: for each pass the terms of elements that are its results.
        places: of the terms that are kept.
    """

    def __init__(self, loops: Loops) -> None:
        self.loops, self.stages = loops, _stages(loops)
        self.last = max(self.stages, default=0)
        self.roots: list[set[int]] = [set() for _ in range(self.last + 1)]
        for term in loops.terms:
            if term.operation in REDUCTIONS:
                self.roots[self.stages[term.operands[0]]].add(term.operands[0])
        for x, array in zip(loops.results, loops.outputs, strict=True):
            if array.inner:
                self.roots[self.stages[x]].add(x)
        self.places: dict[int, _Place] = {}
        if self.last:
            self._keep()

    def _keep(self) -> None:
        """Keep terms greedily, at each step the one that saves most."""
        cost = self._cost(self.places)
        while True:
            trials = [
                {**self.places, number: place}
                for number in self._computed_again()
                for place in self._free_places(number)
            ]
            costs = [self._cost(trial) for trial in trials]
            if not costs or min(costs) >= cost:
                return
            cost = min(costs)
            self.places = trials[costs.index(cost)]

    def _computed_again(self) -> list[int]:
        """Terms that a pass computes again as operands of its own terms."""
        repeated: dict[int, None] = {}
        for stage in range(1, self.last + 1):
            kept = self.kept_before(stage, self.places)
            for number in self.terms(stage, self.places):
                for x in () if number in kept else self.loops.terms[number].operands:
                    term = self.loops.terms[x]
                    if term.inner and self.stages[x] < self.stages[number]:
                        repeated[x] = None
        return [
            x for x in repeated
            if x not in self.places and self.loops.terms[x].operation not in _CHEAP
        ]  # fmt: skip

    def _free_places(self, number: int) -> Iterable[_Place]:
        """The outputs of the kind of a term whose rows hold no other kept term."""
        taken = {place.output for place in self.places.values()}
        for output, array in enumerate(self.loops.outputs):
            x = self.loops.results[output]
            if array.inner and array.kind == self.loops.terms[number].kind and output not in taken:
                until = self.last if x == number else self.stages[x]
                if until > self.stages[number]:
                    yield _Place(output, until)

    def kept_before(self, stage: int, places: Mapping[int, _Place]) -> dict[int, int]:
        """The terms that a pass can read back, with the output that holds each."""
        return {
            number: place.output
            for number, place in places.items()
            if self.stages[number] < stage <= place.until
        }

    def terms(self, stage: int, places: Mapping[int, _Place]) -> dict[int, None]:
        """The terms of elements that a pass computes, or reads back."""
        wanted = self.roots[stage] | {x for x in places if self.stages[x] == stage}
        return _made_of(self.loops, wanted, self.kept_before(stage, places))

    def _cost(self, places: Mapping[int, _Place]) -> int:
        """The cost of all passes for an element."""
        breathe()
        cost = sum(self.loops.results[place.output] != x for x, place in places.items())
        for stage in range(self.last + 1):
            kept = self.kept_before(stage, places)
            for number in self.terms(stage, places):
                operation = self.loops.terms[number].operation
                cost += 1 if number in kept else _COSTS.get(operation, 1)
        return cost


def _pass(keeping: _Keeping, stage: int) -> RowPass:
    loops, stages = keeping.loops, keeping.stages
    terms = keeping.terms(stage, keeping.places)
    before = keeping.kept_before(stage, keeping.places)
    stores = [(place.output, x) for x, place in keeping.places.items() if stages[x] == stage]
    for output, (x, array) in enumerate(zip(loops.results, loops.outputs, strict=True)):
        if array.inner and stages[x] == stage and (output, x) not in stores:
            stores.append((output, x))
    return RowPass(
        row_terms=tuple(
            n for n, t in enumerate(loops.terms)
            if not t.inner and t.operation not in REDUCTIONS and stages[n] == stage
        ),
        terms=tuple(sorted(terms)),
        kept={number: before[number] for number in terms if number in before},
        reductions=tuple(
            n for n, t in enumerate(loops.terms)
            if t.operation in REDUCTIONS and stages[t.operands[0]] == stage
        ),
        stores=tuple(stores),
    )  # fmt: skip


def _search(keeping: _Keeping, row_pass: RowPass) -> RowPass:
    """The pass as a search, if its only result is the least index that satisfies a condition."""
    loops = keeping.loops
    if row_pass.stores or len(row_pass.reductions) != 1 or scans_in(loops, row_pass):
        return row_pass
    least = loops.terms[row_pass.reductions[0]]
    choice = loops.terms[least.operands[0]]
    names = [loops.terms[x].operation for x in choice.operands]
    if (least.operation, choice.operation, names[1:]) != ("min", "select", ["index", "size"]):
        return row_pass
    condition = choice.operands[0]
    terms = _made_of(loops, [condition], row_pass.kept)
    if not terms:  # the condition is one of the row
        return row_pass
    kept = {number: output for number, output in row_pass.kept.items() if number in terms}
    return replace(row_pass, terms=tuple(sorted(terms)), kept=kept, condition=condition)


def _joined(loops: Loops, passes: list[RowPass]) -> list[RowPass]:
    """The passes with each search for an extreme element in the pass that finds the extreme."""
    joined: list[RowPass] = []
    for row_pass in passes:
        extreme = _extreme_of(loops, joined[-1], row_pass) if joined else None
        if extreme is None:
            joined.append(row_pass)
            continue
        before = joined.pop()
        terms = _made_of(loops, loops.terms[extreme].operands, before.kept)
        whole = replace(before, terms=tuple(sorted(terms)), reductions=row_pass.reductions)
        joined.append(replace(whole, extreme=extreme))
    return joined


def _extreme_of(loops: Loops, before: RowPass, search: RowPass) -> int | None:
    """The reduction before a search that is for its result, and for nothing else; None if not so.

    A NaN is as extreme as can be: the condition is that an element is the result, or a NaN.
    """
    if search.condition is None or search.row_terms or before.stores:
        return None
    if len(before.reductions) != 1 or before.condition is not None or scans_in(loops, before):
        return None
    (number,) = before.reductions
    extreme = loops.terms[number]
    readers = [n for n, t in enumerate(loops.terms) if number in t.operands]
    if extreme.operation not in ("max", "min") or number in loops.results or len(readers) != 1:
        return None
    (x,) = extreme.operands
    met = loops.terms[readers[0]]
    if (met.operation, met.operands) != ("equal", (x, number)) or not loops.terms[x].inner:
        return None
    if extreme.kind in FLOATS:
        whole = loops.terms[search.condition]
        others = [loops.terms[n] for n in whole.operands if n != readers[0]]
        nan = [(t.operation, t.operands) for t in others]
        return number if whole.operation == "or" and nan == [("not_equal", (x, x))] else None
    return number if search.condition == readers[0] else None
