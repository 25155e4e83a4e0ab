"""A generator and a discriminator, trained against each other with an optimiser each."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import final

import pytest
from sklearn.datasets import load_digits

import eagerflow as ef
from eagerflow import nn
from tests.nn.models.runs import Run, goes_on, reached, the_same_traced

F = nn.functional

NOISE, BATCH = 16, 32
STEPS = 100


@final
class Generator(nn.Module):
    """Noise to images: upsampling by two, then a convolution, twice (Odena et al., 2016)."""

    def __init__(self, width: int = 32) -> None:
        self.width = width
        self.input = nn.Linear(NOISE, width * 2 * 2)
        self.convs = [
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.Conv2d(width, width // 2, 3, padding=1, bias=False),
        ]
        self.norms = [nn.BatchNorm(width), nn.BatchNorm(width), nn.BatchNorm(width // 2)]
        self.output = nn.Conv2d(width // 2, 1, 3, padding=1)

    def forward(self, noise: ef.Tensor) -> ef.Tensor:
        first, *norms = self.norms
        x = F.relu(first(self.input(noise).reshape((-1, self.width, 2, 2))))
        for conv, norm in zip(self.convs, norms, strict=True):
            x = F.interpolate(x, scale_factor=2, mode="bilinear")
            x = F.relu(norm(conv(x)))
        return F.sigmoid(self.output(x))


@final
class Discriminator(nn.Module):
    """Images to scores: positive for images that look real."""

    def __init__(self, width: int = 16) -> None:
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2, padding=1),
            lambda x: F.leaky_relu(x, 0.2),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            lambda x: F.leaky_relu(x, 0.2),
            nn.Dropout(0.2),
            nn.Flatten(),
            nn.Linear(2 * width * 2 * 2, 1),
        )

    def forward(self, images: ef.Tensor) -> ef.Tensor:
        return self.layers(images)[:, 0]


@cache
def digits() -> ef.Tensor:
    """Handwritten zeros and ones: `[n, 1, 8, 8]`."""
    pixels, labels = load_digits(return_X_y=True)
    return ef.tensor(pixels[labels < 2].reshape(-1, 1, 8, 8) / 16, dtype=ef.float32)


@final
class Gan:
    """Generator and discriminator, with a loss for each."""

    def __init__(self) -> None:
        self.generator, self.discriminator = Generator(), Discriminator()

    def drawn(self, count: int) -> ef.Tensor:
        return self.generator(ef.random.normal((count, NOISE)))

    def discriminator_loss(self, real: ef.Tensor) -> ef.Tensor:
        false = ef.stop_gradient(self.drawn(BATCH))
        on_real, on_false = self.discriminator(real), self.discriminator(false)
        almost = 0.9 * ef.ones_like(on_real)  # Salimans et al., 2016
        return F.binary_cross_entropy_with_logits(
            on_real, almost
        ) + F.binary_cross_entropy_with_logits(on_false, ef.zeros_like(on_false))

    def generator_loss(self) -> ef.Tensor:
        scores = self.discriminator(self.drawn(BATCH))
        return F.binary_cross_entropy_with_logits(scores, ef.ones_like(scores))


def make(traced: bool, seed: int = 0) -> Run:
    ef.random.seed(seed)
    gan = Gan()
    generator, discriminator = gan.generator, gan.discriminator
    writer = ef.optim.Adam(generator.trainable, lr=2e-3, betas=(0.5, 0.999))
    critic = ef.optim.Adam(discriminator.trainable, lr=2e-3, betas=(0.5, 0.999))
    of_critic = ef.value_and_grad(gan.discriminator_loss, wrt=discriminator.trainable)
    of_writer = ef.value_and_grad(gan.generator_loss, wrt=generator.trainable)

    def train_critic(real: ef.Tensor) -> ef.Tensor:
        loss, gradients = of_critic(real)
        critic.update(gradients)
        return loss

    def train_writer() -> ef.Tensor:
        loss, gradients = of_writer()
        writer.update(gradients)
        return loss

    functions = [train_critic, train_writer]
    if traced:
        functions = [ef.trace(f) for f in functions]
    judge, write = functions
    data = iter(
        ef.data.Dataset.from_tensors(digits()).shuffle(seed=0).batch(BATCH, drop_last=True).repeat()
    )
    kept = {
        "generator": generator,
        "discriminator": discriminator,
        "writer": writer,
        "critic": critic,
        "data": data,
    }
    return Run(kept, lambda: {"critic": judge(next(data)), "writer": write()}, functions)


def distance(drawn: ef.Tensor) -> float:
    """The distance of an image from the nearest real image, on average."""
    differences = drawn.reshape((-1, 1, 64)) - digits().reshape((1, -1, 64))
    return float(ef.linalg.vector_norm(differences, axis=-1).min(axis=1).mean())


def variety(drawn: ef.Tensor) -> float:
    """The standard deviation of a pixel over images, on average."""
    return float(drawn.std(axis=0).mean())


@pytest.mark.slow
def test_it_learns_to_draw_digits() -> None:
    run, losses = the_same_traced(make, STEPS)
    assert all(0.2 < x < 4 for pair in losses[20:] for x in pair.values())  # both still learn
    noise = ef.random.Generator(7).normal((200, NOISE))
    untrained, trained = Generator().eval()(noise), run.kept["generator"].eval()(noise)
    assert distance(untrained) > 2.8
    assert distance(trained) < 2.0
    assert variety(trained) > 4 * variety(untrained)  # images differ with the noise


def test_each_step_changes_one_of_the_two() -> None:
    run = make(traced=True)
    judge, write = run.functions
    before = run.values()
    judge(digits()[:BATCH])
    after = run.values()
    changed = {path.partition(".")[0] for path, value in after.items() if value != before[path]}
    assert changed == {"discriminator", "critic", "generator"}  # running statistics
    write()
    last = run.values()
    changed = {path.partition(".")[0] for path, value in last.items() if value != after[path]}
    assert changed == {"generator", "writer"}


def test_gradients_reach_all_parameters_through_both() -> None:
    ef.random.seed(0)
    gan = Gan()
    everything = {"g": gan.generator.trainable, "d": gan.discriminator.trainable}
    _, gradients = ef.value_and_grad(gan.generator_loss, wrt=everything)()
    assert reached(gradients["g"]) == set(gan.generator.parameters)
    assert reached(gradients["d"]) == set(gan.discriminator.parameters)


def test_the_generator_gets_no_gradient_where_it_is_stopped() -> None:
    gan = Gan()
    _, gradients = ef.value_and_grad(gan.discriminator_loss, wrt=gan.generator.trainable)(
        digits()[:BATCH]
    )
    assert reached(gradients) == set()


def test_gradients_of_a_gradient_penalty() -> None:
    """A loss with the slope of the scores (Gulrajani et al., 2017): second order throughout."""
    ef.random.seed(0)
    critic = nn.Sequential(  # smooth, for numeric derivatives
        nn.Conv2d(1, 8, 3, stride=2, padding=1),
        F.silu,
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        F.silu,
        nn.Flatten(),
        nn.Linear(16 * 2 * 2, 1),
    )
    real = digits()[:8]

    def penalty() -> ef.Tensor:
        slopes = ef.grad(lambda x: critic(x).sum())(real)
        return (slopes**2).sum(axis=(1, 2, 3)).mean()

    gradients_of = ef.value_and_grad(penalty, wrt=critic.trainable)
    (_, gradients), (_, traced) = gradients_of(), ef.trace(gradients_of)()
    assert all(bool((gradients[path] == traced[path]).all()) for path in gradients)

    weight = critic[2].weight
    way, value, step = ef.random.Generator(0).normal(weight.shape), weight.value, 1e-2
    slope = 0.0
    for sign in (1, -1):
        weight.assign(value + sign * step * way)
        slope += sign * penalty().item() / (2 * step)
    expected = (gradients["layers.2.weight"] * way).sum().item()
    assert slope == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("traced", [False, True])
def test_a_run_goes_on(traced: bool, tmp_path: Path) -> None:
    goes_on(make, tmp_path, traced)


def test_both_steps_as_one_graph() -> None:
    """One function that trains both networks gives the results of two functions."""
    expected = make(traced=False).train(5)
    run = make(traced=False)
    judge, write = run.functions
    both = ef.trace(lambda real: (judge(real), write()))
    losses = []
    for _ in range(5):
        critic, writer = both(next(run.kept["data"]))
        losses.append({"critic": critic.item(), "writer": writer.item()})
    assert losses == expected
    assert len(both.traces) == 1
