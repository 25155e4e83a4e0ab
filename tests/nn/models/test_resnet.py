"""A small residual network, trained to read digits."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, final

import pytest
from sklearn.datasets import load_digits

import eagerflow as ef
from eagerflow import nn
from tests.nn.models.runs import Run, goes_on, reached, the_same_traced

F = nn.functional

CLASSES = 10
TRAINING = 1400  # images; the others are for testing
STEPS = 60


@final
class Residual(nn.Module):
    """Two convolutions beside a shortcut (He et al., 2016)."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm(outputs)
            )

    def forward(self, x: ef.Tensor) -> ef.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


@final
class ResNet(nn.Module):
    """A convolution, stages of residual blocks that halve the image, and a linear head."""

    def __init__(self, classes: int, widths: tuple[int, ...] = (8, 16)) -> None:
        width = widths[0]
        self.stem = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm(width)
        self.stages = []
        for wide in widths:
            first = Residual(width, wide, stride=1 if wide == width else 2)
            self.stages.append(nn.Sequential(first, Residual(wide, wide)))
            width = wide
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(width, classes)

    def forward(self, x: ef.Tensor) -> ef.Tensor:
        x = F.relu(self.norm(self.stem(x)))
        for stage in self.stages:
            x = stage(x)
        return self.head(self.pool(x).reshape((x.shape[0], -1)))


@cache
def digits() -> tuple[ef.Tensor, ef.Tensor]:
    pixels, labels = load_digits(return_X_y=True)
    return ef.tensor(pixels.reshape(-1, 1, 8, 8) / 16, dtype=ef.float32), ef.tensor(labels)


def trainer(model: nn.Module, optimiser: ef.optim.AbstractOptimiser) -> Any:
    """A function that does a training step for a batch."""
    gradients_of = ef.value_and_grad(lambda x, y: F.cross_entropy(model(x), y), wrt=model.trainable)

    def train(x: ef.Tensor, y: ef.Tensor) -> ef.Tensor:
        loss, gradients = gradients_of(x, y)
        optimiser.update(gradients)
        return loss

    return train


def make(traced: bool, seed: int = 0, count: int = TRAINING) -> Run:
    ef.random.seed(seed)
    model = ResNet(CLASSES)
    rate = ef.optim.CosineSchedule(0.1, steps=STEPS)
    optimiser = ef.optim.Momentum(model.trainable, lr=rate, weight_decay=1e-4, nesterov=True)
    step = trainer(model, optimiser)
    if traced:
        step = ef.trace(step)
    images, labels = digits()
    rows = ef.data.Dataset.from_tensors((images[:count], labels[:count]))
    data = iter(rows.shuffle(seed=0).batch(32, drop_last=count == TRAINING).repeat())
    return Run(
        {"model": model, "optimiser": optimiser, "data": data},
        lambda: {"loss": step(*next(data))},
        [step],
    )


def accuracy(model: nn.Module) -> float:
    images, labels = (x[TRAINING:] for x in digits())
    return float(nn.metrics.accuracy(model(images).argmax(axis=1), labels))


@pytest.mark.slow
def test_it_learns_to_read_digits() -> None:
    run, losses = the_same_traced(make, STEPS)
    assert losses[0]["loss"] > 2  # as good as guessing: log(10) is 2.30
    assert sum(x["loss"] for x in losses[-10:]) / 10 < 0.3
    model = run.kept["model"].eval()
    assert accuracy(model) > 0.88
    assert accuracy(ResNet(CLASSES).eval()) < 0.3


def test_running_statistics_are_those_of_the_batches() -> None:
    run = make(traced=True)
    norm = run.kept["model"].norm
    run.train(3)
    assert int(norm.num_batches_tracked) == 3
    assert float(abs(norm.running_mean).max()) > 0
    assert set(run.kept["model"].buffers) == {
        f"{path}.{name}"
        for path, layer in run.kept["model"].named_modules()
        if isinstance(layer, nn.BatchNorm)
        for name in ("running_mean", "running_var", "num_batches_tracked")
    }


def test_gradients_reach_all_parameters() -> None:
    ef.random.seed(0)
    model = ResNet(CLASSES)
    images, labels = (x[:32] for x in digits())
    loss_of = ef.value_and_grad(lambda: F.cross_entropy(model(images), labels), wrt=model.trainable)
    assert reached(loss_of()[1]) == set(model.parameters)


@pytest.mark.parametrize("traced", [False, True])
def test_a_run_goes_on(traced: bool, tmp_path: Path) -> None:
    goes_on(make, tmp_path, traced)


def test_a_smaller_last_batch_is_one_more_trace() -> None:
    expected = make(traced=False, count=87).train(9)  # 32, 32 and 23 images
    run = make(traced=True, count=87)
    assert run.train(9) == expected
    assert run.traces == [2]


def test_images_of_any_size_share_a_trace() -> None:
    """Convolutions and the final pooling are independent of the size of images."""
    model = ResNet(CLASSES).eval()
    traced = ef.trace(model)
    for size in (8, 16, 11, 20):
        images = ef.random.Generator(0).normal((2, 1, size, size))
        assert bool((traced(images) == model(images)).all())
    assert len(traced.traces) <= 3  # all sizes known; one size symbolic; both


def test_testing_between_epochs_is_one_more_trace() -> None:
    """The mode is set back and forth; the trace of each mode is reused."""
    run = make(traced=True)
    model = run.kept["model"]
    predict = ef.trace(lambda images: model(images).argmax(axis=1))
    images, _ = digits()
    for _ in range(3):
        run.train(2)
        model.eval()
        classes = predict(images[:50])
        assert bool((classes == model(images[:50]).argmax(axis=1)).all())
        model.train()
    assert run.traces == [1]
    assert len(predict.traces) == 1
    before = model.norm.running_mean.numpy()
    predict(images[:50])  # in training mode: the statistics are those of the batch, and are kept
    assert "training: was False, now True" in predict.traces[1].reason
    assert (model.norm.running_mean.numpy() != before).any()


def test_a_new_head_on_a_trained_model(tmp_path: Path) -> None:
    """The body is frozen, its statistics too; the new head learns parity."""
    trained = make(traced=True)
    trained.train(STEPS)
    ef.checkpoint.save(tmp_path / "digits", trained.kept["model"])

    model = ResNet(2)
    ef.checkpoint.load(
        tmp_path / "digits", like=model, partial=lambda path: not path.startswith("head")
    )
    model.freeze()
    model.head.unfreeze()
    model.eval()
    before = {path: v.numpy() for path, v in model.state.items()}
    optimiser = ef.optim.Adam(model.trainable, lr=0.05)
    step = ef.trace(trainer(model, optimiser))
    images, labels = digits()
    losses = [float(step(images[:256], labels[:256] % 2)) for _ in range(40)]
    assert losses[-1] < 0.3
    changed = {path for path, v in model.state.items() if (v.numpy() != before[path]).any()}
    assert changed == {"head.weight", "head.bias"}
    assert len(step.traces) == 1
