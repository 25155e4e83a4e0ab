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
_BOXES = 100  # in the picture of the graph; scopes with more nodes are closed
_SHOWN = 10  # misclassified digits in the picture


def main(seed: int = 0, epochs: int = 60, picture: Path = Path("eagerflow-digits.png")) -> None:
    """Train, print a table, draw a picture and a graph, and say where to read on."""
    start = time.perf_counter()
    digits, results = example.run(seed, epochs)
    seconds = time.perf_counter() - start
    train, test = digits.train_images.shape[0], digits.test_images.shape[0]
    print(f"digits: {train:,} images of 8x8 pixels to learn from, {test} to test with, seed {seed}")
    print()
    print(table(results))
    print()
    for eager, traced in pairs(results):
        print(f"{eager.name}: {comparison(eager, traced)}")
    print()
    draw(digits, results, picture)
    print(f"trained in {seconds:.1f} s; curves and mistakes: {picture}")
    graph = results[-1].graph
    if graph is not None:
        file = picture.with_name(f"{picture.stem}-step.svg")
        file.write_text(graph.to_svg(limit=_BOXES), encoding="utf-8")
        print(
            f"the graph of a training step, {len(graph.nodes)} nodes: {file} (open it in a browser)"
        )
    print(f"read next: {example.__file__}, the code of this demo")
    print("open next: notebooks/00_quickstart.ipynb (make lab), then docs/tutorial.md")


def table(results: list[Result]) -> str:
    """A row per run."""
    head = f"{'model':20} {'run':6} {'parameters':>10} {'accuracy':>9} {'loss':>8} {'us/step':>8}"
    rows = [
        f"{r.name:20} {_how(r):6} {r.parameters:10,} {r.accuracy:9.4f} "
        f"{np.mean(r.losses[-20:]):8.4f} {1e6 * r.step_time:8.0f}"
        for r in results
    ]
    return "\n".join([head, "-" * len(head), *rows])


def _how(result: Result) -> str:
    return "traced" if result.traced else "eager"


def pairs(results: list[Result]) -> list[tuple[Result, Result]]:
    """The eager and the traced run of each model."""
    return list(zip(results[::2], results[1::2], strict=True))


def comparison(eager: Result, traced: Result) -> str:
    """Whether two runs gave the same, and how much faster the second one was."""
    speed = f"{eager.step_time / traced.step_time:.1f} times as fast as eager"
    differ = [i for i, (a, b) in enumerate(zip(eager.losses, traced.losses, strict=True)) if a != b]
    if differ:
        return f"DIFFERENT: {len(differ)} losses differ, the first in step {differ[0]}; {speed}"
    if not bool((eager.predicted == traced.predicted).all()):
        return f"DIFFERENT: equal losses, but other predictions; {speed}"
    count = len(eager.losses)
    return f"traced gives all {count:,} losses and all predictions bit for bit, {speed}"


def draw(digits: Digits, results: list[Result], path: Path) -> None:
    """The losses of all runs, the step times; the confusion matrix and mistakes of the last one."""
    best = results[-1]
    figure = Figure(figsize=(12, 5.8), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    (top,), (bottom,) = figure.subfigures(2, 1, height_ratios=(3.1, 1), squeeze=False)
    left, middle, right = top.subplots(1, 3, width_ratios=(1.5, 0.75, 1))
    _draw_losses(left, results)
    _draw_times(middle, results)
    _draw_confusion(right, best, digits.test_labels)
    _draw_mistakes(bottom, best, digits)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _draw_losses(axes: Axes, results: list[Result]) -> None:
    for (eager, traced), colour in zip(pairs(results), _COLOURS, strict=False):
        steps = np.arange(1, len(eager.losses) + 1)
        axes.plot(steps, eager.losses, color=colour, alpha=0.2, linewidth=0.6)
        label = f"{eager.name}, eager, accuracy {eager.accuracy:.4f}"
        axes.plot(steps, _smooth(eager.losses), color=colour, linewidth=4, alpha=0.4, label=label)
        label = f"{traced.name}, traced, accuracy {traced.accuracy:.4f}"
        axes.plot(steps, _smooth(traced.losses), color=colour, linewidth=1.4, label=label)
    axes.set(yscale="log", xlabel="step", ylabel="cross-entropy", title="Training loss")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_times(axes: Axes, results: list[Result]) -> None:
    names = [f"{r.name.split()[0]}\n{_how(r)}" for r in results]
    times = [1e6 * r.step_time for r in results]
    colours = [colour for colour in _COLOURS for _ in range(2)]
    bars = axes.bar(names, times, color=colours)
    for bar, result in zip(bars, results, strict=True):
        bar.set_alpha(1.0 if result.traced else 0.4)
    axes.bar_label(bars, fmt="%.0f us", fontsize=8)
    axes.set(title="Median time of a step")
    axes.set_yticks([])
    axes.tick_params(length=0, labelsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)


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
