"""Native kernels, each alone and fused into regions, against NumPy, torch and jax.

Run: ``python -m tests.bench.native``. Each contender compares its result with one that is computed
in float64 before it is timed. The regions use as many threads as the others are allowed to.
"""

from __future__ import annotations

from dataclasses import replace

from tests.bench.harness import Contender, Contest, arguments, installed, run

#: makes x and y, and later compares a result with that of `reference`, element by element
_DATA = """
import numpy as np
rng = np.random.default_rng(0)
x, y = (rng.uniform(0.1, 2, {shape}).astype("f4") for _ in range(2))
def check(values, xp=np):
    exact = np.asarray(reference(x.astype("f8"), y.astype("f8"), np, f8=True))
    close = np.allclose(np.asarray(values), exact, rtol=1e-3, atol=1e-5)
    assert close, np.abs(np.asarray(values) - exact).max()
"""

#: twenty multiplications and additions
_CHEAP = """
def reference(x, y, xp, f8=False):
    v = x
    for _ in range(10):
        v = v * 0.5 + y
    return v
"""
#: twenty ops with exp, tanh, a root, a quotient and the logistic function among them
_MIXED = """
def reference(x, y, xp, f8=False):
    v = xp.exp(xp.tanh(x * y + x) * y) + x
    v = ((1 / v) * x - y) ** 2 + y
    z = xp.sqrt(v) * x
    v = 1 / (1 + xp.exp(-z)) + x
    return abs(-(xp.maximum(v * y, x) - y))
"""
_CHEAP_NODES = """
nodes, last = [], 0
for _ in range(10):
    nodes += [FusedNode("multiply", (last, 2)), FusedNode("add", (len(nodes) + 3, 1))]
    last = len(nodes) + 2
inputs, given = [LoopArray("f32")] * 3, (x, y, np.float32(0.5))
"""
_MIXED_NODES = """
ops = ["multiply 0 1", "add 2 0", "tanh 3", "multiply 4 1", "exp 5", "add 6 0", "reciprocal 7",
       "multiply 8 0", "subtract 9 1", "square 10", "add 11 1", "sqrt 12", "multiply 13 0",
       "sigmoid 14", "add 15 0", "multiply 16 1", "maximum 17 0", "subtract 18 1", "negative 19",
       "abs 20"]
nodes = [FusedNode(w[0], tuple(map(int, w[1:]))) for w in map(str.split, ops)]
last, inputs, given = 21, [LoopArray("f32")] * 2, (x, y)
"""
_REGION = """
from eagerflow_kernels.native.loop_form import LoopArray
from eagerflow_kernels.native.fusion import FusedNode, NativeRegion, fuse
"""
_JAX = """
import jax, jax.numpy as jnp
f = jax.jit(lambda x, y: reference(x, y, jnp))
a, b = jnp.asarray(x), jnp.asarray(y)
check(f(a, b))
"""
_TORCH = """
import torch
torch.set_num_threads({threads})
a, b = torch.from_numpy(x), torch.from_numpy(y)
check(reference(a, b, torch).numpy())
"""


def _ours(threads: int) -> str:
    return f"from eagerflow_kernels.native.callable_ops import pool\npool().threads = {threads}\n"


def chain(name: str, shape: tuple[int, ...], code: str, nodes: str, threads: int) -> Contest:
    """Twenty elementwise ops as one region, and by other libraries."""
    data = _DATA.format(shape=shape) + code
    build = "region = NativeRegion(fuse('chain', inputs, nodes, [last]))\ncheck(region(*given))\n"
    return Contest(
        name,
        [
            Contender("region", data + _ours(threads) + _REGION + nodes + build,
                      "region(*given)", "llvmlite"),
            Contender("numpy", data, "reference(x, y, np)"),
            Contender("jax.jit", data + _JAX, "f(a, b).block_until_ready()", "jax"),
            Contender("torch eager", data + _TORCH.replace("{threads}", str(threads)),
                      "reference(a, b, torch)", "torch"),
        ],
        {"jax.jit": 1.0},
    )  # fmt: skip


