"""Two classifiers of handwritten digits, trained with nothing but arrays and gradients.

Read it from top to bottom. It uses public names only, as your own code would: the data, two
models, the loss, an optimiser, and one loop that trains any of them, eagerly or traced. What is
traced is the very function that runs eagerly; the results are the same, bit for bit.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import final

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import eagerflow as ef

CLASSES = 10
BATCH = 64
RATE = 1e-2
NOISE = 0.1


# --- the data: 1,797 images of 8x8 pixels that come with scikit-learn -------------------------


@final
@dataclass(frozen=True)
class Digits:
    """Images as rows of 64 numbers from 0 to 1, and which digit each of them shows."""

    train_images: ef.Tensor
    train_labels: ef.Tensor
    test_images: ef.Tensor
    test_labels: ef.Tensor


def load(seed: int) -> Digits:
    """Four fifths of each digit's images to learn from, one fifth to test with."""
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(images, labels, test_size=0.2, stratify=labels, random_state=seed)
    train_images, test_images, train_labels, test_labels = parts
    return Digits(
        ef.tensor(train_images / 16, dtype=ef.float32),
        ef.tensor(train_labels),
        ef.tensor(test_images / 16, dtype=ef.float32),
        ef.tensor(test_labels),
    )


# --- the models: functions with variables -----------------------------------------------------


@final
class Linear:
    """``x @ weight + bias``, the weights drawn as in He et al. (2015)."""

    def __init__(self, name: str, inputs: int, outputs: int) -> None:
        self.name = name
        weight = ef.random.normal((inputs, outputs), scale=math.sqrt(2 / inputs))
        self.weight = ef.Variable(weight, name=f"{name}.weight")
        self.bias = ef.Variable(ef.zeros(outputs), name=f"{name}.bias")

    def __call__(self, x: ef.Tensor) -> ef.Tensor:
        with ef.name_scope(self.name):  # a box in the picture of the graph
            return x @ self.weight + self.bias


@final
class Classifier:
    """Linear layers with a ReLU between each two; of one layer, it is softmax regression."""

    def __init__(self, *sizes: int) -> None:
        self.layers = [
            Linear(f"layer{i}", a, b) for i, (a, b) in enumerate(pairwise(sizes), start=1)
        ]

    def __call__(self, x: ef.Tensor) -> ef.Tensor:
        for layer in self.layers[:-1]:
            x = ef.maximum(layer(x), 0)
        return self.layers[-1](x)

    @property
    def variables(self) -> list[ef.Variable]:
        """What training changes."""
        return [v for layer in self.layers for v in (layer.weight, layer.bias)]


def cross_entropy(logits: ef.Tensor, labels: ef.Tensor) -> ef.Tensor:
    """The mean of ``-log softmax(logits)`` at the right classes."""
    with ef.name_scope("loss"):
        right = ef.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
        return (ef.logsumexp(logits, axis=1) - right).mean()


# --- the optimiser ----------------------------------------------------------------------------


@final
class Adam:
    """Adam (Kingma and Ba, 2015)."""

    def __init__(self, variables: list[ef.Variable], beta1: float = 0.9, beta2: float = 0.999):
        self.variables = variables
        self.beta1, self.beta2 = beta1, beta2
        self.means = [_zeros(v, "mean") for v in variables]
        self.squares = [_zeros(v, "square") for v in variables]
        self.count = 0

    def update(self, gradients: list[ef.Tensor], rate: float) -> None:
        """One step against the gradients."""
        self.count += 1
        # Python floats are float64; in float32 these corrections would lose most of their digits
        mean_part = 1 - self.beta1**self.count
        square_part = 1 - self.beta2**self.count
        rows = zip(self.variables, gradients, self.means, self.squares, strict=True)
        for variable, g, mean, square in rows:
            with ef.name_scope(variable.name or "variable"):
                m = mean.assign(self.beta1 * mean + (1 - self.beta1) * g)
                s = square.assign(self.beta2 * square + (1 - self.beta2) * g * g)
                variable.assign_sub(rate * (m / mean_part) / (ef.sqrt(s / square_part) + 1e-8))


