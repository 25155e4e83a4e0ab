"""Classifiers of handwritten digits: the data, three models, and one training loop for all three.

Read it from top to bottom. Except for the progress bar, it uses public names only, as your own code
would. Models are trained eagerly or traced; the traced function is the very function that runs
eagerly, and the results are the same, bit for bit. The notebook ``01_digits`` tells the same story
with pictures.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import eagerflow as ef
from eagerflow.extending import progress_bar
from eagerflow.nn import functional as F

CLASSES = 10
SIZE = 8  # pixels, both ways
BATCH = 64


# --- the data: 1,797 images of 8x8 pixels that come with scikit-learn -------------------------


@final
@dataclass(frozen=True)
class Digits:
    """Images ``[n, 1, 8, 8]`` of numbers from 0 to 1, and the digit that each image shows."""

    train_images: ef.Tensor
    train_labels: ef.Tensor
    test_images: ef.Tensor
    test_labels: ef.Tensor


def load(seed: int) -> Digits:
    """Load the images of each digit: four fifths to learn from, one fifth to test with."""
    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 16).reshape(-1, 1, SIZE, SIZE)
    parts = train_test_split(images, labels, test_size=0.2, stratify=labels, random_state=seed)
    train_images, test_images, train_labels, test_labels = parts
    return Digits(
        ef.tensor(train_images, dtype=ef.float32),
        ef.tensor(train_labels),
        ef.tensor(test_images, dtype=ef.float32),
        ef.tensor(test_labels),
    )


def shifted(images: ef.Tensor, draws: ef.random.Generator) -> ef.Tensor:
    """Images of which half are moved by up to a pixel, each in a direction of its own."""
    count = images.shape[0]
    moves = draws.randint((2, count, 1), 0, 3)
    rows, columns = moves + ef.arange(SIZE)  # of the image with a margin
    framed = ef.pad(images[:, 0], ((0, 0), (1, 1), (1, 1)))
    moved = framed[ef.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return ef.where(draws.bernoulli((count, 1, 1, 1), 0.5), moved[:, None], images)


def augmented(
    batch: tuple[ef.Tensor, ef.Tensor], draws: ef.random.Generator
) -> tuple[ef.Tensor, ef.Tensor]:
    """A batch with moved and noisy images, so that no image can be learned by heart."""
    images, labels = batch
    return shifted(images, draws) + draws.normal(images.shape, scale=0.1), labels


def batches(digits: Digits, seed: int) -> ef.data.Dataset:
    """The training images of an epoch, in an order and with changes of the epoch's own."""
    images = ef.data.Dataset.from_tensors((digits.train_images, digits.train_labels))
    return images.shuffle(seed=seed).batch(BATCH, drop_last=True).map(augmented, seed=seed)


# --- the models -------------------------------------------------------------------------------


def linear() -> ef.nn.Sequential:
    """One weight for each pixel and class: softmax regression."""
    return ef.nn.Sequential(ef.nn.Flatten(), ef.nn.Linear(SIZE * SIZE, CLASSES))


def mlp() -> ef.nn.Sequential:
    """A multilayer perceptron with one hidden layer."""
    return ef.nn.Sequential(
        ef.nn.Flatten(), ef.nn.Linear(SIZE * SIZE, 128), F.relu, ef.nn.Linear(128, CLASSES)
    )


@final
class CNN(ef.nn.Module):
    """A convolutional network: two convolutions find strokes, and two layers weigh them."""

    def __init__(self) -> None:
        self.conv1 = ef.nn.Conv2d(1, 16, kernel_size=3, padding=1)
        self.conv2 = ef.nn.Conv2d(16, 32, kernel_size=3, padding=1)
        self.dropout = ef.nn.Dropout(0.3)
        self.hidden = ef.nn.Linear(32 * 4 * 4, 64)
        self.output = ef.nn.Linear(64, CLASSES)

    def forward(self, x: ef.Tensor) -> ef.Tensor:
        """Scores ``[n, 10]`` of images ``[n, 1, 8, 8]``."""
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = self.dropout(x.reshape(x.shape[0], -1))
        scores: ef.Tensor = self.output(F.relu(self.hidden(x)))
        return scores