_AXES = {
    "sum": ", axis=(1,), keepdims=False", "softmax": ", axis=1", "cumulative_sum": ", axis=1",
}  # fmt: skip


def op(name: str, shape: tuple[int, ...], of_numpy: str, of_torch: str, threads: int) -> Contest:
    """One op, eagerly, into new memory; ``axis`` stands for the last one."""
    data = (
        _DATA.format(shape=shape) + f"def reference(x, y, xp, f8=False):\n    return {of_numpy}\n"
    )
    axes = _AXES.get(name, "")
    ours = _ours(threads) + (
        "from eagerflow_kernels.native.callable_ops import native_kernel\n"
        f"kernel = native_kernel({name!r}, ('float32',))\ncheck(kernel(x{axes}))\n"
    )
    torch = f"import torch\ntorch.set_num_threads({threads})\na = torch.from_numpy(x)\n"
    return Contest(
        f"{name}, {' x '.join(map(str, shape))} f32",
        [
            Contender("native", data + ours, f"kernel(x{axes})", "llvmlite"),
            Contender("numpy", data, "reference(x, y, np)"),
            Contender("torch eager", data + torch, of_torch, "torch"),
        ],
        {"numpy": 1.0},
    )


_SOFTMAX = "(lambda e: e / e.sum(1, keepdims=True))(np.exp(x - x.max(1, keepdims=True)))"


def draw(name: str, count: int, dtype: str, of_numpy: str, threads: int) -> Contest:
    """A random draw, against the portable library's and that of NumPy's own generator."""
    digits = "" if name != "random_uniform" else f", digits={24 if dtype == 'float32' else 53}"
    data = f"""
import numpy as np
from eagerflow.types import DTYPES
import eagerflow_kernels.cpu.random as portable
key = np.array([12345, 678], np.uint64)
given = dict(shape=({count},), dtype=DTYPES[{dtype!r}]{digits})
def of_portable():
    return portable.draw({name!r}, key, **given)
"""
    ours = (
        _ours(threads)
        + f"""
from eagerflow_kernels.native.callable_ops import native_kernel
kernel = native_kernel({name!r}, ("uint64",))
assert np.allclose(kernel(key, **given), of_portable(), rtol=0, atol=1e-5)
"""
    )
    return Contest(
        f"{name}, {count} {dtype}",
        [
            Contender("native", data + ours, "kernel(key, **given)", "llvmlite"),
            Contender("numpy", data, "of_portable()"),
            Contender("numpy's generator", data + "rng = np.random.default_rng(0)\n",
                      of_numpy.format(count=count, dtype=dtype)),
        ],
        {"numpy": 1.0},
    )  # fmt: skip


_LOW = """
nodes = [FusedNode("multiply", (0, 1), rounds=kind), FusedNode("add", (2, 1), rounds=kind),
         FusedNode("exp", (3,), rounds=kind), FusedNode("subtract", (4, 0), rounds=kind)]
def op_by_op():
    v = (x * y + y).astype("f4")
    return np.exp(v).astype(x.dtype) - x
region = NativeRegion(fuse("low", [LoopArray(kind)] * 2, nodes, [5]))
"""


def low_precision(kind: str, shape: tuple[int, ...], threads: int) -> Contest:
    """Four ops on 16-bit floats as one region, and by NumPy with `ml_dtypes`."""
    dtype = "ml_dtypes.bfloat16" if kind == "bf16" else "np.float16"
    data = f"""
import ml_dtypes, numpy as np
rng = np.random.default_rng(0)
x, y = (rng.uniform(0.1, 2, {shape}).astype({dtype}) for _ in range(2))
kind = {kind!r}
"""
    check = "assert np.allclose(region(x, y).astype('f4'), op_by_op().astype('f4'), rtol=0.05)\n"
    both = data + _ours(threads) + _REGION + _LOW + check
    return Contest(
        f"4 ops, {' x '.join(map(str, shape))} {kind}",
        [
            Contender("region", both, "region.function(x, y)", "llvmlite"),
            Contender("numpy", both, "op_by_op()", "llvmlite"),
        ],
        {"numpy": 1.0},
    )


