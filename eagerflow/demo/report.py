"""The table and the pictures of ``eagerflow demo``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure

import eagerflow as ef
from eagerflow.demo import digits as example
from eagerflow.demo.digits import CLASSES, Digits, Result
from eagerflow.extending import replaced

_T = TypeVar("_T")
_COLOURS = ("#8a8f98", "#2563eb")
_BOXES = 100  # in the picture of the graph; scopes with more nodes are closed
_SHOWN = 10  # images in the picture


def main(
    seeds: Sequence[int] = (0,),
    epochs: int | None = None,
    picture: Path = Path("eagerflow-digits.png"),
) -> None:
    """Train with each seed; print a table, draw pictures of the first, name further reading."""
    start = time.perf_counter()
    with ef.config(threads=1):  # the matrices are small: a second thread would only wait
        first, *others = [example.run(seed, epochs) for seed in seeds]
    seconds = time.perf_counter() - start
    digits, results = first
    train, test = digits.train_images.shape[0], digits.test_images.shape[0]
    chosen = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    print(f"digits: {train:,} images of 8x8 pixels to learn from, {test} to test with, {chosen}")
    print()
    runs = [results, *(run for _, run in others)]
    print(table(results) if len(seeds) == 1 else accuracies(seeds, runs))
    print()
    for eager, traced in pairs(list(zip(*runs, strict=True))):
        print(f"{eager[0].name}: {comparison(eager, traced)}")
    print()
    longest = max(sum(r.step_times) for run in runs for r in run)
    print(f"trained in {seconds:.1f} s; the steps of the longest run took {longest:.1f} s of that")
    draw(digits, results, picture)
    print(f"curves and mistakes: {picture}")
    graph = results[-1].graph
    if graph is not None:
        file = picture.with_name(f"{picture.stem}-step.svg")
        with replaced("demo", file) as write:
            write(graph.to_svg(limit=_BOXES).encode())
        nodes = len(graph.nodes)
        print(f"the graph of a training step, {nodes} nodes: {file} (open it in a browser)")
    print(f"read next: {example.__file__}, the code of this demo")
    print("open next: notebooks/01_digits.ipynb (make lab), then docs/tutorial.md")


def table(results: list[Result]) -> str:
    """A table with a row per run."""
    head = f"{'model':8} {'run':6} {'parameters':>10} {'accuracy':>9} {'loss':>8} {'us/step':>8}"
    rows = [
        f"{r.name:8} {_how(r):6} {r.parameters:10,} {r.accuracy:9.4f} "
        f"{np.mean(r.losses[-20:]):8.4f} {1e6 * r.step_time:8.0f}"
        for r in results
    ]
    return "\n".join([head, "-" * len(head), *rows])


def accuracies(seeds: Sequence[int], runs: list[list[Result]]) -> str:
    """A table with a row per seed, a column per run, and the means."""
    head = "accuracy  " + "".join(f"{f'{r.name} {_how(r)}':>12}" for r in runs[0])
    scores = np.array([[r.accuracy for r in results] for results in runs])
    rows = [(f"seed {seed}", *row) for seed, row in zip(seeds, scores, strict=True)]
    rows.append(("mean", *scores.mean(axis=0)))
    lines = [f"{name:10}" + "".join(f"{x:12.4f}" for x in numbers) for name, *numbers in rows]
    rule = "-" * len(head)
    return "\n".join([head, rule, *lines[:-1], rule, lines[-1]])


def _how(result: Result) -> str:
    return "traced" if result.traced else "eager"


def pairs(runs: Sequence[_T]) -> list[tuple[_T, _T]]:
    """The eager and the traced run of each model."""
    return list(zip(runs[::2], runs[1::2], strict=True))


def comparison(eager: Sequence[Result], traced: Sequence[Result]) -> str:
    """Whether eager and traced runs gave the same results, and the speed-up of the traced ones."""
    times = [sum(r.step_time for r in runs) for runs in (eager, traced)]
    speed = f"{times[0] / times[1]:.1f} times as fast by the median step"
    for one, other in zip(eager, traced, strict=True):
        losses = zip(one.losses, other.losses, strict=True)
        differ = [i for i, (a, b) in enumerate(losses) if a != b]
        if differ:
            return f"DIFFERENT: {len(differ)} losses differ, the first in step {differ[0]}; {speed}"
        if not bool((one.probabilities == other.probabilities).all()):
            return f"DIFFERENT: equal losses, but other predictions; {speed}"
    count = sum(len(r.losses) for r in eager)
    return f"traced gives all {count:,} losses and all predictions bit for bit, {speed}"


def draw(digits: Digits, results: list[Result], path: Path) -> None:
    """Losses and step times of all runs; confusion matrix and hardest images of the last one."""
    best = results[-1]
    figure = Figure(figsize=(12, 5.8), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    (top,), (bottom,) = figure.subfigures(2, 1, height_ratios=(3.1, 1), squeeze=False)
    left, middle, right = top.subplots(1, 3, width_ratios=(1.5, 0.75, 1))
    _draw_losses(left, results)
    _draw_times(middle, results)
    _draw_confusion(right, best, digits.test_labels)
    _draw_hardest(bottom, best, digits)
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
    times = [1e3 * r.step_time for r in results]
    colours = [colour for colour in _COLOURS for _ in range(2)]
    bars = axes.bar(names, times, color=colours)
    for bar, result in zip(bars, results, strict=True):
        bar.set_alpha(1.0 if result.traced else 0.4)
    axes.bar_label(bars, fmt="%.2f ms", fontsize=8)
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
    counts = ef.nn.metrics.confusion_matrix(result.predicted, labels, CLASSES).numpy()
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


def _draw_hardest(figure: SubFigure, result: Result, digits: Digits) -> None:
    labels, predicted = digits.test_labels.numpy(), result.predicted.numpy()
    right = result.probabilities.numpy()[np.arange(len(labels)), labels]
    panels = figure.subplots(1, _SHOWN)
    for panel, i in zip(panels, np.argsort(right), strict=False):
        panel.imshow(digits.test_images[int(i), 0].numpy(), cmap="gray_r")
        panel.set_axis_off()
        seen = "" if predicted[i] == labels[i] else f", saw {predicted[i]}"
        colour = "#b91c1c" if seen else "black"
        panel.set_title(f"{labels[i]}: {right[i]:.0%}{seen}", fontsize=9, color=colour)
    title = f"The hardest images: the digit, how probable the {result.name} finds it, its mistakes"
    figure.suptitle(title, fontsize=10)
