"""Random programs with branches and loops in each other, variables and draws, as functions."""

from __future__ import annotations

import random
from typing import Any

import eagerflow as ef

Block = list[Any]

_MATH = ("sin", "cos", "tanh", "square")


class Nested:
    """A function of a vector.

    Args:
        seed: makes the program.
        effects: whether it assigns a variable and draws numbers.
    """

    def __init__(self, seed: int, effects: bool = True) -> None:
        self.random = random.Random(seed)
        self.effects = effects
        self.variable = ef.Variable(ef.tensor([0.5, -0.25, 1.0], dtype="float64"))
        self.generator = ef.random.Generator(seed)
        self.seed = seed
        self.block = self.make(0)
        del self.random  # a trace would warn of it

    # --- making ---

    def make(self, depth: int) -> Block:
        return [self.statement(depth) for _ in range(self.random.randint(1, 4))]

    def statement(self, depth: int) -> Any:
        kinds = ["math", "mix"]
        if self.effects:
            kinds += ["write", "read", "draw"]
        if depth < 3:
            kinds += ["cond", "cond", "while", "while", "scan", "switch"]
        kind = self.random.choice(kinds)
        number = self.random.randint(0, 3)
        if kind == "math":
            return kind, self.random.choice(_MATH)
        if kind in ("while", "scan"):
            return kind, number, self.make(depth + 1), self.random.choice((1, 2, 10))
        if kind in ("cond", "switch"):
            blocks = [self.make(depth + 1) for _ in range(2 if kind == "cond" else 3)]
            return kind, number * 0.2, blocks, self.random.random() < 0.5
        return kind, number

    # --- running ---

    def reset(self) -> None:
        """The state as it was."""
        self.variable.assign(ef.tensor([0.5, -0.25, 1.0], dtype="float64"))
        self.generator._state.set(self.seed)

    def state(self) -> tuple[Any, ...]:
        return (self.variable.numpy().tobytes(), self.generator._state.get())

    def __call__(self, x: Any) -> Any:
        return self.run(self.block, x, x) + x

    def run(self, block: Block, x: Any, first: Any) -> Any:
        y = x
        for kind, *rest in block:
            y = getattr(self, f"run_{kind}")(y, first, *rest)
        return y

    def run_math(self, x: Any, first: Any, name: str) -> Any:
        return getattr(ef, name)(x)

    def run_mix(self, x: Any, first: Any, number: int) -> Any:
        return ef.tanh(x * 0.75 + first[number % 3] - number)

    def run_write(self, x: Any, first: Any, number: int) -> Any:
        if number == 0:
            self.variable.assign(ef.tanh(self.variable * 0.5 + x))
        else:
            self.variable.assign_add(x * 0.1)
        return x

    def run_read(self, x: Any, first: Any, number: int) -> Any:
        return ef.tanh(x + self.variable)

    def run_draw(self, x: Any, first: Any, number: int) -> Any:
        return x + ef.random.uniform((3,), dtype="float64", generator=self.generator)

    def run_cond(self, x: Any, first: Any, limit: float, blocks: list[Block], by: bool) -> Any:
        predicate = (x if by else first).sum() > limit
        yes, no = blocks
        return ef.cond(predicate, lambda: self.run(yes, x, first), lambda: self.run(no, x, first))

    def run_switch(self, x: Any, first: Any, limit: float, blocks: list[Block], by: bool) -> Any:
        size = ef.abs(x * 10 + limit).sum()
        # what a loop has made huge, or NaN, is no whole number of 64 bits
        index = ef.astype(ef.where(size < 1e9, size, 0.0), "int64") % 3
        return ef.switch(index, [lambda b=b: self.run(b, x, first) for b in blocks])

    def run_while(self, x: Any, first: Any, iterations: int, block: Block, parallel: int) -> Any:
        def body(x: Any, i: Any) -> Any:
            return self.run(block, x, first) + i * 0.01, i + 1

        def test(x: Any, i: Any) -> Any:
            return (i < iterations) & (x.sum() < 5)

        most = 2 if iterations == 3 and parallel == 2 else None
        return ef.while_loop(test, body, (x, 0), parallel_iterations=parallel, max_iterations=most)[
            0
        ]

    def run_scan(self, x: Any, first: Any, iterations: int, block: Block, parallel: int) -> Any:
        xs = ef.stack([first, x, x * 0.5])[: max(iterations, 1)]

        def step(carry: Any, x: Any) -> Any:
            y = self.run(block, carry * 0.5 + x, first)
            return y, y * 2

        carry, ys = ef.scan(step, x, xs, reverse=parallel == 2)
        return carry + ys.sum(axis=0)
