"""``ef.config(verify=True)`` runs both tiers and names the first node that differs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import KernelError
from eagerflow.runtime.generated.instructions import flatten
from eagerflow.runtime.generated.tier_comparison import TierComparison, same_bits
from tests.fresh_process import output_of
from tests.kernels.native.compiling import needs_compiler
from tests.messages import says

_BEGIN = """
import numpy as np
import eagerflow as ef
ef.config(kernels="native")
from eagerflow_kernels.native import fusion
apply_op = fusion.apply_op
wrong = ""
def mistaken(b, name, operands, attributes, rounds=None):
    made = apply_op(b, name, operands, attributes, rounds)
    if name != wrong:
        return made
    return [b.apply("add", x, b.constant(1, "f32")) for x in made]
fusion.apply_op = mistaken
x = ef.tensor(np.linspace(0.5, 2, 60, dtype="f4").reshape(4, 15))
"""


_NAMED = """
v = ef.Variable(np.ones((4, 15), "f4"))
def functions():
    def assigning(x):
        a = x * 2
        b = ef.tanh(a)
        v.assign_add(ef.exp(b) - 1)
        return v * 2
    def by_rows(x):
        b = ef.tanh(x)
        return ef.softmax(b * 2, axis=-1) + b, ef.sum(b, axis=-1, keepdims=True)
    def by_columns(x):
        b = ef.tanh(x)
        return ef.sum(b * 2, axis=0), b
    def inside(x):
        def body(i, x):
            b = ef.tanh(x)
            return i + 1, ef.exp(b) - b
        return ef.while_loop(lambda i, x: i < 3, body, (ef.tensor(0), x))
    return assigning, by_rows, by_columns, inside
for wrong in ("", "tanh"):
    for work in functions():
        f = ef.trace(work, compile="now")
        try:
            with ef.config(verify=True):
                f(x)
            print(work.__name__, "agree")
        except ef.errors.KernelError as error:
            lines = str(error).splitlines()
            print(work.__name__, lines[0], "|", lines[-1].partition(": ")[2], *error.__notes__)
        assert f.latest().executable.tier.region.compiled.kernels
"""


@needs_compiler
def test_the_first_node_that_differs_is_named(tmp_path: Path) -> None:
    lines = output_of(_BEGIN + _NAMED, tmp_path).splitlines()
    names = ("assigning", "by_rows", "by_columns", "inside")
    assert lines[:4] == [f"{f} agree" for f in names]
    for name, line in zip(names, lines[4:], strict=True):
        assert line.startswith(f"{name} tanh: a native kernel gives other bits than the op alone |")
        assert re.search(rf"<string>:\d+ in functions.<locals>.{name}", line)  # the line of `b`
        assert "node: %tanh = tanh(" in line


_STATE = """
v = ef.Variable(np.ones((4, 15), "f4"))
@ef.trace
def step(x):
    y = v.assign_add(ef.tanh(x * v) * 0.5)
    return y + 1
def run(**settings):
    v.assign(np.ones((4, 15), "f4"))
    with ef.config(**settings):
        step(x)
        step.wait()
        step(x)
    return v.numpy().tobytes()
assert run(verify=True) == run(verify=False)
print(step.latest().executable.tier.region.compiled.kernels != [])
"""


@needs_compiler
def test_a_verified_step_changes_state_once(tmp_path: Path) -> None:
    assert output_of(_BEGIN + _STATE, tmp_path) == "True\n"


def test_an_op_of_another_type_than_its_rule_is_named() -> None:
    graph = ef.trace(lambda x: ef.floor(x)).graph(ef.ones(2))
    comparison = TierComparison(flatten(graph))
    x = np.ones(2, np.float32)
    comparison.check(0, (x,), (x,))
    with pytest.raises(KernelError, check=says("floor: the result is not of the type")):
        comparison.check(0, (x,), (x[None],))


def test_bits() -> None:
    x = np.array([0.0, np.nan, 1.0], np.float32)
    assert same_bits(x, np.array([0.0, -np.nan, 1.0], np.float32))
    assert not same_bits(x, np.array([-0.0, np.nan, 1.0], np.float32))
    assert not same_bits(x, x.astype(np.float64))
    assert not same_bits(x, x[:, None])
    assert same_bits(np.array([1, 2]), np.array([1, 2]))
