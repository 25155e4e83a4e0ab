"""Random draws in the loop form, one kernel for each op and kind; nothing here needs NumPy."""

from __future__ import annotations

from typing import Final

from eagerflow_kernels.native.functions import random_words
from eagerflow_kernels.native.loop_form import Kind, LoopArray, LoopBuilder, Loops

KINDS: Final[dict[str, Kind]] = {"float32": "f32", "float64": "f64"}
RULES: Final = {"random_uniform": random_words.uniform, "random_normal": random_words.normal}


def draw_loops(name: str, kind: Kind) -> Loops:
    """The loops of a draw over blocks; draws are in no region.

    Args:
        name: of the op, or ``"random_bits"``, whose kind is i64.
        kind: of its elements.
    """
    b = LoopBuilder([LoopArray("i64") for _ in range(4)])
    made = random_words.words(b, *[b.load(i) for i in range(4)])
    if name in RULES:
        made = RULES[name](b, made, kind)
    return b.build(f"{name}_{kind}", list(made))


#: all draws, by op and kind
DRAWS: Final[tuple[tuple[str, Kind], ...]] = (
    ("random_bits", "i64"),
    *((name, kind) for name in RULES for kind in KINDS.values()),
)
