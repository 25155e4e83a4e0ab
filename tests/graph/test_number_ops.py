"""The facts stated of Python's operators on numbers hold."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest

from eagerflow.graph.number_ops import NUMBER_OPS

NUMBERS: dict[type, list[Any]] = {
    int: [0, 1, -3, 7],
    float: [0.0, -0.0, 2.5, math.inf],
    complex: [0j, 1 - 2j],
}


@pytest.mark.parametrize("name", sorted(NUMBER_OPS))
def test_operators_of_python_are_what_is_stated(name: str) -> None:
    op = NUMBER_OPS[name]
    every = [x for numbers in NUMBERS.values() for x in numbers]
    function = op.method in ("max", "min")  # takes numbers of one type; all others are operators
    for operands in product(every, repeat=op.arity):
        if function and len(set(map(type, operands))) > 1:
            continue
        try:
            result = op.function(*operands)
        except (ArithmeticError, TypeError):
            continue
        names = {f"x{i}": x for i, x in enumerate(operands)}
        assert repr(eval(op.source.format(*names), names)) == repr(result)
        assert op.compares == (type(result) is bool)
        if op.kind is not None and not op.widens:
            assert type(result) is op.kind([type(x) for x in operands])
        if op.same and type(result) is type(operands[0]):
            assert repr(result) == repr(operands[0])
        assert not op.involution or repr(op.function(result)) == repr(operands[0])
        assert not op.idempotent or repr(op.function(result)) == repr(result)
        assert not op.commutative or repr(op.function(*operands[::-1])) == repr(result)
        if op.arity == 2 and not function:
            assert hasattr(operands[0], f"__{op.method}__")
            assert hasattr(operands[0], op.reflected)


KINDS = {int: "signed integer", float: "real floating"}


@pytest.mark.parametrize("name", sorted(n for n, op in NUMBER_OPS.items() if op.neutral))
def test_neutral_numbers_change_nothing(name: str) -> None:
    op = NUMBER_OPS[name]
    assert op.neutral is not None
    for kind, label in KINDS.items():
        number = op.neutral.numbers.get(label)
        for x in NUMBERS[kind] if number is not None else ():
            assert repr(op.function(x, kind(number))) == repr(x)
            assert not op.neutral.left or repr(op.function(kind(number), x)) == repr(x)
