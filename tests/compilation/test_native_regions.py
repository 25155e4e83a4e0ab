"""Partition of instructions into kernels, the order of execution, and ops that run alone."""

from __future__ import annotations

from typing import Any

import pytest

import eagerflow as ef
from eagerflow.compilation.native_regions import JointRegions, KernelPlan, Region, plan_of
from eagerflow.runtime.generated.instructions import Instruction, flatten


def _plan(text: str, resources: Any = None) -> tuple[KernelPlan[Instruction], list[Instruction]]:
    program = flatten(ef.Graph.parse(text, resources))
    return plan_of(program, program.lines, program.outputs, lambda line: True), program.lines


def _units(text: str, resources: Any = None) -> list[str]:
    """The units in order: regions as ops in brackets, other ops by name."""
    plan, _ = _plan(text, resources)
    shown = []
    for unit in plan.units:
        if isinstance(unit, Region):
            shown.append(f"[{' '.join(_op(line) for line in unit.lines)}]")
        elif isinstance(unit, Instruction):
            shown.append(_op(unit))
    return shown


def _op(line: Instruction) -> str:
    return "size" if line.single is None else line.single.op


def _graph(body: str, inputs: str = "%x: f32[8,4]@cpu:0, %y: f32[8,4]@cpu:0") -> str:
    return f"graph f({inputs}) {{ {body} }}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "%a = multiply(%x, %y) : f32[8,4] %b = exp(%a) : f32[8,4] return %b",
            ["[multiply exp]"], id="elements",
        ),
        pytest.param(
            "%a = exp(%x) : f32[8,4] %m = lgamma(%a) : f32[8,4] %b = exp(%m) : f32[8,4]"
            " %c = add(%a, %b) : f32[8,4] return %c",
            ["exp", "lgamma", "[exp add]"], id="never around what lies between",
        ),
        pytest.param(
            "%a = exp(%x) : f32[8,4] %s = sum(%a) {axis=(1,), keepdims=True} : f32[8,1]"
            " %b = divide(%a, %s) : f32[8,4] return %b",
            ["[exp sum divide]"], id="reductions with what is around them",
        ),
        pytest.param(
            "%a = exp(%x) : f32[8,4] %s = sum(%a) {axis=(0,), keepdims=False} : f32[4]"
            " %r = sum(%y) {axis=(1,), keepdims=False} : f32[8] %q = sqrt(%r) : f32[8]"
            " return %a, %s, %q",
            ["[exp sum]", "[sum sqrt]"], id="one direction each",
        ),
        pytest.param(
            "%a = exp(%x) : f32[8,4] %m = lgamma(%y) : f32[8,4] %b = multiply(%a, %m) : f32[8,4]"
            " return %b",
            ["lgamma", "[exp multiply]"], id="computed where it is used",
        ),
        pytest.param(
            "%p = prod(%x) {axis=(0, 1), keepdims=False} : f32[] %q = abs(%p) : f32[]"
            " %a = multiply(%x, %q) : f32[8,4] %b = exp(%a) : f32[8,4] return %b, %p",
            ["[prod abs multiply exp]"], id="numbers between elements",
        ),
        pytest.param(
            "%a = exp(%x) : f32[8,4] %m = lgamma(%y) : f32[8,4] %n = lgamma(%m) : f32[8,4]"
            " %b = multiply(%a, %m) : f32[8,4] %c = multiply(%b, %n) : f32[8,4] return %b, %c",
            ["lgamma", "lgamma", "[exp multiply multiply]"], id="after different numbers of ops",
        ),
        pytest.param("%a = exp(%x) : f32[8,4] return %a", ["exp"], id="one op is none"),
    ],
)  # fmt: skip
def test_regions(body: str, expected: list[str]) -> None:
    assert _units(_graph(body)) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "%a = multiply(%x, %x) : f32[8,4] %p = pad(%a) {value=0.0, widths=((1, 1), (0, 2))}"
            " : f32[10,6] return %p", ["[multiply pad]"], id="a border around a result",
        ),
        pytest.param(
            "%a = multiply(%x, %x) : f32[8,4] %p = pad(%a) {value=0.0, widths=((1, 1), (0, 2))}"
            " : f32[10,6] %b = exp(%p) : f32[10,6] %c = square(%b) : f32[10,6] return %c",
            ["[multiply pad]", "[exp square]"], id="whose readers go through more elements",
        ),
        pytest.param(
            "%p = pad(%x) {value=0.0, widths=((1, 1), (0, 2))} : f32[10,6] return %p",
            ["pad"], id="alone",
        ),
        pytest.param(
            "%s = sum(%x) {axis=(0,), keepdims=False} : f32[4] %a = multiply(%x, %s) : f32[8,4]"
            " %p = pad(%x) {value=0.0, widths=((1, 1), (0, 2))} : f32[10,6] return %a, %s, %p",
            ["[sum multiply]", "pad"], id="in no kernel of columns",
        ),
    ],
)  # fmt: skip
def test_borders(body: str, expected: list[str]) -> None:
    assert sorted(_units(_graph(body))) == sorted(expected)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "%a = exp(%x) : f32[8,4] %b = square(%a) : f32[8,4]"
            " %c = concat(%a, %b, %a) {axis=1} : f32[8,12] return %c, %b",
            ["[exp square concat]"], id="parts computed in one kernel",
        ),
        pytest.param(
            "%a = exp(%x) : f32[8,4] %b = square(%a) : f32[8,4]"
            " %c = concat(%a, %b) {axis=1} : f32[8,8] %d = exp(%c) : f32[8,8]"
            " %e = square(%d) : f32[8,8] return %e",
            ["[exp square concat]", "[exp square]"], id="whose readers go through more elements",
        ),
        pytest.param(
            "%a = exp(%x) : f32[8,4] %c = concat(%a, %y) {axis=1} : f32[8,8] return %c",
            ["exp", "concat"], id="a part that is given",
        ),
        pytest.param(
            "%a = exp(%x) : f32[8,4] %b = square(%a) : f32[8,4]"
            " %c = concat(%a, %b) {axis=0} : f32[16,4] return %c",
            ["[exp square]", "concat"], id="along the first axis",
        ),
        pytest.param(
            "%s = sum(%x) {axis=(0,), keepdims=False} : f32[4] %a = multiply(%x, %s) : f32[8,4]"
            " %b = exp(%x) : f32[8,4] %c = concat(%b, %b) {axis=1} : f32[8,8] return %a, %s, %c",
            ["[sum multiply exp]", "concat"], id="in no kernel of columns",
        ),
        pytest.param(
            "%a = exp(%x) : f32[8,4] %b = square(%a) : f32[8,4] %c = concat(%b) {axis=1} : f32[8,4]"
            " %d = multiply(%c, %x) : f32[8,4] %e = exp(%d) : f32[8,4] return %e",
            ["[exp square]", "concat", "[multiply exp]"], id="of one array",
        ),
    ],
)  # fmt: skip
def test_parts_of_one_array(body: str, expected: list[str]) -> None:
    assert sorted(_units(_graph(body))) == sorted(expected)


