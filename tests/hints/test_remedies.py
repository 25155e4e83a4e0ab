"""Attributes and operators that Python refuses: the error gets a note with the remedy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.hints import remedies
from eagerflow.wrong_calls import add_remedy


class _Foreign:
    """A tensor of another framework, as far as operators of Python see one."""

    __array_ufunc__ = None

    def __dlpack__(self) -> Any:
        raise NotImplementedError


_Foreign.__name__ = "Tensor"
_Foreign.__module__ = "torch"


def _notes(error: BaseException) -> list[str]:
    add_remedy(error)
    add_remedy(error)
    return [note.removeprefix("  hint: ") for note in getattr(error, "__notes__", [])]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("sumn", "the nearest is sum(axis=None, dtype=None, *, out=None, keepdims=False)"),
        ("shpe", "the nearest is shape"),
        ("ptp", "ef.ptp(x, /, axis=None, *, keepdims=False)"),
        (
            "clamp_",
            "tensors are values: x = x.clip(low, high); of a variable, v.assign(v.clip(low, high))",
        ),
        ("exp_", "tensors are values: x = ef.exp(x); of a variable, v.assign(ef.exp(v))"),
        ("cauchy_", "tensors are values, take the result instead: y = f(x), or x[...] = f(x)"),
        (
            "slogdet_",
            "tensors are values: x = ef.linalg.slogdet(x); of a variable, "
            "v.assign(ef.linalg.slogdet(v))",
        ),
        ("put", "x[indices] = values"),
    ],
)
@pytest.mark.parametrize("array", [ef.ones(3), ef.Variable([1.0])], ids=["tensor", "variable"])
def test_an_attribute_that_a_tensor_has_not(array: Any, name: str, remedy: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(array, name)
    assert _notes(caught.value) == [remedy]


def test_an_attribute_of_other_objects() -> None:
    class Net(ef.nn.Module):
        def forward_all(self, x: Any) -> Any:
            return x

    for owner, name, remedy in (
        (Net(), "forwrd_all", "the nearest is forward_all(x)"),
        (ef.Queue(3, ef.tensor(0)), "dequeu", "the nearest is dequeue(*, timeout=None)"),
        (ef.distributions.Normal(0.0, 1.0), "varianc", "the nearest is variance"),
        (
            ef.random.default_generator,
            "state",
            "default_generator is a function: default_generator() gives the object, and "
            "default_generator().state this",
        ),
    ):
        with pytest.raises(AttributeError) as caught:
            getattr(owner, name)
        assert _notes(caught.value) == [remedy]


def test_nothing_is_said_of_other_attributes() -> None:
    for owner, name in ((np.ones(3), "sumn"), (ef.ones(3), "qwertz"), (ef.ones(3), "_sumn"),
                        (ef.stack, "state"), (_notes, "state")):  # fmt: skip
        with pytest.raises(AttributeError) as caught:
            getattr(owner, name)
        assert _notes(caught.value) == []
    own_words = AttributeError("there is none")
    assert _notes(own_words) == []


def test_tensors_of_two_frameworks() -> None:
    x, other = ef.ones(3), _Foreign()
    with pytest.raises(TypeError, match="'Tensor' and 'Tensor'") as caught:
        x + other  # type: ignore[operator]
    assert _notes(caught.value) == ["other, a torch.Tensor: ef.asarray(other)"]
    with pytest.raises(TypeError) as reflected:
        other @ x  # type: ignore[operator]
    assert _notes(reflected.value) == ["other, a torch.Tensor: ef.asarray(other)"]


def test_nothing_is_said_of_other_operands() -> None:
    x, text, other = ef.ones(3), "a", _Foreign()
    for wrong in (lambda: x + text, lambda: other + other, lambda: text - 1):  # type: ignore[operator]
        with pytest.raises(TypeError, match="unsupported operand") as caught:
            wrong()
        assert _notes(caught.value) == []


def test_what_a_manager_restores_is_none_at_first(tmp_path: Path) -> None:
    manager = ef.checkpoint.Manager(tmp_path)
    restored: Any = manager.restore()
    for use in (
        lambda: manager.restore({"epoch": 0})["epoch"],  # type: ignore[index]
        lambda: restored["epoch"],
    ):
        with pytest.raises(TypeError, match="not subscriptable") as caught:
            use()
        (note,) = _notes(caught.value)
        assert note.startswith("restore gives None while there is no checkpoint: ")
        assert note.endswith("if restored is not None: ... restored['epoch']")
    with pytest.raises(AttributeError) as missing:
        _ = restored.step
    assert _notes(missing.value)[0].endswith("restored.step")


def test_nothing_is_said_of_other_nones() -> None:
    values: dict[str, Any] = {}
    with pytest.raises(TypeError, match="not subscriptable") as caught:
        values.get("a")["b"]
    assert _notes(caught.value) == []


def test_python_shows_it() -> None:
    program = "import eagerflow as ef\nef.ones(3).sumn()\n"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "hint: the nearest is sum(axis=None" in shown.stderr


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        ("f.num_traces", "len(f.traces) is their number"),
        ("f.lower(x)", "f.graph(x) is the graph for such arguments"),
        ("f.benchmark(x)", "with ef.profile() as profile: f(x)"),
        ("f.qqq", "it has "),
        ("f.traces[0].qqq", "it has "),
        ("profile.qqq", "it has begin, end, events, "),
        ("ef.GradientTape().jacobian", "it has gradient, "),
    ],
)
def test_small_objects_list_what_they_have(code: str, remedy: str) -> None:
    f = ef.trace(lambda x: x * 2)
    f(ef.ones(2))
    with pytest.raises(AttributeError) as caught:
        eval(code, {"f": f, "x": ef.ones(2), "ef": ef, "profile": ef.profile()})
    assert (remedies.remedy(caught.value) or "").startswith(remedy)


def test_rows_of_a_profile_name_their_columns() -> None:
    with ef.profile() as profile:
        ef.ones(2) * 2
    op, line = profile.table()[0], profile.lines()[0]
    for row, name, hint in (
        (op, "count", "row.calls"), (op, "cpu_time_total", "row.total"), (op, "op", "row.name"),
        (op, "bytes", "row.nbytes"),
        (line, "code", "row.text"), (line, "seconds", "row.total"), (line, "source", "row.file"),
    ):  # fmt: skip
        with pytest.raises(ef.errors.UnknownNameError) as caught:
            getattr(row, name)
        assert (caught.value.hint or "").startswith(hint)
        assert hasattr(row, hint.removeprefix("row."))
    with pytest.raises(ef.errors.UnknownNameError, match=r"row\.largest of one call at most"):
        op.peak


@pytest.mark.parametrize("read", [lambda data: data[0], next], ids=["index", "next"])
def test_a_dataset_is_no_sequence(read: Any) -> None:
    data = ef.data.Dataset.from_tensors(ef.arange(3))
    with pytest.raises(TypeError) as caught:
        read(data)
    assert "next(iter(data))" in (remedies.remedy(caught.value) or "")
    assert (next(iter(data)).item(), len(list(data))) == (0, 3)


@pytest.mark.parametrize("read", [lambda queue: queue[0], next], ids=["index", "next"])
def test_a_queue_is_no_sequence(read: Any) -> None:
    queue = ef.Queue(2, ef.tensor(0))
    with pytest.raises(TypeError) as caught:
        read(queue)
    assert "queue.dequeue() takes the next" in (remedies.remedy(caught.value) or "")


def test_a_dict_of_gradients_is_no_array() -> None:
    net = ef.nn.Linear(2, 1)
    grads = ef.grad(lambda: net(ef.ones((1, 2))).sum(), wrt=net.trainable)()
    with pytest.raises(ef.errors.DTypeError) as caught:
        ef.linalg.norm(grads)
    assert "ef.optim.global_norm(grads)" in (caught.value.hint or "")
    assert ef.optim.global_norm(grads).item() > 0
