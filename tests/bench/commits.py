"""Two checkouts of eagerflow side by side: is anything slower than before?

Run ``git worktree add ../before COMMIT``, then
``python -m tests.bench.commits --before ../before``.
Every row is the same code, run alternately in both trees, in processes of their own. Most rows
count processor time on one processor, so that other load on the machine counts little.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.bench.harness import Contender, Contest, arguments, run

HERE = Path(__file__).resolve().parents[2]

EF = "import numpy as np, eagerflow as ef\n"
SMALL = (
    EF
    + """
a = ef.tensor(np.full((4, 4), 0.5, 'f4'))
b = ef.tensor(np.full((4, 4), 0.9, 'f4'))
"""
)
CHAIN = """
def chain(a, b):
    for _ in range({ops} // 2):
        a = a * b
        a = a + b
    return a
f = ef.trace(chain)
f(a, b)
"""
LOSS = """
w, x, y = [ef.random.normal(s) for s in ((64, 64), (32, 64), (32, 64))]
def loss(w, x, y):
    h = ef.tanh(x @ w)
    return ((h - y) * (h - y)).sum()
"""
#: a function whose source is available for conversion, as that of a notebook's cell is
DEFINE = """
import itertools, linecache
numbers = itertools.count()
def define(text):
    file, names = f"<cell {next(numbers)}>", {}
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    exec(compile(text, file, "exec"), {"ef": ef}, names)
    return ef.trace(names["f"])
"""
#: a fresh function for each trace, as a trace is kept with the code of a function
COLD = (
    DEFINE
    + """
text = TEXT
def cold():
    return define(text)(a)
for _ in range(20):
    cold()
"""
)
NEWTON = """
def newton(x, n=100):
    return ef.while_loop(
        lambda y, i: i < n, lambda y, i: (0.5 * (y + x / y), i + 1), (x, ef.tensor(0))
    )[0]
x = ef.tensor(2.0)
"""
BRANCHES = (
    DEFINE
    + """
f = define('''\\
def f(x):
    total = x
    i = ef.tensor(0)
    while i < 20:
        if x.sum() > 0:
            total = total + x
        else:
            total = total - x
        i = i + 1
    return total
''')
f(a)
"""
)
MODULE = """
model = ef.nn.Sequential(ef.nn.Linear(4, 4), ef.nn.functional.relu, ef.nn.Linear(4, 4))
"""
PROFILED = """
f = ef.trace(chain)
f(a, b)
watch = ef.profile()
watch.__enter__()
f(a, b)
"""
STEPS = """
from tests.bench.steps.with_eagerflow import {work}
step = {work}({arguments})
for _ in range(10):
    step()
"""
PIPELINE = """
data = np.arange(6400, dtype='f4').reshape(1600, 4)
def epoch():
    n = 0
    for _ in ef.data.Dataset.from_tensors(data).{stages}:
        n += 1
    return n
epoch()
"""
QUEUE = """
q = ef.Queue(10, like=a)
@ef.trace
def through(a):
    q.enqueue(a)
    return q.dequeue()
through(a)
"""
RETRACE = """
def again():
    f = ef.trace(lambda x: ef.exp(x) + 1.0)
    f(a)
    f(a[1])
"""
TEXT = """
def long(x):
    for i in range(200):
        x = ef.tanh(x * (1.0 + i))
    return x
graph = ef.trace(long).graph(a)
text = str(graph)
"""


def training(work: str, arguments: str) -> tuple[str, str]:
    """Setup and statement of a training step."""
    return STEPS.format(work=work, arguments=arguments), "step()"


def pipeline(stages: str) -> tuple[str, str]:
    """Setup and statement of an epoch of a pipeline."""
    return EF + PIPELINE.format(stages=stages), "epoch()"


def rows() -> dict[str, tuple[str, str]]:
    """Setup and statement of each row, by name."""
    chains = {ops: SMALL + CHAIN.format(ops=ops) for ops in (2, 20, 100)}
    text = "def f(x):\n    return ef.sum(ef.sin(x) * 2.0)\n"
    loop = "def f(x):\n    while x.sum() < 10.0:\n        x = x + 1.0\n    return x\n"
    return {
        "eager: a + b, 4x4": (SMALL, "a + b"),
        "eager: a * 2.5, 4x4": (SMALL, "a * 2.5"),
        "eager: exp(a), 4x4": (SMALL, "ef.exp(a)"),
        "eager: a @ b, 4x4": (SMALL, "a @ b"),
        "eager: a.sum(), 4x4": (SMALL, "a.sum()"),
        "eager: a[1], 4x4": (SMALL, "a[1]"),
        "eager: where, 4x4": (SMALL, "ef.where(a > b, a, b)"),
        "eager: concat, 4x4": (SMALL, "ef.concat([a, b])"),
        "eager: gradient of a layer, 32x64": (EF + LOSS + "g = ef.grad(loss)\n", "g(w, x, y)"),
        "eager: while_loop of 100 iterations": (EF + NEWTON, "newton(x)"),
        "eager: gradient of a while_loop": (EF + NEWTON + "g = ef.grad(newton)\n", "g(x)"),
        "eager: variable assign_add": (SMALL + "v = ef.Variable(a)\n", "v.assign_add(b)"),
        "eager: three modules": (SMALL + MODULE, "model(a)"),
        "traced: 2 ops": (chains[2], "f(a, b)"),
        "traced: 20 ops": (chains[20], "f(a, b)"),
        "traced: 100 ops": (chains[100], "f(a, b)"),
        "traced: three modules": (SMALL + MODULE + "f = ef.trace(model)\nf(a)\n", "f(a)"),
        "traced: gradient of a layer": (
            EF + LOSS + "g = ef.trace(ef.grad(loss))\ng(w, x, y)\n", "g(w, x, y)"
        ),
        "traced loss, eager gradient": (
            EF + LOSS + "g = ef.grad(ef.trace(loss))\ng(w, x, y)\n", "g(w, x, y)"
        ),
        "traced: loop of 100 iterations": (EF + NEWTON + "f = ef.trace(newton)\nf(x)\n", "f(x)"),
        "traced: gradient of a loop": (
            EF + NEWTON + "f = ef.trace(ef.grad(newton))\nf(x)\n", "f(x)"
        ),
        "traced: `while` with an `if`": (SMALL + BRANCHES, "f(a)"),
        "traced: queue": (SMALL + QUEUE, "through(a)"),
        "watched: 2 ops": (chains[2] + PROFILED, "f(a, b)"),
        "watched: 100 ops": (chains[100] + PROFILED, "f(a, b)"),
        "tracing: three ops": (SMALL + COLD.replace("TEXT", repr(text)), "cold()"),
        "tracing: a `while`": (SMALL + COLD.replace("TEXT", repr(loop)), "cold()"),
        "tracing: 200 ops": (SMALL + TEXT, "ef.trace(lambda x: long(x)).graph(a)"),
        "tracing: retrace for a new shape": (SMALL + RETRACE, "again()"),
        "text: print 200 ops": (SMALL + TEXT, "str(graph)"),
        "text: parse 200 ops": (SMALL + TEXT, "ef.Graph.parse(text)"),
        "step: MLP 784-100-100-10, batch 32": training("mlp", "32, 100, traced=True"),
        "step: MLP, eager": training("mlp", "32, 100, traced=False"),
        "step: CNN, digits": training("cnn", "traced=True"),
        "pipeline: batches": pipeline("batch(32)"),
        "pipeline: map, batches": pipeline("map(lambda x: x + 1).batch(32)"),
        "pipeline: two workers": pipeline("map(lambda x: x + 1, workers=2).batch(32)"),
    }  # fmt: skip


def contests(before: Path) -> list[Contest]:
    """The contests of each row between this tree and the one before."""
    return [
        Contest(
            name,
            [Contender("now", setup, statement, tree=HERE),
             Contender("before", setup, statement, tree=before)],
            {"before": 1.03},
        )
        for name, (setup, statement) in rows().items()
    ]  # fmt: skip


if __name__ == "__main__":
    parser = arguments("Two commits")
    parser.add_argument("--before", type=Path, default=HERE, help="a checkout to compare with")
    parser.set_defaults(threads=1)
    options = parser.parse_args()
    chosen = [c for c in contests(options.before.resolve()) if options.only in c.name]
    if options.smallest and options.before == HERE:  # the same code, which runs once
        chosen = [replace(c, contenders=c.contenders[:1]) for c in chosen]
    run("Two commits", chosen, options)