def gradient_of_rows(rows: int, count: int, width: int) -> Contest:
    """The gradient of a gather: for each row of a table, the sum of the rows scattered to it."""
    data = f"""
import numpy as np
from eagerflow_kernels.cpu.indexing import index_scatter
from eagerflow_kernels.portable import indexing as portable
rng = np.random.default_rng(0)
ids = rng.integers(0, {rows}, {count})
value = rng.normal(size=({count}, {width})).astype("f4")
def of_numpy():
    return portable.index_scatter(np, value, ids, key=("array",), shape=({rows}, {width}))
def ours():
    return index_scatter(value, ids, key=("array",), shape=({rows}, {width}))
assert ours().tobytes() == of_numpy().tobytes()
"""
    return Contest(
        f"gradient of {count} rows of {width} of a table of {rows}",
        [Contender("cpu", data, "ours()"), Contender("numpy", data, "of_numpy()")],
        {"numpy": 1.0},
    )


def contests(threads: int, *, smallest: bool = False) -> list[Contest]:
    """All contests, for a number of threads."""
    sizes = [((16,), "16"), ((1000,), "1e3"), ((100_000,), "1e5"), ((1_000_000,), "1e6")]
    sizes = sizes[:1] if smallest else [*sizes, ((10_000_000,), "1e7")]
    chains = [
        chain(f"20 {title}, {text} f32", shape, code, nodes, threads)
        for title, code, nodes in (
            ("cheap ops", _CHEAP, _CHEAP_NODES), ("mixed ops", _MIXED, _MIXED_NODES)
        )
        for shape, text in sizes
    ]  # fmt: skip
    square = (10, 10) if smallest else (1000, 1000)
    return [
        *chains,
        op("exp", square, "np.exp(x)", "torch.exp(a)", threads),
        op("log", square, "np.log(x)", "torch.log(a)", threads),
        op("tanh", square, "np.tanh(x)", "torch.tanh(a)", threads),
        op("sigmoid", square, "1 / (1 + np.exp(-x))", "torch.sigmoid(a)", threads),
        op("sum", square, "x.sum(1)", "torch.sum(a, 1)", threads),
        op("softmax", square, _SOFTMAX, "torch.softmax(a, 1)", threads),
        op("softmax", (10 if smallest else 4096, 10), _SOFTMAX, "torch.softmax(a, 1)", threads),
        op("cumulative_sum", square, "x.cumsum(1)", "torch.cumsum(a, 1)", threads),
        op("log2", square, "np.log2(x)", "torch.log2(a)", threads),
        op("cosh", square, "np.cosh(x)", "torch.cosh(a)", threads),
        op("atan", square, "np.arctan(x)", "torch.atan(a)", threads),
        *(
            draw(name, 1000 if smallest else 1_000_000, dtype, text, threads)
            for name, text in (
                ("random_uniform", "rng.random({count}, {dtype!r})"),
                ("random_normal", "rng.standard_normal({count}, {dtype!r})"),
            )
            for dtype in ("float32", "float64")
        ),
        *(low_precision(kind, square, threads) for kind in ("f16", "bf16")),
        gradient_of_rows(*((50, 400, 64) if smallest else (30_000, 4096, 256))),
    ]


if __name__ == "__main__":
    options = arguments("Native kernels").parse_args()
    table = installed(contests(options.threads, smallest=options.smallest), options)
    if options.smallest:  # one process will do
        table = [
            replace(row, contenders=[replace(who, needs="") for who in row.contenders])
            for row in table
        ]
    run("Native kernels", table, options)
