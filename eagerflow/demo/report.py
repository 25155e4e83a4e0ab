"""What ``eagerflow demo`` prints and draws."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure

import eagerflow as ef
from eagerflow.demo import digits as example
from eagerflow.demo.digits import CLASSES, Digits, Result

__all__ = ["draw", "main"]

_COLOURS = ("#8a8f98", "#2563eb")
_SHOWN = 10  # misclassified digits in the picture


def main(seed: int = 0, epochs: int = 60, picture: Path = Path("eagerflow-digits.png")) -> None:
    """Train, print a table, draw a picture, and say where to read on."""
    start = time.perf_counter()
    digits, results = example.run(seed, epochs)
    seconds = time.perf_counter() - start
    train, test = digits.train_images.shape[0], digits.test_images.shape[0]
    print(f"digits: {train:,} images of 8x8 pixels to learn from, {test} to test with, seed {seed}")
    print()
    print(table(results))
    print()
    draw(digits, results, picture)
    print(f"trained in {seconds:.1f} s; the picture is {picture}")
    print(f"read next: {example.__file__}, the code of this demo; then docs/tutorial.md")


def table(results: list[Result]) -> str:
    """A row per model."""
    head = f"{'model':20} {'parameters':>10} {'accuracy':>9} {'loss':>8} {'ms/step':>8}"
    rows = [
        f"{r.name:20} {r.parameters:10,} {r.accuracy:9.4f} {np.mean(r.losses[-20:]):8.4f} "
        f"{1e3 * r.step_time:8.3f}"
        for r in results
    ]
    return "\n".join([head, "-" * len(head), *rows])


def draw(digits: Digits, results: list[Result], path: Path) -> None:
    """The loss of all runs; the confusion matrix and the mistakes of the last one."""
    best = results[-1]
    figure = Figure(figsize=(10, 5.6), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    (top,), (bottom,) = figure.subfigures(2, 1, height_ratios=(3.1, 1), squeeze=False)
    left, right = top.subplots(1, 2, width_ratios=(1.55, 1))
    _draw_losses(left, results)
    _draw_confusion(right, best, digits.test_labels)
    _draw_mistakes(bottom, best, digits)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _draw_losses(axes: Axes, results: list[Result]) -> None:
    for result, colour in zip(results, _COLOURS, strict=False):
        steps = np.arange(1, len(result.losses) + 1)
        label = f"{result.name}, accuracy {result.accuracy:.4f}"
        axes.plot(steps, result.losses, color=colour, alpha=0.2, linewidth=0.6)
        axes.plot(steps, _smooth(result.losses), color=colour, linewidth=1.8, label=label)
    axes.set(yscale="log", xlabel="step", ylabel="cross-entropy", title="Training loss")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def _smooth(values: list[float]) -> list[float]:
    """The exponential moving average, so that a noisy curve can be read."""
    out, mean = [], values[0]
    for value in values:
        mean = 0.95 * mean + 0.05 * value
        out.append(mean)
    return out


def _draw_confusion(axes: Axes, result: Result, labels: ef.Tensor) -> None:
    counts = confusion(labels, result.predicted).numpy()
    axes.imshow(np.sqrt(counts), cmap="Blues")
    for true, row in enumerate(counts):
        for seen, count in enumerate(row):
            if count:
                shade = "white" if count > counts.max() / 3 else "#1f2937"
                axes.text(seen, true, f"{count:.0f}", ha="center", va="center", color=shade,
                          fontsize=8)  # fmt: skip
    axes.set(xlabel="predicted", ylabel="digit", title=f"Confusion, {result.name}")
    axes.set_xticks(range(CLASSES))
    axes.set_yticks(range(CLASSES))
    axes.tick_params(length=0)


def confusion(labels: ef.Tensor, predicted: ef.Tensor) -> ef.Tensor:
    """How often each digit (row) was taken for each (column)."""
    return ef.one_hot(labels, CLASSES).T @ ef.one_hot(predicted, CLASSES)


def _draw_mistakes(figure: SubFigure, result: Result, digits: Digits) -> None:
    wrong = np.flatnonzero((result.predicted != digits.test_labels).numpy())[:_SHOWN].tolist()
    panels = figure.subplots(1, max(1, len(wrong)), squeeze=False)[0]
    for panel in panels:
        panel.set_axis_off()
    for panel, i in zip(panels, wrong, strict=False):
        panel.imshow(digits.test_images[i].reshape(8, 8).numpy(), cmap="gray_r")
        seen, true = int(result.predicted[i]), int(digits.test_labels[i])
        panel.set_title(f"{true}, saw {seen}", fontsize=9)
    figure.suptitle(f"What the {result.name} got wrong: the digit, and what it saw", fontsize=10)
