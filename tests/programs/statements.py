"""Statements of Python on numbers, with jumps out of loops, as lines."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.programs.source import function_of, indented

__all__ = ["blocks", "program"]

NAMES = ("a", "b", "c")

names = st.sampled_from(NAMES)
numbers = st.sampled_from(["0.0", "1.0", "2.0", "-1.5", "0.5"])
atoms = st.one_of(names, numbers)


@st.composite
def expressions(draw, counters: tuple[str, ...] = ()) -> str:
    kind = draw(st.integers(0, 5))
    left, right = (
        draw(names),
        draw(st.one_of(atoms, st.sampled_from(counters)) if counters else atoms),
    )
    if kind == 0:
        return f"({left} if {draw(conditions())} else {right} + {left})"
    return f"{left} {draw(st.sampled_from('+-*'))} {right}"


@st.composite
def reductions(draw) -> str:
    kind, name = draw(st.integers(0, 3)), draw(names)
    test = f"x {draw(st.sampled_from(['<', '>']))} {draw(atoms)}"
    if kind == 0:
        return f"sum([x * {name} for x in xs if {test}]) + {name}"
    if kind == 1:
        return f"{draw(st.sampled_from(['max', 'min']))}({name} + 0.5, {draw(names)} * 2.0)"
    if kind == 2:
        return f"sum(kept) * 0.25 + {name}"
    return f"{draw(st.sampled_from(['max', 'min']))}(x - {name} for x in xs)"


@st.composite
def conditions(draw, depth: int = 1) -> str:
    kind = draw(st.integers(0, 5 if depth else 1))
    if kind == 5:
        every = draw(st.sampled_from(["any", "all"]))
        return f"{every}(x > {draw(atoms)} for x in xs)"
    simple = f"{draw(names)} {draw(st.sampled_from(['<', '>', '<=', '==', '!=']))} {draw(atoms)}"
    if kind <= 1:
        return simple
    if kind == 2:
        return f"not ({draw(conditions(depth - 1))})"
    if kind == 3:
        return f"{draw(numbers)} < {draw(names)} < {draw(atoms)}"
    return f"{simple} {draw(st.sampled_from(['and', 'or']))} {draw(conditions(depth - 1))}"


@st.composite
def blocks(draw, depth: int, loop: bool, counters: tuple[str, ...], tag: str = "") -> list[str]:
    lines: list[str] = []
    for i in range(draw(st.integers(1, 3))):
        lines += draw(statements(depth, loop, counters, f"{tag}{i}"))
    return lines


@st.composite
def statements(draw, depth: int, loop: bool, counters: tuple[str, ...], tag: str) -> list[str]:
    kinds = ["set", "set", "add", "append", "reduce"]
    if depth:
        kinds += ["if", "if", "while", "for", "range", "return", "try"]
    if loop:
        kinds += ["break", "continue"]
    kind = draw(st.sampled_from(kinds))
    inner = (depth - 1, loop, counters, tag + "_")
    if kind == "set":
        return [f"{draw(names)} = {draw(expressions(counters))}"]
    if kind == "add":
        return [f"{draw(names)} {draw(st.sampled_from(['+=', '-=']))} {draw(atoms)}"]
    if kind == "append":
        return [f"kept.append({draw(names)} * 1.0)"]
    if kind == "reduce":
        return [f"{draw(names)} = {draw(reductions())}"]
    if kind == "if":
        found = [f"if {draw(conditions())}:", *indented(draw(blocks(*inner)))]
        if draw(st.booleans()):
            found += ["else:", *indented(draw(blocks(*inner)))]
        return found
    if kind in ("break", "continue"):
        return [f"if {draw(conditions())}:", f"    {kind}"]
    if kind == "return":
        return [f"if {draw(conditions())}:", f"    return {draw(names)}, {draw(names)}, c, a"]
    if kind == "try":
        return [
            "try:",
            *indented(draw(blocks(*inner))),
            "finally:",
            f"    {draw(names)} = b * 0.5",
        ]
    return draw(_loops(kind, depth, counters, tag))


@st.composite
def _loops(draw, kind: str, depth: int, counters: tuple[str, ...], tag: str) -> list[str]:
    counter = f"n{tag}"
    if kind == "while":
        head = [f"{counter} = 0", f"while ({draw(conditions())}) and {counter} < 4:",
                f"    {counter} += 1"]  # fmt: skip
    elif kind == "for":
        head, counter = [f"for x{tag} in xs:", f"    {draw(names)} = x{tag} + {draw(names)}"], ""
    else:
        head = [f"for {counter} in range(3):"]
    more = (*counters, counter) if counter else counters
    found = [*head, *indented(draw(blocks(depth - 1, True, more, tag + "_")))]
    if draw(st.integers(0, 3)) == 0:
        found += ["else:", *indented(draw(blocks(0, False, counters, tag + "e")))]
    return found


def program(lines: list[str]) -> Callable[..., Any]:
    """The function of three numbers and a row of them that statements stand for."""
    body = ["kept = [b * 2.0]", *lines, "return a, b, c, sum(kept)"]
    return function_of(["def program(a, b, c, xs):", *indented(body)], {})