@final
@dataclass(frozen=True)
class Recipe:
    """A model and its training settings."""

    make: Callable[[], ef.nn.Module]
    epochs: int
    rate: float


RECIPES = {
    "linear": Recipe(linear, epochs=30, rate=1e-2),
    "MLP": Recipe(mlp, epochs=60, rate=1e-2),
    "CNN": Recipe(CNN, epochs=40, rate=5e-3),
}


# --- training ---------------------------------------------------------------------------------


Step = Callable[[ef.Tensor, ef.Tensor], ef.Tensor]


def make_step(model: ef.nn.Module, optimiser: ef.optim.AbstractOptimiser) -> Step:
    """A function that trains the model on images and labels once, and gives the loss."""

    def loss_of(images: ef.Tensor, labels: ef.Tensor) -> ef.Tensor:
        return F.cross_entropy(model(images), labels)

    gradients_of = ef.value_and_grad(loss_of, wrt=model.trainable)

    def step(images: ef.Tensor, labels: ef.Tensor) -> ef.Tensor:
        loss: ef.Tensor
        loss, gradients = gradients_of(images, labels)
        with ef.name_scope("adam"):  # a box in the picture of the graph
            optimiser.update(gradients)
        return loss

    return step


def predict(model: ef.nn.Module, images: ef.Tensor) -> ef.Tensor:
    """The model's probability of each digit for each image, ``[n, 10]``."""
    model.eval()  # without dropout
    scores = model(images)
    model.train()
    return F.softmax(scores, axis=1)


@final
@dataclass
class Result:
    """The result of a training run."""

    name: str
    traced: bool
    model: ef.nn.Module
    losses: list[float] = field(default_factory=list)
    step_times: list[float] = field(default_factory=list)
    probabilities: ef.Tensor = field(default_factory=lambda: ef.zeros((0, CLASSES)))
    accuracy: float = 0.0
    graph: ef.Graph | None = None

    @property
    def predicted(self) -> ef.Tensor:
        """The most probable digit in each test image."""
        return self.probabilities.argmax(axis=1)

    @property
    def step_time(self) -> float:
        """The median time of a step, in seconds."""
        return statistics.median(self.step_times)

    @property
    def parameters(self) -> int:
        """Number of trained numbers."""
        return sum(int(v.size) for v in self.model.trainable.values())


def train(
    name: str,
    digits: Digits,
    seed: int,
    *,
    traced: bool = False,
    epochs: int | None = None,
    progress: bool = False,
) -> Result:
    """Train a model of `RECIPES` and test it; the learning rate falls along a cosine.

    The seed determines initial values, order, changes of the images, and dropout.
    """
    recipe = RECIPES[name]
    epochs = recipe.epochs if epochs is None else epochs
    ef.random.seed(seed)
    model, data = recipe.make(), batches(digits, seed)
    rate = ef.optim.CosineSchedule(recipe.rate, steps=epochs * len(data))
    step = make_step(model, ef.optim.Adam(model.trainable, rate))
    if traced:
        step = ef.trace(step)  # nothing else differs
    result = Result(name, traced, model)
    title = f"{name}, {'traced' if traced else 'eager'}, batches included"
    total = epochs * len(data)
    with progress_bar(title, total, "step", show=progress) as advance:
        for _ in range(epochs):
            for images, labels in data:
                start = time.perf_counter()
                loss = step(images, labels)
                result.step_times.append(time.perf_counter() - start)
                result.losses.append(float(loss))
            advance(len(data), f"loss={loss:.4f}")
    result.probabilities = predict(model, digits.test_images)
    result.accuracy = float(ef.nn.metrics.accuracy(result.predicted, digits.test_labels))
    if isinstance(step, ef.TracedFunction):
        result.graph = step.graph(images, labels)
    return result


def run(seed: int, epochs: int | None = None) -> tuple[Digits, list[Result]]:
    """Train MLP and CNN, each of them eagerly and then traced."""
    digits = load(seed)
    return digits, [
        train(name, digits, seed, traced=traced, epochs=epochs, progress=True)
        for name in ("MLP", "CNN")
        for traced in (False, True)
    ]