@pytest.mark.parametrize("width", ["-min(n,5)+5", "-1"])
def test_borders_of_unknown_widths(width: str) -> None:
    """Whether the width is zero is known only when the graph runs; or elements are taken away."""
    size = f"n+{width}" if width != "-1" else "n-1"
    body = (
        f"%a = exp(%x) : f32[n] %p = pad(%a) {{value=0.0, widths=((0, {width}),)}} : f32[{size}]"
        " return %p"
    )
    assert _units(_graph(body, "%x: f32[n]@cpu:0"))[-2:] == ["exp", "pad"]


def test_a_repeated_value_that_is_read_as_an_array_stays_one() -> None:
    body = (
        "%r = broadcast_to(%v) {shape=(8, 4)} : f32[8,4] %a = multiply(%r, %x) : f32[8,4]"
        " %b = exp(%a) : f32[8,4]"
    )
    inputs = "%x: f32[8,4]@cpu:0, %v: f32[4]@cpu:0"
    assert _units(_graph(f"{body} return %b", inputs)) == ["[broadcast_to multiply exp]"]
    assert _units(_graph(f"{body} return %b, %r", inputs)) == ["broadcast_to", "[multiply exp]"]


@pytest.mark.parametrize(
    ("shape", "unit", "layout"),
    [
        ("8,1", "[multiply]", ("rows", 1)),
        ("1", "multiply", None),
        ("4", "multiply", None),
        ("8,4", "multiply", None),
    ],
)
def test_values_that_are_repeated_along_short_rows(
    shape: str, unit: str, layout: tuple[str, int] | None
) -> None:
    body = "%a = multiply(%v, %x) : f32[8,4] return %a"
    inputs = f"%x: f32[1,4]@cpu:0, %v: f32[{shape}]@cpu:0"
    if shape != "8,1":
        inputs = f"%x: f32[8,4]@cpu:0, %v: f32[{shape}]@cpu:0"
    text = _graph(body, inputs)
    assert _units(text) == [unit]
    regions = [u for u in _plan(text)[0].units if isinstance(u, Region)]
    assert [region.kernel.layout for region in regions] == [layout] * (layout is not None)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "%a = multiply(%t, %x) : f32[8,4] %s = sum(%a) {axis=(1,), keepdims=True} : f32[8,1]"
            " return %s", ["[take multiply sum]"], id="with what follows them",
        ),
        pytest.param("%a = lgamma(%t) : f32[8,4] return %a", ["take", "lgamma"], id="alone"),
        pytest.param(
            "%a = multiply(%t, %x) : f32[8,4] %u = take(%a, %i) {axis=0} : f32[8,4]"
            " %b = multiply(%u, %t) : f32[8,4] return %b", ["take", "multiply", "take", "multiply"],
            id="of a table that is computed",
        ),
    ],
)  # fmt: skip
def test_rows_of_a_table(body: str, expected: list[str]) -> None:
    """A gather alone stays with NumPy, which is as fast as memory."""
    inputs = "%x: f32[8,4]@cpu:0, %y: f32[9,4]@cpu:0, %i: i64[8]@cpu:0"
    assert _units(_graph(f"%t = take(%y, %i) {{axis=0}} : f32[8,4] {body}", inputs)) == expected


