"""Statements for branches, loops and jumps, in Python's syntax or with functions of `ef`."""

from __future__ import annotations

from collections.abc import Sequence

from tests.programs.language import Statement, Trait, Writer, statement
from tests.programs.source import indented

__all__: list[str] = []

Block = Sequence[Statement]
BOTH = Trait.SMOOTH | Trait.NUMPY
JUMP = BOTH | Trait.PYTHON

_LIMITS = (-0.5, 0.0, 0.5)


def _sum(w: Writer, i: int) -> str:
    """The sum of a carried value on the first device, so that predicates may be joined."""
    value = w.carried[i % 3]
    return f"move({value.name}.sum(), 0)" if value.device else f"{value.name}.sum()"


# --- branches -----------------------------------------------------------------------------------


def _python_if(w: Writer, tests: Sequence[str], blocks: Sequence[Block]) -> None:
    for k, (test, block) in enumerate(zip(tests, blocks, strict=False)):
        w.lines += [f"{'elif' if k else 'if'} {test}:", *indented(w.block(block))]
    w.lines += ["else:", *indented(w.block(blocks[-1]))]


@statement(BOTH, blocks=2)
def branch(w: Writer, a: int, b: int, c: int, yes: Block, no: Block) -> None:
    """A branch by a value, or by the number of the iteration."""
    value = w.carried[a % 3].name
    test = f"{w.i} % {c + 2} == 0" if b % 4 == 3 else f"over({value}.sum(), {_LIMITS[b % 4]})"
    if w.python:
        _python_if(w, [test], [yes, no])
        return
    first, second, now = w.fresh("yes"), w.fresh("no"), w.fresh("now")
    w.function(first, yes, parameters="{}")
    w.function(second, no, parameters="{}")
    if b % 4 == 3:
        w.lines.append(f"{w.names} = ef.cond({test}, {first}, {second}, {w.names})")
    else:
        w.lines += [
            f"{now} = {w.names}",
            f"{w.names} = ef.cond({test}, lambda: {first}(*{now}), lambda: {second}(*{now}))",
        ]


@statement(BOTH, blocks=3)
def one_of(w: Writer, a: int, b: int, c: int, *blocks: Block) -> None:
    if w.python:
        _python_if(w, [f"{w.i} % 3 == {k}" for k in range(2)], blocks)
        return
    names = [w.fresh("case") for _ in blocks]
    for name, block in zip(names, blocks, strict=True):
        w.function(name, block)
    w.lines.append(f"{w.names} = ef.switch({w.i} % 3, [{', '.join(names)}], {w.names})")


@statement(BOTH, blocks=1)
def remat(w: Writer, a: int, b: int, c: int, body: Block) -> None:
    name = w.fresh("part")
    w.function(name, body)
    w.lines.append(f"{w.names} = ef.remat({name})({w.names})")


# --- loops --------------------------------------------------------------------------------------


@statement(BOTH, blocks=1)
def while_(w: Writer, a: int, b: int, c: int, body: Block) -> None:
    """A loop with a maximal number of iterations, which ends before that if a value is small."""
    j, most = w.fresh("i"), b % 4
    value = w.carried[a % 3]
    test = f"over(ef.abs({value.name}).sum(), 0.1)"
    if value.device and (w.python or c % 2):
        test = f"move({test}, 0)"  # the test is joined with another one
    if w.python:
        inner = [f"{j} += 1", *w.block(body, i=j, loop=True)]
        w.lines += [f"{j} = -1", f"while {j} < {most - 1} and {test}:", *indented(inner)]
        return
    goes_on, step = w.fresh("test"), w.fresh("step")
    how = f"max_iterations={most}, recompute=True"
    if c % 2:
        test = f"ef.cond({j} < {most}, lambda: {test}, lambda: ef.tensor(False))"
        how = f"parallel_iterations={(10, 1, 2)[most % 3]}"
    w.lines.append(f"def {goes_on}({j}, {w.names}): return {test}")
    w.function(step, body, i=j, parameters=j + ", {}", result=j + " + 1, {}")
    w.lines.append(f"_, {w.names} = ef.while_loop({goes_on}, {step}, (0, {w.names}), {how})")


def _rows(w: Writer, a: int) -> tuple[int, str, str, str]:
    """Index and rows of a carried value, the text that remakes it of rows, and a row's name."""
    which = next((k for k in range(3) if len(w.carried[(a + k) % 3].kind)), None)
    at = a % 3 if which is None else (a + which) % 3
    name = w.carried[at].name
    if which is None:
        return at, f"{name}.reshape((1,))", "{}[0]", w.fresh("row")
    return at, name, "{}", w.fresh("row")


@statement(BOTH, blocks=1)
def scan(w: Writer, a: int, b: int, c: int, body: Block) -> None:
    at, rows, again, row = _rows(w, a)
    old = w.carried[at]
    values = list(w.carried)
    values[at] = old._replace(name=row, kind=old.kind[1:])
    rest = ", ".join(v.name for k, v in enumerate(values) if k != at)
    step, made = w.fresh("step"), w.fresh("made")
    w.function(step, body, values=values, parameters=f"carry, {row}", i="1",
               first=[f"{rest} = carry"], result=f"({rest}), {row}")  # fmt: skip
    w.lines += [
        f"({rest}), {made} = ef.scan({step}, ({rest}), {rows}, reverse={bool(b % 2)})",
        f"{old.name} = {again.format(made)}",
    ]


