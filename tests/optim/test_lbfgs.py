"""`LBFGS` against PyTorch's, eagerly and as a loop of a graph; its state, and its errors."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import CheckpointError, DTypeError, GradientError, TensorValueError
from eagerflow.optim import LBFGS
from tests.messages import says
from tests.optim import record_lbfgs
from tests.optim.lbfgs_problems import PROBLEMS, STEPS, Problem, loss, start

#: a search along a narrow valley amplifies differences of the last digits with each iteration
TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return json.loads(record_lbfgs.FILE.read_text())


def run(problem: Problem, traced: bool = False, dtype: Any = ef.float64) -> list[dict[str, Any]]:
    """Steps, as `record_lbfgs.run` gives them."""
    variables = [ef.Variable(v, dtype=dtype) for v in start(problem.name)]
    optimiser = LBFGS(variables, **problem.options)

    def step() -> ef.Tensor:
        return optimiser.step(lambda: loss(ef, problem.name, *(v.value for v in variables)))

    stepped = ef.trace(step) if traced else step
    steps = []
    for _ in range(STEPS):
        before = float(stepped())
        counts = {name: int(optimiser.state[name]) for name in ("n_iter", "func_evals")}
        steps.append({"loss": before, "x": [v.numpy().tolist() for v in variables], **counts})
    if traced:
        assert len(stepped.traces) == 1
    return steps


def assert_near(steps: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    for a, b in zip(steps, expected, strict=True):
        assert (a["n_iter"], a["func_evals"]) == (b["n_iter"], b["func_evals"])
        assert a["loss"] == pytest.approx(b["loss"], rel=TOLERANCE, abs=1e-12)
        for u, v in zip(a["x"], b["x"], strict=True):
            np.testing.assert_allclose(u, v, rtol=TOLERANCE, atol=TOLERANCE)


def test_there_are_values_of_all_problems(recorded: dict[str, Any]) -> None:
    assert list(recorded) == ["torch", *map(str, PROBLEMS)]


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_equal_to_pytorch(problem: Problem, recorded: dict[str, Any]) -> None:
    assert_near(run(problem), recorded[str(problem)])


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_traced_once_and_bit_for_bit_the_same(problem: Problem) -> None:
    assert run(problem, traced=True) == run(problem)


@pytest.mark.peer
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_recorded_is_what_pytorch_does(problem: Problem, recorded: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    assert_near(record_lbfgs.run(torch, problem), recorded[str(problem)])


# --- convergence --------------------------------------------------------------------------------


@pytest.mark.parametrize("traced", [False, True])
def test_rosenbrock_of_ten_variables(traced: bool) -> None:
    x = ef.Variable(np.full(10, -1.2))
    optimiser = LBFGS([x], max_iter=200, line_search_fn="strong_wolfe")

    def rosenbrock() -> ef.Tensor:
        return ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()

    step = ef.trace(lambda: optimiser.step(rosenbrock)) if traced else None
    if step is None:
        optimiser.step(rosenbrock)
    else:
        step()
    np.testing.assert_allclose(x.numpy(), 1.0, atol=1e-5)
    assert int(optimiser.state["func_evals"]) < 150


def test_logistic_regression_ends_where_the_gradient_is_zero() -> None:
    generator = ef.random.Generator(0)
    x = generator.normal((200, 5), dtype=ef.float64)
    labels = (x @ ef.tensor([2.0, -1.0, 0.5, 0.0, 1.0], dtype=ef.float64) > 0.3).astype(ef.float64)
    model = ef.nn.Linear(5, 1, dtype=ef.float64, generator=generator)
    optimiser = LBFGS(model.trainable, max_iter=100, line_search_fn="strong_wolfe")

    def loss_of() -> ef.Tensor:
        scores = model(x)[:, 0]
        penalty = 0.01 * (model.weight**2).sum()
        return ef.nn.functional.binary_cross_entropy_with_logits(scores, labels) + penalty

    losses = [float(optimiser.step(loss_of)) for _ in range(3)]
    assert losses[1] == pytest.approx(losses[2], rel=1e-9)
    assert losses[1] < 0.6 * losses[0]
    _, gradients = ef.value_and_grad(loss_of, wrt=model.trainable)()
    assert max(float(ef.abs(g).max()) for g in gradients.values()) < 1e-4


@pytest.mark.parametrize("dtype", [ef.float32, ef.float16, ef.bfloat16], ids=str)
def test_small_dtypes(dtype: Any) -> None:
    """The search is in float32 at least; variables are rounded where the loss is evaluated."""
    v = ef.Variable([3.0, -4.0], dtype=dtype)
    optimiser = LBFGS({"v": v}, line_search_fn="strong_wolfe")
    assert optimiser.state["changes"].dtype is ef.float32
    optimiser.step(lambda: ((v.astype(ef.float32) - 1) ** 2).sum())
    np.testing.assert_allclose(v.astype(ef.float32).numpy(), 1.0, atol=1e-5)


def test_a_start_at_the_minimum_stays() -> None:
    v = ef.Variable([0.0])
    optimiser = LBFGS([v])
    optimiser.step(lambda: (v * v).sum())
    assert int(optimiser.state["n_iter"]) == 0
    assert int(optimiser.state["func_evals"]) == 1


def test_the_rate_may_change_without_another_trace() -> None:
    v = ef.Variable([1.0, 2.0])
    optimiser = LBFGS([v], max_iter=1)
    step = ef.trace(lambda: optimiser.step(lambda: (v**2).sum()))
    step()
    for rate in (0.5, 0.25):
        optimiser.lr = rate
        step()
    assert len(step.traces) <= 2  # a float from outside is static at first


# --- state --------------------------------------------------------------------------------------


def test_a_checkpoint_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    problem = PROBLEMS[1]

    def make() -> tuple[list[ef.Variable], LBFGS, Callable[[], ef.Tensor]]:
        variables = [ef.Variable(v, dtype=ef.float64) for v in start(problem.name)]
        optimiser = LBFGS(variables, **problem.options)
        return variables, optimiser, lambda: loss(ef, problem.name, *(v.value for v in variables))

    variables, optimiser, closure = make()
    for _ in range(3):
        optimiser.step(closure)
    ef.checkpoint.save(tmp_path / "run", {"v": variables, "optimiser": optimiser})
    expected = [float(optimiser.step(closure)) for _ in range(3)]
    variables, optimiser, closure = make()
    ef.checkpoint.load(tmp_path / "run", like={"v": variables, "optimiser": optimiser})
    assert [float(optimiser.step(closure)) for _ in range(3)] == expected
    other = LBFGS(variables, **problem.options)
    other.load_state(optimiser.state)
    assert all((other.state[k].numpy() == v.numpy()).all() for k, v in optimiser.state.items())
    with pytest.raises(CheckpointError):
        other.load_state({"t": ef.tensor(0.0)})


def test_after_an_error_the_variables_are_what_they_were() -> None:
    v = ef.Variable([3.0, -4.0])
    optimiser = LBFGS([v], line_search_fn="strong_wolfe")
    calls = []

    def fails() -> ef.Tensor:
        calls.append(None)
        if len(calls) == 3:
            raise RuntimeError("no more")
        return (v**4).sum()

    with pytest.raises(RuntimeError, match="no more"):
        optimiser.step(fails)
    np.testing.assert_array_equal(v.numpy(), [3.0, -4.0])
    assert int(optimiser.state["n_iter"]) == 0
    for _ in range(3):
        optimiser.step(lambda: (v**4).sum())
    assert float(abs(v).max()) < 0.05


@pytest.mark.parametrize("at", [1, 2, 4, 7])
@pytest.mark.parametrize("way", ["eager", "traced", "in a branch", "in another trace"])
def test_wherever_it_fails(at: int, way: str) -> None:
    v = ef.Variable([3.0, -4.0])
    optimiser = LBFGS([v], line_search_fn="strong_wolfe")
    calls = []

    def ask() -> None:
        calls.append(None)
        if len(calls) == at:
            raise RuntimeError("no more")

    def quartic() -> ef.Tensor:
        ef.py_call(ask, None)
        return (v**4).sum()

    def step() -> ef.Tensor:
        return optimiser.step(quartic)

    run: Callable[[], Any] = step
    if way == "traced":
        run = ef.trace(step)
    elif way == "in a branch":
        run = ef.trace(lambda: ef.cond(v.sum() < 0, step, lambda: ef.tensor(0.0)))
    elif way == "in another trace":
        inner = ef.trace(step)
        run = ef.trace(lambda: inner() * 2)
    with pytest.raises(RuntimeError, match="no more"):
        run()
    np.testing.assert_array_equal(v.numpy(), [3.0, -4.0])
    assert (int(optimiser.state["n_iter"]), int(optimiser.state["kept"])) == (0, 0)
    for _ in range(3):
        run()
    assert float(abs(v).max()) < 0.05


def test_what_fails_before_and_after_undoes_nothing() -> None:
    v = ef.Variable([3.0, -4.0])
    optimiser = LBFGS([v])
    fails = ef.Variable(True)

    def stop() -> None:
        if bool(fails):
            raise RuntimeError("stop")

    @ef.trace
    def before() -> ef.Tensor:
        v.assign([2.0, 1.0])
        ef.py_call(stop, None)
        return optimiser.step(lambda: (v**4).sum())

    with pytest.raises(RuntimeError, check=says("stop")):
        before()
    np.testing.assert_array_equal(v.numpy(), [2.0, 1.0])

    @ef.trace
    def after() -> ef.Tensor:
        value = optimiser.step(lambda: (v**4).sum())
        ef.py_call(stop, None)
        return value

    with pytest.raises(RuntimeError, check=says("stop")):
        after()
    assert float(abs(v).max()) < 0.5
    assert int(optimiser.state["n_iter"]) > 0


def test_interrupted_between_ops() -> None:
    """Ctrl-C in the loss of a traced step, between two ops."""
    v = ef.Variable([3.0, -4.0])
    optimiser = LBFGS([v], line_search_fn="strong_wolfe")
    calls = []

    def interrupt() -> None:
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt

    def quartic() -> ef.Tensor:
        ef.py_call(interrupt, None)
        return (v**4).sum()

    step = ef.trace(lambda: optimiser.step(quartic))
    with pytest.raises(KeyboardInterrupt):
        step()
    np.testing.assert_array_equal(v.numpy(), [3.0, -4.0])


def test_an_optimiser_is_freed() -> None:
    v = ef.Variable([1.0])
    optimiser = LBFGS([v])
    optimiser.step(lambda: (v * v).sum())
    gone = weakref.ref(optimiser)
    del optimiser
    gc.collect()
    assert gone() is None


# --- errors -------------------------------------------------------------------------------------

WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no variables": (lambda: LBFGS([]), TensorValueError, "LBFGS: there are no variables"),
    "no variable": (lambda: LBFGS([ef.ones(2)]), TensorValueError, "LBFGS: 0 is not a variable"),
    "integers": (lambda: LBFGS([ef.Variable([1])]), DTypeError, "not of a floating dtype"),
    "complex": (lambda: LBFGS([ef.Variable([1j])]), DTypeError, "LBFGS: 0 is complex"),
    "rate": (lambda: LBFGS([ef.Variable(1.0)], lr=-1), TensorValueError, "lr"),
    "times": (
        lambda: LBFGS([ef.Variable(1.0)], max_iter=0), TensorValueError,
        r"max_iter is not a count\n  got: max_iter=0\n  expected: an integer from 1",
    ),
    "search": (
        lambda: LBFGS([ef.Variable(1.0)], line_search_fn="armijo"), TensorValueError,
        r"line_search_fn has no such value\n  got: line_search_fn='armijo'\n"
        r"  expected: None or 'strong_wolfe'",
    ),
    "vector": (
        lambda: LBFGS([v := ef.Variable([1.0, 2.0])]).step(lambda: v * 2), GradientError,
        "the result is not a scalar",
    ),
    "update": (
        lambda: LBFGS([ef.Variable(1.0)]).update([ef.ones(())]), AttributeError,
        r"optimiser.step\(loss_fn\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_errors(name: str) -> None:
    call, kind, text = WRONG[name]
    with pytest.raises(kind, check=says(text)):
        call()


def test_repr() -> None:
    assert repr(LBFGS([ef.Variable([1.0, 2.0])], lr=0.5)) == (
        "LBFGS(1 variables of 2 elements, lr=0.5, max_iter=20, max_eval=25, tolerance_grad=1e-07, "
        "tolerance_change=1e-09, history_size=100, line_search_fn=None)"
    )