def _zeros(variable: ef.Variable, of: str) -> ef.Variable:
    return ef.Variable(ef.zeros_like(variable), trainable=False, name=f"{variable.name}.{of}")


# --- training ---------------------------------------------------------------------------------


Step = Callable[[ef.Tensor, ef.Tensor, float], ef.Tensor]


def make_step(model: Classifier) -> Step:
    """A function that takes images, labels and a learning rate, trains once, gives the loss."""
    optimiser = Adam(model.variables)

    def loss_of(images: ef.Tensor, labels: ef.Tensor) -> ef.Tensor:
        return cross_entropy(model(images), labels)

    gradients_of = ef.value_and_grad(loss_of, wrt=model.variables)

    def step(images: ef.Tensor, labels: ef.Tensor, rate: float) -> ef.Tensor:
        loss: ef.Tensor
        loss, gradients = gradients_of(images, labels)
        with ef.name_scope("adam"):
            optimiser.update(gradients, rate)
        return loss

    return step


def batches(digits: Digits) -> Iterator[tuple[ef.Tensor, ef.Tensor]]:
    """The training images once over, in a new order and in equal portions.

    Each comes with fresh noise, so that no image can be learned by heart.
    """
    count = digits.train_images.shape[0]
    order = ef.random.permutation(count)
    for start in range(0, count - BATCH + 1, BATCH):
        chosen = order[start : start + BATCH]
        images = digits.train_images[chosen]
        yield images + ef.random.normal(images.shape, scale=NOISE), digits.train_labels[chosen]


@final
@dataclass
class Result:
    """What one training run gave."""

    name: str
    traced: bool
    parameters: int
    losses: list[float] = field(default_factory=list)
    step_times: list[float] = field(default_factory=list)
    predicted: ef.Tensor = field(default_factory=lambda: ef.zeros(0, dtype=ef.int64))
    accuracy: float = 0.0
    graph: ef.Graph | None = None

    @property
    def step_time(self) -> float:
        """The median time of a step, in seconds."""
        return statistics.median(self.step_times)


def train(name: str, model: Classifier, digits: Digits, epochs: int, traced: bool) -> Result:
    """Train ``model`` and test it; the learning rate falls along a cosine."""
    result = Result(name, traced, parameters=sum(v.size for v in model.variables))
    step = make_step(model)
    if traced:
        step = ef.trace(step)  # nothing else differs
    per_epoch = digits.train_images.shape[0] // BATCH
    total = epochs * per_epoch
    how = "traced" if traced else "eager"
    with tqdm(total=total, desc=f"{name}, {how}", unit="step", mininterval=0.25) as bar:
        for epoch in range(epochs):
            for images, labels in batches(digits):
                rate = RATE * (1 + math.cos(math.pi * len(result.losses) / total)) / 2
                start = time.perf_counter()
                loss = step(images, labels, rate)
                result.step_times.append(time.perf_counter() - start)
                result.losses.append(float(loss))
            bar.set_postfix(epoch=epoch + 1, loss=f"{loss:.4f}", refresh=False)
            bar.update(per_epoch)
    result.predicted = model(digits.test_images).argmax(axis=1)
    result.accuracy = float((result.predicted == digits.test_labels).astype(ef.float32).mean())
    if isinstance(step, ef.TracedFunction):
        result.graph = step.graph(images, labels, rate)
    return result


#: the sizes of the layers of what the demo trains, the simplest first
MODELS = {"softmax regression": (64, CLASSES), "MLP 64-128-10": (64, 128, CLASSES)}


def run(seed: int, epochs: int) -> tuple[Digits, list[Result]]:
    """Train all models, each of them eagerly and then traced.

    The seed decides on split, initial values, order and noise.
    """
    digits = load(seed)
    results = []
    for name, sizes in MODELS.items():
        for traced in (False, True):
            ef.random.seed(seed)
            results.append(train(name, Classifier(*sizes), digits, epochs, traced))
    return digits, results
