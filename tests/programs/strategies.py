"""Strategies of Hypothesis for programs and for the arguments of their calls."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import eagerflow as ef
from tests.programs import arrays, flow
from tests.programs.language import STATEMENTS, Program, State, Trait, keeps_to_top

__all__ = ["Call", "calls", "graph_of", "programs"]

assert arrays  # these modules register the statements
assert flow

_OPERAND = st.integers(0, 11)


def programs(
    traits: Trait = Trait.NONE, without: Collection[str] = (), depth: int = 2, size: int = 4
) -> st.SearchStrategy[Program]:
    """A strategy for programs.

    Args:
        traits: the traits that each statement must have.
        without: kinds of statements that do not occur.
        depth: the maximal depth of nested blocks.
        size: the maximal number of statements outside of blocks.
    """
    entries = {n: e for n, e in sorted(STATEMENTS.items())
               if traits in e.traits and n not in without}  # fmt: skip

    def block(depth: int, size: int, refused: Trait) -> Any:
        here = {n: e for n, e in entries.items() if not refused & e.traits}
        choices = []
        for count in sorted({e.blocks for e in here.values() if depth or not e.blocks}):
            names = st.sampled_from([n for n, e in here.items() if e.blocks == count])
            inner = [block(depth - 1, 2, refused | Trait.TOP)] * count if count else []
            choices.append(st.tuples(names, _OPERAND, _OPERAND, _OPERAND, *inner))
        return st.lists(st.one_of(*choices[:1] * 3, *choices), min_size=1, max_size=size)

    return st.one_of(
        st.builds(Program, block(depth, size, Trait.PYTHON), st.just(False)),
        st.builds(Program, block(depth, size, Trait.NONE).filter(keeps_to_top), st.just(True)),
    )


@dataclass(frozen=True)
class Call:
    """The arguments of one call, as numbers from which they are made."""

    n: int
    m: int
    rate: float = 0.5
    count: int = 2
    seed: int = 0
    captured: float = 0.5

    def arguments(self, dtype: str = "float32") -> tuple[Any, Any]:
        """Tensors and numbers; in double precision they are arbitrary, otherwise some are equal."""
        rng = np.random.default_rng(self.seed)
        x = rng.choice([-1.5, 0.0, 0.25, 1.0, 2.0], (self.n, self.m))
        if dtype == "float64":
            x = rng.normal(size=x.shape)
        y = rng.normal(size=self.n)
        z = rng.integers(-3, 4, self.n)
        flags = rng.integers(0, 2, x.shape).astype(bool)
        tensors = {
            "x": ef.tensor(x, dtype=dtype),
            "rest": (ef.tensor(y), [ef.tensor(z), ef.tensor(flags), ef.tensor(0.5, dtype=dtype)]),
        }
        return tensors, {"rate": self.rate, "more": (self.count,)}


_NUMBERS = st.sampled_from([0.0, -0.0, 0.5, -1.25, 3.0, 1e-3, 1e30])
_COUNTS = st.sampled_from([0, 1, 2, 3, -2, 40])


def calls(*sizes: int, count: int = 3) -> st.SearchStrategy[list[Call]]:
    """A strategy for lists of calls whose arrays have these sizes."""
    size = st.sampled_from(sizes)
    one = st.builds(Call, size, size, _NUMBERS, _COUNTS, st.integers(0, 9), _NUMBERS)
    return st.lists(one, min_size=count, max_size=count)


def graph_of(program: Program, call: Call, **names: Any) -> tuple[ef.Graph, list[Any], State]:
    """The graph of the carried values of a program, its inputs, and the state that it changes.

    Args:
        program: the program.
        call: its arguments.
        names: globals of the program in the place of others.
    """
    tensors, numbers = call.arguments("float64")
    y, (z, flags, s) = tensors["rest"]
    state = State.fresh("float64")
    state.reset()
    function = program.function(**names)

    def carried(x: Any, y: Any, z: Any, flags: Any, s: Any) -> Any:
        given = {"x": x, "rest": (y, [z, flags, s])}
        return function(state, given, numbers)["all"][0][:3]

    known = {"x": tensors["x"], "y": y, "z": z, "flags": flags, "s": s}
    graph = ef.trace(carried).graph(*known.values())
    outside = {
        "state_weight": state.weight, "state_rate": state.rate, "state_count": state.count,
        "numbers_rate": numbers["rate"], "numbers_more_0": numbers["more"][0],
    }  # fmt: skip
    return graph, [{**known, **outside}[v.name] for v in graph.inputs], state
