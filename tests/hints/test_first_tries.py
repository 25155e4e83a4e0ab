"""First attempts of newcomers: the error or the warning says what to write instead."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core.op import get_op
from eagerflow.errors import (
    CheckpointError,
    DeviceError,
    DTypeError,
    TensorValueError,
    UnknownNameError,
    VariableError,
)
from eagerflow.wrong_calls import add_remedy
from tests.messages import says


def _three(x: Any) -> Any:
    return x * 3


def _sum(x: Any, y: Any) -> Any:
    return x + y


X = ef.ones((2, 3))
RECURRENT = ef.nn.GRU(3, 4)
OP = get_op("exp")


@pytest.mark.parametrize(
    ("function", "args", "written"),
    [
        (np.sin, (X,), r"py_call\(sin, out_types, x\)"),
        (_three, (X,), r"py_call\(_three, out_types, x\)"),
        (_sum, (X, X), r"py_call\(_sum, out_types, x, ...\)"),
    ],
)
def test_py_call_without_types(function: Any, args: tuple[Any, ...], written: str) -> None:
    with pytest.raises(TensorValueError, check=says(written)):
        ef.py_call(function, *args)


_PASTED = """
import eagerflow as ef
x = ef.tensor([1.0, 2.0])
{}
assert y.tolist() == [2.0, 16.0]
assert ef.grad(lambda x: ef.trace(lambda x: bind(cube, x, k=2.0))(x).sum())(x).tolist() == [6, 24]
"""


def test_the_hint_at_ops_of_ones_own_can_be_pasted() -> None:
    with pytest.raises(UnknownNameError) as caught:
        ef.library.custom_op("mine::cube")
    first, *lines, last = str(caught.value.hint).splitlines()
    assert "docs/extending.md" in first
    assert "ef.custom_vjp" in last
    program = _PASTED.format(textwrap.dedent("\n".join(lines)))
    subprocess.run([sys.executable, "-c", program], check=True)


def test_py_call_whose_types_are_a_tensor() -> None:
    assert ef.py_call(_three, X, X).numpy().tolist() == [[3.0] * 3] * 2
    assert ef.py_call(lambda: X, X).shape == (2, 3)


def test_checkpoint_in_the_wrong_order(tmp_path: Any) -> None:
    with pytest.raises(CheckpointError, check=says(r"save\(path, tree\)")):
        ef.checkpoint.save({"x": X}, str(tmp_path / "c"))  # type: ignore[arg-type] - is refused
    assert not list(tmp_path.iterdir())


def test_the_value_of_a_variable_is_assigned() -> None:
    v = ef.Variable([1.0])
    with pytest.raises(VariableError, check=says(r"hint: v.assign\(x\)")):
        v.value = ef.ones(1)  # type: ignore[assignment] - is refused
    assert v.numpy() == [1.0]


NAMES: list[tuple[Callable[[], Any], str]] = [
    (lambda: ef.autograd, "ef.custom_vjp"),
    (lambda: ef.random.manual_seed, r"ef.random.seed\(number\)"),
    (lambda: ef.nn.init.xavier_uniform_, r"v.assign\(ef.nn.init.xavier_uniform\(v.shape\)\)"),
    (lambda: ef.nn.functional.gumbel_softmax, "ef.random.gumbel"),
    (lambda: ef.distributions.kl_divergence, "ef.distributions.kl"),
    (lambda: ef.nn.Sequential().append, "ef.nn.Sequential"),
    (lambda: ef.nn.Linear(2, 3).half, "dtype="),
    (lambda: X.nelement, "x.size"),
    (lambda: ef.nn.Transformer, "ef.nn.TransformerEncoder"),
    (lambda: ef.optim.AveragedModel, "ef.optim.ExponentialMovingAverage"),
    (lambda: ef.optim.SGD([ef.Variable([1.0])], lr=0.1).param_groups, "optimiser.lr"),
    (lambda: ef.optim.CosineSchedule(0.1, steps=9).step, "the optimiser counts its updates"),
    (lambda: ef.optim.StepSchedule(0.1, 9).get_last_lr, r"schedule\(n\)"),
    (lambda: ef.optim.cosine_decay, r"lr=ef.optim.CosineSchedule\(0.1, steps=100\)"),
    (lambda: ef.optim.LinearLR, r"lr=ef.optim.PolynomialSchedule\(0.01, steps=100, final=0.1\)"),
    (lambda: ef.optim.ConstantLR, r"ef.optim.ChainedSchedule\(\[0.01, 0.1\], milestones=\(10,\)\)"),
    (lambda: ef.optim.CyclicLR, "a function of the number of updates"),
    (
        lambda: ef.optim.CosineAnnealingWarmRestarts,
        r"ef.optim.CosineSchedule\(0.1, steps=10\)\] \* 3",
    ),
    (lambda: ef.optim.piecewise_constant_schedule, r"lr=ef.optim.MultiStepSchedule"),
    (lambda: ef.optim.clip_grad_norm, r"ef.optim.clip_by_global_norm\(grads, max_norm\)"),
    (lambda: ef.optim.clip_grad_value_, "ef.optim.clip_by_value"),
    (lambda: ef.random.multinomial, r"ef.random.categorical\(\(\), logits\)"),
    (lambda: ef.random.randn, r"ef.random.normal\(\(2, 3\)\)"),
    (lambda: ef.TensorType, r"kind.like\(shape="),
    (lambda: ef.nn.CrossEntropyLoss, r"ef.nn.functional.cross_entropy$"),
    (lambda: ef.nn.ReLU, "functional.relu; Sequential takes functions"),
    (lambda: ef.nn.BatchNorm2d, r"ef.nn.BatchNorm\(channels\)"),
    (lambda: ef.from_numpy, r"ef.asarray\(array\) shares"),
]


@pytest.mark.parametrize(("look", "hint"), NAMES)
def test_names(look: Callable[[], Any], hint: str) -> None:
    with pytest.raises(UnknownNameError, check=says(hint)):
        look()


def test_groups_of_parameters() -> None:
    net = ef.nn.Linear(2, 3)
    for groups in ([{"params": net.trainable, "lr": 0.1}], {"params": net.trainable, "lr": 0.1}):
        with pytest.raises(TensorValueError, check=says("there are no groups.*lr_scale=")):
            ef.optim.Adam(groups)


def test_a_schedule_of_an_optimiser() -> None:
    optimiser = ef.optim.SGD([ef.Variable([1.0])], lr=0.1)
    hint = r"ef.optim.SGD\(net.trainable, lr=ef.optim.StepSchedule\(0.1, ...\)\)"
    with pytest.raises(TensorValueError, check=says(hint)):
        ef.optim.StepSchedule(optimiser, 30)  # type: ignore[arg-type] - is refused


def test_keepdims_by_position() -> None:
    for call in (lambda: X.sum(1, True), lambda: ef.mean(X, 1, True)):  # type: ignore[arg-type] - is refused
        with pytest.raises(DTypeError, check=says("keepdims= is given by name")):
            call()


def test_transposing_into_the_order_that_is_there() -> None:
    with pytest.warns(UserWarning, match="x.swapaxes"):
        assert X.transpose(0, 1).shape == (2, 3)
    assert X.transpose((0, 1)).shape == (2, 3)
    assert X.transpose(1, 0).shape == (3, 2)
    assert ef.ones((2, 3, 4)).transpose(0, 2, 1).shape == (2, 4, 3)


CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: ef.zeros(*(2, 3, 4)), "the shape is one tuple"),
    (lambda: ef.random.bits(2, 3), "the shape is one tuple"),  # type: ignore[misc] - is refused
    (lambda: X.repeat(2, 1, 1), r"ef.tile\(x, \(2, 1\)\)"),  # type: ignore[call-arg] - is refused
    (lambda: ef.where(X > 0), "ef.nonzero"),  # type: ignore[call-arg] - is refused
    (lambda: ef.Tensor([1, 2]), "ef.tensor"),  # type: ignore[call-arg] - is refused
    (lambda: X.max(1, True), "keepdims= is given by name"),  # type: ignore[call-arg] - is refused
    (lambda: ef.min(X, 1, True), "keepdims= is given by name"),  # type: ignore[call-arg] - is refused
    (lambda: OP(X), r"bind\(OP, x, axis=0\) applies an op"),  # type: ignore[operator] - is refused
    (lambda: ef.triu(X, diagonal=1), "use k= instead of diagonal="),  # type: ignore[call-arg] - is refused
    (
        lambda: ef.nn.LSTM(3, 4)(X, mask=X),
        r"use lengths= .*: lengths=mask.sum\(axis=1\) for a mask",
    ),  # type: ignore[call-arg] - is refused
    (lambda: RECURRENT(X, seq_lens=[2]), r"use lengths= .*: layer\(x, hx=None, \*, lengths="),  # type: ignore[call-arg] - is refused
    (lambda: ef.nn.LSTM(3, 4, mask=X), "lengths= is given where the layer is called: lengths=mask"),  # type: ignore[call-arg] - is refused
    (lambda: ef.nn.RNN(3, 4, lengths=[2]), r"where the layer is called: layer\(x, hx=None"),  # type: ignore[call-arg] - is refused
    (lambda: ef.nn.TransformerEncoderLayer(4, 2)(X, src_mask=X), "mask= stands for src_mask="),  # type: ignore[call-arg] - is refused
]


@pytest.mark.parametrize(("call", "hint"), CALLS)
def test_arguments(call: Callable[[], Any], hint: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    add_remedy(caught.value)
    assert re.search(hint, "\n".join(caught.value.__notes__))


def test_lengths_from_a_mask() -> None:
    layer, x = ef.nn.LSTM(3, 4, batch_first=True), ef.ones((2, 5, 3))
    mask = ef.tensor([[True] * 5, [True, True, False, False, False]])
    out, _ = layer(x, lengths=mask.sum(axis=1))
    assert (out != 0).any(-1).tolist() == mask.tolist()


def test_a_dtype_is_no_device() -> None:
    with pytest.raises(DeviceError, check=says(r"x.astype\(dtype\)")):
        X.to(ef.float64)  # type: ignore[arg-type] - is refused
