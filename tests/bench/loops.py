"""Loops of 1,000 iterations with a tiny body: `ef.while_loop` against `tf.while_loop` without XLA.

Run: ``python -m tests.bench.loops`` in an environment that has TensorFlow as well; without that,
eagerflow alone is timed. Each library runs in processes of its own, in turn
(`tests.bench.harness`). Results are compared first; a call ends when its result is a number.
"""

from __future__ import annotations

import subprocess
import sys

from tests.bench.harness import Contender, Contest, arguments, installed, run

ITERATIONS = 1_000

#: three ops on a scalar and a counter: Newton's steps for a square root
NEWTON = """
def newton(x):
    return {while_loop}(
        lambda y, i: i < {iterations}, lambda y, i: (0.5 * (y + x / y), i + 1), (x, {zero})
    )[0]
"""
#: a predicate that depends on the carry
HALVING = """
def halving(x):
    return {while_loop}(
        lambda y, i: (y > 0.0) & (i < {iterations}), lambda y, i: (y * 0.999, i + 1), (x, {zero})
    )[0]
"""

OURS = """
import eagerflow as ef
{function}
f = ef.trace({call})
x = ef.tensor(2.0)
step = lambda: float(f(x))
"""
THEIRS = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
{function}
def gradient(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = newton(x)
    return tape.gradient(y, x)
f = tf.function({call}, autograph=False, jit_compile=False)
x = tf.constant(2.0)
step = lambda: float(f(x))
"""

#: name: the function, of eagerflow and of TensorFlow
LOOPS = {
    "a counter decides": (NEWTON, "newton", "newton"),
    "a tensor decides": (HALVING, "halving", "halving"),
    "its gradient": (NEWTON, "ef.grad(newton)", "gradient"),
}


def contests(iterations: int = ITERATIONS) -> list[Contest]:
    """The table; eagerflow first."""
    table = []
    for name, (text, ours, theirs) in LOOPS.items():
        function = text.format(
            while_loop="ef.while_loop", iterations=iterations, zero="ef.tensor(0)"
        )
        counted = text.format(while_loop="ef.while_loop", iterations=iterations, zero=0)
        peer = text.format(while_loop="tf.while_loop", iterations=iterations, zero="tf.constant(0)")
        contenders = [
            Contender("ef.while_loop", OURS.format(function=counted, call=ours), "step()"),
            Contender(
                "ef.while_loop, the counter a tensor", OURS.format(function=function, call=ours),
                "step()",
            ),
            Contender(
                "tf.while_loop", THEIRS.format(function=peer, call=theirs), "step()", "tensorflow"
            ),
        ]  # fmt: skip
        table.append(
            Contest(f"{iterations:,} iterations, {name}", contenders, {"tf.while_loop": 1.0})
        )
    return table


def compare(contest: Contest) -> None:
    """Refuse contenders whose results differ."""
    results = []
    for contender in contest.contenders:
        code = f"{contender.setup}\nprint(step())"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        results.append(float(done.stdout.splitlines()[-1]))
    if any(abs(x - results[0]) > 1e-5 * abs(results[0]) for x in results):
        raise RuntimeError(f"{contest.name}: {results}")


if __name__ == "__main__":
    options = arguments("Loops with a tiny body").parse_args()
    table = installed(contests(10) if options.smallest else contests(), options)
    for row in table[:1] if options.smallest else table:
        compare(row)
    run("Loops with a tiny body", table, options)