def test_variables_are_at_the_border() -> None:
    w = ef.Variable([[0.0] * 4] * 8)
    text = _graph(
        "%w = read() {resource=@w} : f32[8,4]@cpu:0 %a = multiply(%w, %x) : f32[8,4]"
        " %u = assign_sub(%a) {resource=@w} : f32[8,4]@cpu:0"
        " %v = read() {resource=@w} : f32[8,4]@cpu:0 after &u %b = add(%v, %y) : f32[8,4]"
        " %c = exp(%b) : f32[8,4] return %c"
    )
    assert _units(text, {"w": w.resource}) == ["[read multiply assign_sub]", "[read add exp]"]


def test_updates_by_one_kernel_are_one_call() -> None:
    text = _graph(
        "%a = square(%u) : f32[3] %d = assign_sub(%a) {resource=@u} : f32[3]@cpu:0"
        " %n = lgamma(%v) : f32[5]"
        " %b = square(%n) : f32[5] %e = assign_sub(%b) {resource=@v} : f32[5]@cpu:0"
        " %c = square(%v) : f32[5] %f = assign_add(%c) {resource=@w} : f32[5]@cpu:0"
        " %t = lgamma(%u) : f32[3] return %t",
        "%u: f32[3]@cpu:0, %v: f32[5]@cpu:0",
    )
    sizes = {"u": 3, "v": 5, "w": 5}
    variables = {name: ef.Variable([0.0] * n).resource for name, n in sizes.items()}
    units = _plan(text, variables)[0].units
    (joint,) = [unit for unit in units if isinstance(unit, JointRegions)]
    names = [[_op(line) for line in one.lines] for one in joint.regions]
    assert names == [["square", "assign_sub"]] * 2
    assert units[-1] is joint, "what else can run runs before"


def test_an_assignment_stays_before_what_may_fail() -> None:
    """The writes before the failure of a step do not depend on the tier."""
    w = ef.Variable([0.0] * 4)
    text = _graph(
        "%a = multiply(%v, %v) : f32[4] %u = assign_sub(%a) {resource=@w} : f32[4]@cpu:0"
        ' %t = take(%v, %i) {axis=0, mode="raise"} : f32[4]'
        " %s = assign_add(%t) {resource=@w} : f32[4]@cpu:0 after &u return %s",
        "%v: f32[4]@cpu:0, %i: i64[4]@cpu:0",
    )
    shown = _units(text, {"w": w.resource})
    assert shown == ["[multiply assign_sub]", "take", "assign_add"]


def test_reasons() -> None:
    plan, lines = _plan(
        _graph(
            "%a = lgamma(%x) : f32[8,4] %i = cast(%a) {dtype=i32} : i32[8,4]"
            " %h = cast(%i) {dtype=f16} : f16[8,4] %e = exp(%a) : f32[8,4]"
            " %u = cast(%a) {dtype=i8} : i8[8,4] return %i, %h, %e, %u"
        )
    )
    assert {lines[i].single.op + str(i): why for i, why in plan.alone.items()} == {
        "lgamma0": "left to NumPy or BLAS",
        "cast1": "a cast to integers is NumPy's",
        "cast2": "it is rounded to float32 first, which NumPy's cast is not",
        "exp3": "no neighbour runs through the same elements",
        "cast4": "native kernels have no int8",
    }


def test_long_programs_are_cut_and_stay_in_order() -> None:
    count = 500
    nodes = " ".join(
        f"%v{i + 1} = multiply(%v{i}, %y) : f32[8,4]" if i else "%v1 = multiply(%x, %y) : f32[8,4]"
        for i in range(count)
    )
    plan, _ = _plan(_graph(f"{nodes} return %v{count}"))
    sizes = [len(unit.lines) for unit in plan.units if isinstance(unit, Region)]
    assert sum(sizes) == count
    assert max(sizes) < 100
