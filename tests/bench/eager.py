"""Eager ops against NumPy and PyTorch: small arrays, under a tape, large arrays.

Run: ``python -m tests.bench.eager`` in an environment with the ``bench`` extra.
"""

from __future__ import annotations

from tests.bench.harness import Contender, Contest, arguments, installed, run

NUMPY = "import numpy as np\na = np.ones({shape}, 'f4')\nb = np.ones({shape}, 'f4')"
OURS = (
    "import numpy as np, eagerflow as ef\n"
    "a = ef.tensor(np.ones({shape}, 'f4'))\nb = ef.tensor(np.ones({shape}, 'f4'))"
)
TORCH = "import torch\ntorch.set_num_threads(2)\na = torch.ones({shape})\nb = torch.ones({shape})"


def three(
    name: str,
    shape: object,
    ours: str,
    numpy: str,
    torch: str,
    budget: dict[str, float],
) -> Contest:
    """The same expression on ones of one shape, by eagerflow, NumPy and PyTorch."""
    return Contest(
        name,
        [
            Contender("eagerflow", OURS.format(shape=shape), ours),
            Contender("numpy", NUMPY.format(shape=shape), numpy),
            Contender("torch", TORCH.format(shape=shape), torch, "torch"),
        ],
        budget,
    )


SMALL = {"numpy": 2.0, "torch": 1.0}
SMALL_ARRAYS = [
    three("a + b, 4x4 f32", (4, 4), "a + b", "a + b", "a + b", SMALL),
    three("a * 2.5, 4x4 f32", (4, 4), "a * 2.5", "a * 2.5", "a * 2.5", {"torch": 1.0}),
    three("exp(a), 4x4 f32", (4, 4), "ef.exp(a)", "np.exp(a)", "torch.exp(a)", {"torch": 1.0}),
    three("a @ b, 4x4 f32", (4, 4), "a @ b", "a @ b", "a @ b", {"torch": 1.0}),
    three("a.sum(), 4x4 f32", (4, 4), "a.sum()", "a.sum()", "a.sum()", {"torch": 1.0}),
    three("a[1], 4x4 f32", (4, 4), "a[1]", "a[1]", "a[1]", {"torch": 1.0}),
    Contest(
        "a + b recorded, 4x4 f32",
        [
            # the tape would grow with the loop; each iteration records 1,000 ops
            Contender(
                "eagerflow",
                OURS.format(shape=(4, 4)) + "\ndef work():\n    with ef.GradientTape() as t:\n"
                "        t.watch(a)\n        for _ in range(1000):\n            a + b\n",
                "work()",
            ),
            Contender(
                "torch",
                TORCH.format(shape=(4, 4)) + "\na.requires_grad_()\n"
                "def work():\n    for _ in range(1000):\n        a + b\n",
                "work()",
                "torch",
            ),
        ],
        {"torch": 1.0},
    ),
]
LARGE = {
    "a + b": ("a + b",) * 3,
    "exp(a)": ("ef.exp(a)", "np.exp(a)", "torch.exp(a)"),
    "a.sum()": ("a.sum()",) * 3,
}


def contests(exponents: tuple[int, ...] = (6, 7)) -> list[Contest]:
    """The table, with large arrays of these powers of ten."""
    large = [
        three(f"{name}, 1e{k} f32", 10**k, *expressions, {"numpy": 1.05})
        for k in exponents
        for name, expressions in LARGE.items()
    ]
    return [*SMALL_ARRAYS, *large]


if __name__ == "__main__":
    options = arguments("Eager ops").parse_args()
    table = contests((4,)) if options.smallest else contests()
    run("Eager ops", installed(table, options), options)
