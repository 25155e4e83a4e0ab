"""Plain einops with tensors, whichever is imported first."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import einops
import numpy as np
import pytest

import eagerflow as ef
from eagerflow import einops_backend

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "act",
    [
        lambda x: einops.rearrange(x, "a b c -> (a b) c"),
        lambda x: einops.rearrange(x, "a (b1 b2) c -> b2 (a c) b1", b1=1),
        lambda x: einops.rearrange([x, x], "n a b c -> a (n b) c"),
        lambda x: einops.repeat(x, "a b c -> a (b 2) n c", n=3),
        *(lambda x, r=r: einops.reduce(x, "a b c -> a () c", r)
          for r in ("mean", "sum", "max", "min", "prod")),
        lambda x: einops.einsum(x, x, "a b c, a d c -> b d"),
        lambda x: einops.pack([x, x], "a * c")[0],
    ],
)  # fmt: skip
def test_it_does_what_it_does_with_numpy(act: Any) -> None:
    want = act(X)
    for run in (act, ef.trace(act)):
        got = run(ef.asarray(X))
        assert type(got) is ef.Tensor
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_gradients_rows_and_variables() -> None:
    def half(x: Any) -> Any:
        return einops.reduce(x, "(n two) -> n", "max", two=2).sum()

    x = ef.tensor([1.0, 2.0, 4.0, 3.0])
    assert ef.grad(half)(x).tolist() == [0.0, 1.0, 1.0, 0.0]
    assert ef.vmap(half)(ef.stack([x, x + 1])).tolist() == [6.0, 8.0]
    assert einops.rearrange(ef.Variable([[1.0, 2.0]]), "a b -> b a").shape == (2, 1)


@pytest.mark.parametrize("imports", ["eagerflow, einops", "einops, eagerflow"])
def test_in_either_order(imports: str) -> None:
    program = (
        f"import {imports}, sys\n"
        "shape = einops.rearrange(eagerflow.ones((2, 3)), 'a b -> b a').shape\n"
        "assert shape == (3, 2)\n"
        "assert not any('einops' in type(f).__module__ for f in sys.meta_path)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_it_is_not_imported_for_that() -> None:
    program = "import eagerflow, sys; assert 'einops' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_another_einops_breaks_no_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.delitem(sys.modules, "einops._backends")
    monkeypatch.setitem(sys.modules, "einops", ModuleType("einops"))  # a stand-in has no spec
    einops_backend.register()
    monkeypatch.setitem(sys.modules, "einops._backends", ModuleType("einops._backends"))
    einops_backend.register()