@statement(BOTH, blocks=1)
def map(w: Writer, a: int, b: int, c: int, body: Block) -> None:
    at, rows, again, row = _rows(w, a)
    names = {k: w.fresh("own") for k in range(3)}
    values = [v._replace(name=names[k]) for k, v in enumerate(w.carried)]
    values[at] = w.carried[at]._replace(name=row, kind=w.carried[at].kind[1:])
    first = [f"{names[k]} = {v.name}" for k, v in enumerate(w.carried) if k != at]
    each = w.fresh("each")
    w.function(each, body, values=values, parameters=row, first=first, result=row)
    name = w.carried[at].name
    w.lines.append(f"{name} = {again.format(f'ef.map({each}, {rows})')}")


@statement(BOTH, blocks=1)
def list_(w: Writer, a: int, b: int, c: int, body: Block) -> None:
    """A loop that writes into a list of tensors and reads from it."""
    j, array, name = w.fresh("i"), w.fresh("array"), w.carried[a % 3].name
    written = f"{array}.write({j} % 2, {array}.read({j} % 2) * 0.5 + {name})"
    w.lines.append(f"{array} = ef.TensorArray(2, {name}).write(0, {name})")
    if w.python:
        inner = [*w.block(body, i=j), f"{array} = {written}"]
        w.lines += [f"for {j} in range({b % 4}):", *indented(inner)]
    else:
        step = w.fresh("step")
        w.function(step, body, i=j, parameters=f"{j}, {array}, " + "{}",
                   result=f"{j} + 1, {written}, " + "{}")  # fmt: skip
        start = f"(0, {array}, {w.names})"
        w.lines.append(f"_, {array}, {w.names} = ef.while_loop(lambda {j}, *_: {j} < {b % 4}, "
                       f"{step}, {start})")  # fmt: skip
    w.lines.append(f"{name} = {array}.stack()[0] + {array}.read(1) * 0.3")


# --- Python's own -------------------------------------------------------------------------------


def _test(w: Writer, a: int, b: int, c: int) -> str:
    x, y, limit = _sum(w, a), _sum(w, b), _LIMITS[c % 3]
    return w.of((
        "over({0}, {2})", "not (over({0}, {2}))", "over({0}, {2}) and over({1}, -0.25)",
        "over({0}, {2}) or not over({1}, 1.0)", "not over({2}, {0}) and not over({0}, {1} + 2.0)",
        "any(over(x, {0}) for x in kept[0])", "all(over(x + {0}, {2}) for x in weight)",
        "(over({1}, 0.0) if over({0}, {2}) else over({0}, -1.0))",
    ), a + b + c, x, y, str(limit))  # fmt: skip


@statement(JUMP, blocks=2)
def when(w: Writer, a: int, b: int, c: int, yes: Block, no: Block) -> None:
    if w.lists:
        _python_if(w, [_test(w, a, b, c)], [yes, no])


@statement(JUMP, blocks=2)
def for_(w: Writer, a: int, b: int, c: int, body: Block, last: Block) -> None:
    """A `for` over numbers or rows, perhaps with an `else` block after it."""
    j, x = w.fresh("n"), w.carried[2].name
    head = [f"for {j} in range({b % 4}):"]
    if a % 2:
        head = [f"for {j} in weight:", f"    {x} = ef.tanh({x} + {j}.sum())"]
        head[1] = f"    {x} = ef.tanh({x} + move({j}, {w.carried[2].device}))"
    inner = w.block(body, i="1" if a % 2 else j, loop=True)
    w.lines += [*head, *indented(inner)]
    if c % 3 == 0:
        w.lines += ["else:", *indented(w.block(last))]


@statement(JUMP)
def break_(w: Writer, a: int, b: int, c: int) -> None:
    if w.loop and w.lists:
        w.lines += [f"if {_test(w, a, b, c)}:", "    " + ("break", "continue")[c // 3 % 2]]


@statement(JUMP)
def return_(w: Writer, a: int, b: int, c: int) -> None:
    if w.lists:
        w.lines += [f"if {_test(w, a, b, c)}:", f"    return {w.result}"]


@statement(JUMP, blocks=1)
def try_(w: Writer, a: int, b: int, c: int, body: Block) -> None:
    x = w.carried[a % 3].name
    w.lines += ["try:", *indented(w.block(body)), "finally:", f"    {x} = {x} * 0.5"]


@statement(JUMP)
def append(w: Writer, a: int, b: int, c: int) -> None:
    if w.lists:
        w.lines.append(f"kept.append({w.carried[1].name} * 1.0)")


@statement(JUMP)
def reduce(w: Writer, a: int, b: int, c: int) -> None:
    """A reduction of values by one of Python's builtins."""
    value, to = w.carried[a % 3], w.carried[2]
    name = value.name
    if not w.lists or value.device:
        return
    made = w.of((
        "sum([x * {0}.sum() for x in weight if over(x, {0}.sum())]) + {0}.sum()",
        "sum(kept, b * 0.0).sum() * 0.25",
        "max(x - {0}.sum().astype(weight.dtype) for x in weight)",
        "min({0}.sum() + 0.5, {0}.sum() * 2.0)",
    ), b, name)  # fmt: skip
    moved = f"move({made}, {to.device}).astype({to.name}.dtype)"
    w.lines.append(f"{to.name} = ef.tanh({to.name} + {moved})")


@statement(Trait.PYTHON | Trait.TOP)
def add_in_place(w: Writer, a: int, b: int, c: int) -> None:
    x = w.carried[a % 3].name
    w.lines.append(f"{x} {('+=', '-=')[b % 2]} {x}.sum() * 0.5")
