"""Failures in the call of a native kernel name the node and the user's line, as op by op."""

from __future__ import annotations

from pathlib import Path

from eagerflow.core.op import find_op
from eagerflow_kernels.native.op_rules import OPS
from tests.fresh_process import output_of
from tests.kernels.native.compiling import needs_compiler

_BEGIN = """
import numpy as np
import eagerflow as ef
from eagerflow.graph import Graph
from eagerflow.runtime import Executable
ef.config(kernels="native")
"""


def test_no_op_of_a_kernel_fails_for_its_data() -> None:
    """So machine code has no failures to report."""
    failing = {name for name in OPS if _may_fail(name)}
    # `pow` fails for integers, which it does not take in a kernel; others for too few elements or
    # shapes that cannot be summed to, and no kernel has such nodes
    # (`eagerflow.compilation.instruction_roles`); rows out of range are checked before the call
    assert failing == {"pow", "sum_to", "var", "std", "standardize", "argmax", "argmin", "take"}
    assert set(OPS["pow"].kinds) <= {"f32", "f64"}
    assert "least" not in OPS["var"].takes


def _may_fail(name: str) -> bool:
    op = find_op(name)
    if op is None:  # a part of another op
        return False
    try:
        return op.failing({}) not in ("nothing", "sizes")
    except KeyError:  # depends on an axis, which nodes of graphs have
        return False


_SIZES = """
graph = Graph.parse('''graph f(%x: f32[n], %y: f32[n]) {
  %a = exp(%x) : f32[n]
  %b = tanh(%a) : f32[n]
  %c = add(%b, %y) : f32[n]
  %d = multiply(%c, %c) : f32[n]
  return %d }''')
program = Executable(graph, "now")
assert program.tier.region.compiled.kernels
x = np.ones(3, "f4")
program(x, x)
try:
    program(x, np.ones(2, "f4"))
except ef.errors.ShapeError as error:
    print(str(error).splitlines()[0], *error.__notes__)
    print(error.__context__)
"""


@needs_compiler
def test_sizes_that_do_not_fit_are_told_of_their_node(tmp_path: Path) -> None:
    first, second = output_of(_BEGIN + _SIZES, tmp_path).splitlines()
    assert first.startswith("add: shapes cannot be broadcast together")
    assert "node: %c = add(%b, %y)" in first
    assert second == "None"


_MEMORY = """
from eagerflow.runtime.generated import native_region_text
import eagerflow_kernels.native.fusion as fusion
v = ef.Variable(np.zeros(4, "f4"))
@ef.trace(compile="now")
def f(x):
    v.assign_add(1.0)
    return ef.tanh(ef.exp(x)) * 2

x = ef.tensor(np.zeros(4, "f4"))
expected = f(x).numpy()
region = f.latest().executable.tier.region
region.trial = None
names = region.plain().run.__globals__
kernels = [name for name in names if name.startswith("kernel_")]
assert kernels
def no_memory(*arrays, **options):
    raise MemoryError
for name in kernels:
    names[name] = no_memory
f.latest().executable._take()
assert np.array_equal(f(x).numpy(), expected)
print(v.numpy()[0])
"""


@needs_compiler
def test_without_memory_for_a_kernel_it_goes_op_by_op(tmp_path: Path) -> None:
    assert output_of(_BEGIN + _MEMORY, tmp_path) == "2.0\n"
