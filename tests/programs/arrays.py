"""Statements on arrays, numbers and state, and on their derivatives."""

from __future__ import annotations

from collections.abc import Sequence

from tests.programs.language import FIXED, STATEMENTS, Named, Statement, Trait, Writer, statement
from tests.programs.source import indented

__all__: list[str] = []

PURE, SMOOTH, HOME, TOP, NUMPY = Trait.PURE, Trait.SMOOTH, Trait.HOME, Trait.TOP, Trait.NUMPY
EVERY = PURE | SMOOTH | NUMPY

_UNARY = ("negative", "exp", "tanh", "sin", "square", "abs", "stop_gradient", "floor")
_BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")


@statement(PURE)
def unary(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.real(a)
    w.add(kind, f"ef.{_UNARY[b % len(_UNARY)]}({x})")


@statement(PURE)
def binary(w: Writer, a: int, b: int, c: int) -> None:
    kind, x, y = w.pair(a, b)
    w.add(kind, f"ef.{_BINARY[c % len(_BINARY)]}({x}, {y})")


@statement(EVERY)
def smooth(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.real(a)
    choices = ("ef.sin({0})", "ef.tanh({0}) * 0.9", "ef.exp(ef.tanh({0}))", "1.0 / ({0} * {0} + 2)",
               "ef.log({0} * {0} + 1.0)", "(ef.sin({0}) ** 2 + 1.0) ** 1.5")  # fmt: skip
    w.add(kind, w.of(choices, b, x))


@statement(EVERY)
def mixed(w: Writer, a: int, b: int, c: int) -> None:
    kind, x, y = w.pair(a, b)
    choices = ("ef.tanh({0}) * {1}", "0.6 * {0} - 0.4 * {1}", "ef.hypot({0}, ef.tanh({1}) + 3.0)")
    w.add(kind, w.of(choices, c, x, y))


@statement(PURE | SMOOTH)
def detached(w: Writer, a: int, b: int, c: int) -> None:
    """A value that no derivative flows through."""
    kind, x = w.real(a)
    w.add(kind, w.of(("ef.stop_gradient({0})", "ef.zeros_like({0}) + 0.5"), b, x))


@statement(PURE)
def with_number(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.real(a)
    choices = ("{0} * {1}", "{1} - {0}", "{0} + {1}", "{1} / ({0} + 2.5)",
               "ef.maximum({0}, {1})", "ef.where({0} > {1}, {0}, {1})")  # fmt: skip
    w.add(kind, w.of(choices, c, x, w.number(b)))


@statement(TOP)
def number_arithmetic(w: Writer, a: int, b: int, c: int) -> None:
    choices = ("{0} + {1}", "{0} * {1}", "{0} - {1}", "-{0}", "abs({1})", "{0} * 0.5 + 1")
    w.numbers.append(w.set(w.of(choices, c, w.number(a), w.number(b))))


@statement()
def number_of_a_size(w: Writer, a: int, b: int, c: int) -> None:
    n = w.set(f"{w.vector(a)[1]}.shape[0]")
    choices = ("{0}", "{0} + 1", "{0} * {0}", "{0} // 2", "{0} * 0.5", "{0} - 1")
    w.numbers.append(w.set(w.of(choices, b, n)))


@statement()
def decide_by_a_number(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.real(a)
    w.add(kind, f"{x} * 2 if {w.number(b)} > 0.75 else {x} + 1")


@statement(PURE)
def reduce_axis(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.vector(a)
    axis = b % len(kind)
    rest = kind[:axis] + kind[axis + 1 :]
    w.add(rest, f"ef.{('sum', 'mean', 'prod', 'logsumexp')[c % 4]}({x}, axis={axis})")


@statement(EVERY)
def reduce_all(w: Writer, a: int, b: int, c: int) -> None:
    choices = ("{0}.sum()", "({0} * 0.25).sum()", "({0} * {0}).sum()")
    w.add((), w.of(choices, b, w.real(a)[1]))


@statement(PURE)
def scan_axis(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.vector(a)
    w.add(kind, f"ef.{('cumulative_sum', 'flip', 'sort')[b % 3]}({x}, axis=0)")


@statement(EVERY)
def transpose(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.vector(a)
    w.add(kind[::-1], f"{x}.T" if len(kind) == 2 else f"{x}[::-1] * 2.0")


@statement(EVERY)
def multiply_matrices(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.vector(a)
    if len(kind) == 2:
        w.add((kind[0], kind[0]), f"ef.tanh({x}) @ ef.tanh({x}).T")
    else:
        w.add((), f"{x} @ {x}")


@statement(EVERY)
def slices(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.vector(a)
    parts = ("1:", ":-1", "::2", "-1:", ": {0}.shape[0] // 2", "{0}.shape[0] // 2 :")
    w.add(kind[1:], f"{x}[{w.of(parts, b, x)}].sum(axis=0)")


@statement(EVERY)
def reshaped(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.vector(a)
    flat = w.set(f"{x}.reshape(({x}.size,))")
    w.add(kind, f"({flat} * {flat}.shape[0]).reshape({x}.shape)")


@statement(EVERY)
def joined(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.vector(a)
    w.add(kind, f"ef.concat([{x}, {x} * 2])[{x}.shape[0] :] + ef.stack([{x}, {x}])[0]")


@statement(PURE | SMOOTH)
def divided(w: Writer, a: int, b: int, c: int) -> None:
    """An op with several outputs, or rows padded and cut off again."""
    kind, x = w.vector(a)
    if b % 2:
        w.add(kind, f"ef.pad({x}, [(1, 2){', (0, 0)' * (len(kind) - 1)}])[1:-2]")
        return
    first, second = w.fresh(), w.fresh()
    w.lines.append(f"{first}, {second} = ef.split({x}, [{x}.shape[0] // 2])")
    w.add(kind, f"ef.concat([{second}, {first}])")


@statement(PURE)
def choose(w: Writer, a: int, b: int, c: int) -> None:
    kind, x, y = w.pair(a, b)
    w.add(kind, f"ef.where({x} > {y}, {x}, {y} * 2)")


@statement(TOP)
def masked(w: Writer, a: int, b: int, c: int) -> None:
    x = w.vector(a)[1]
    selection = w.set(f"{x}[{x} > 0]")
    choices = ("{0}.sum()", "{0}.sum() * {0}.shape[0]", "ef.cumulative_sum({0}).sum()")
    w.add((), w.of(choices, b, selection))


@statement(SMOOTH | NUMPY | HOME)
def gathered(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.vector(a)
    indices = w.set(f"ef.flip(ef.arange({x}.shape[0]), axis=0)")
    w.add(kind, f"{x}[{indices}]" if b % 2 else f"ef.take({x}, {indices}, axis=0)")


@statement()
def other_dtypes(w: Writer, a: int, b: int, c: int) -> None:
    value = w.any(a)
    dtype = ("float64", "float32", "int64", "bool", "bfloat16")[b % 5]
    w.add(value.kind, f"{value.name}.astype(ef.{dtype})", "float" in dtype)


@statement()
def compare(w: Writer, a: int, b: int, c: int) -> None:
    kind, x, y = w.pair(a, b)
    choices = ("{0} < {1}", "ef.isfinite({0} + {1})", "ef.logical_not({0} >= {1})",
               "ef.sign({0} * {1})")  # fmt: skip
    w.add(kind, w.of(choices, c, x, y), c % 4 == 3)


@statement(EVERY)
def move(w: Writer, a: int, b: int, c: int) -> None:
    """A move to a device, perhaps to the same."""
    value = w.any(a)
    w.here = b % 2
    w.add(value.kind, f"move({value.name}, {w.here})", value.floating)


_STEPS = ("ef.sin({0} + {1})", "ef.tanh({0}) * {1}", "ef.tanh({0} * 0.5 + {1})",
          "0.6 * {0} - 0.4 * {1}", "{0} * 0.9 + 0.1 * ({i} + 1)")  # fmt: skip


@statement(SMOOTH | NUMPY)
def set(w: Writer, a: int, b: int, c: int) -> None:
    """An update of a carried value by another value; bounded, so that loops stay finite."""
    to, value = w.carried[a % 3], w.any(b)
    w.here = to.device
    other = w.brought(value)
    if value.kind not in (to.kind, to.kind[1:], ()):
        other = f"{other}.sum()"
    step = w.of(
        _STEPS, c, to.name, other if to.name == other else f"{other}.astype({to.name}.dtype)"
    )
    w.lines.append(f"{to.name} = {step}")


@statement(SMOOTH | NUMPY)
def of_rule(w: Writer, a: int, b: int, c: int) -> None:
    name = w.carried[a % 3].name
    w.lines.append(f"{name} = rule({name})")


# --- updates in place -------------------------------------------------------------------------


@statement(TOP)
def update(w: Writer, a: int, b: int, c: int) -> None:
    """Updates in place of arguments and intermediate results: a handle may be several values."""
    value, number = w.any(a), w.number(b)
    if not value.floating:
        return
    if c % 4 == 0:
        line = "{0} *= {1}"
    elif c % 4 == 1 and value.kind:
        line = "{0}[1:] = {1}"
    elif c % 4 == 2 and value.kind:
        line = "{0}[{0} > 0] += 1.0"
    else:
        line = "{0}[...] = {0} * 0.5 + {1}"
    w.lines.append(line.format(value.name, number))
    w.values.append(value)


@statement(PURE | SMOOTH)
def update_a_copy(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.vector(a)
    w.add(kind, f"{x} * 1.0")
    name = w.values[-1].name
    w.lines += [f"{name}[1:] = ef.sin({name}[1:]) * 0.5", f"{name} += {name}.sum()"]


@statement(TOP | HOME)
def update_the_captured(w: Writer, a: int, b: int, c: int) -> None:
    w.lines.append(f"state.weight[{a % FIXED}] = {w.real(b)[1]}.sum()")
    w.add(("k",), "state.weight")


# --- state --------------------------------------------------------------------------------------


@statement(HOME | SMOOTH | NUMPY)
def read(w: Writer, a: int, b: int, c: int) -> None:
    v = f"state.variables[{a % 3}]"
    w.add(() if a % 3 == 0 else ("k",), f"{v}.value" if b % 2 else f"{v} * 1", a % 3 != 2)


@statement(HOME | SMOOTH | NUMPY)
def assign(w: Writer, a: int, b: int, c: int) -> None:
    v = f"state.variables[{a % 2}]"
    amount = w.set(f"ef.tanh({w.real(b)[1]}.sum()).astype(state.dtype)")
    choices = ("{0}.assign({0} * 0.5 + {1})", "{0}.assign_add({0} * {1})",
               "{0}.assign_sub({1} * 0.5 + 0.0 * {0})")  # fmt: skip
    w.lines.append(w.of(choices, c, v, amount))


@statement(HOME)
def scatter(w: Writer, a: int, b: int, c: int) -> None:
    change = "scatter_add" if c % 2 else "scatter_update"
    value = f"{w.real(b)[1]}.sum().astype(state.dtype)"
    indices = f"ef.tensor([{a % FIXED}, 0])"
    w.lines.append(f"state.variables[1].{change}({indices}, ef.stack([{value}] * 2))")


@statement(HOME | SMOOTH | NUMPY)
def draw(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.real(a)
    source = "state.generator" if b % 2 else "ef.random"
    w.add(kind, f"{source}.{('normal', 'uniform')[c % 2]}({x}.shape, dtype=state.dtype)")


@statement(HOME)
def shuffled(w: Writer, a: int, b: int, c: int) -> None:
    kind, x = w.vector(a)
    w.add(kind, f"ef.random.permutation({x})")


@statement(TOP)
def remember(w: Writer, a: int, b: int, c: int) -> None:
    w.lines += [f"state.log.append({w.any(a).name})", "state.rate = state.rate + 0.25"]


@statement(HOME)
def call_python(w: Writer, a: int, b: int, c: int) -> None:
    """Calls of Python, which all other effects wait for."""
    v = f"state.variables[{a % 2}]"
    if b % 2:
        w.lines.append(f"ef.py_call(lambda a: state.log.append(({c}, a.tolist())), None, {v})")
    else:
        w.add((), "ef.py_call(lambda a: a.sum() + 1, f'{state.dtype.short}[]', " + f"{v})")


@statement(blocks=1)
def unordered(w: Writer, a: int, b: int, c: int, body: Sequence[Statement]) -> None:
    w.lines += ["with ef.unordered():", *indented(w.block(body))]


# --- derivatives --------------------------------------------------------------------------------


def _within(w: Writer, body: Sequence[Statement], x: Named) -> list[str]:
    """Lines that apply pure statements to a value and assign the sum of the result to ``total``."""
    inner = w.inner(values=[*w.values, x])
    for kind, _, b, c, *blocks in body:
        if PURE in STATEMENTS[kind].traits and not blocks:
            # the first operand is the latest result
            inner.write([(kind, len(inner.values) - 1, b, c)])
    last = inner.values[-1]
    if last.device != x.device:
        inner.lines.append(f"{last.name} = move({last.name}, {x.device})")
    return [*inner.lines, f"total = {last.name}.sum()"]


@statement(SMOOTH, blocks=1)
def gradient(w: Writer, a: int, how: int, c: int, body: Sequence[Statement]) -> None:
    kind, x = w.real(a)
    f = w.fresh("f")
    if how % 5 == 1:
        lines = [f"tape.watch({x})", *_within(w, body, Named(x, kind, device=w.here))]
        w.lines += ["with ef.GradientTape() as tape:", *indented(lines),
                    f"slope = tape.gradient(total, {x})"]  # fmt: skip
        w.add(kind, f"ef.zeros_like({x}) if slope is None else slope")
        return
    v = "state.variables[1]"
    by_variable = how % 5 == 3
    if by_variable:
        kind, w.here = ("k",), 0
    lines = _within(w, body, Named("x", kind, device=w.here))
    start = [f"x = {v} * 2"] if by_variable else []
    w.lines += [f"def {f}({'' if start else 'x'}):", *indented([*start, *lines, "return total"])]
    if how % 5 == 0:
        w.add(kind, f"ef.grad({f})({x})")
        return
    if how % 5 == 2:
        pair, kind = w.set(f"ef.jvp({f}, ({x},), (ef.cos({x}),))"), ()
    elif how % 5 == 3:
        pair = w.set(f"ef.value_and_grad({f}, wrt={v})()")
    else:
        pair = w.set(f"ef.vjp({f}, {x})")
        w.add(kind, f"{pair}[1](ef.ones_like({pair}[0]))[0]")
        return
    w.add((), f"{pair}[0]")
    w.add(kind, f"{pair}[1]")
