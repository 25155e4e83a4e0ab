"""`safetensors.numpy.save_file` accepts tensors and the state of modules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import eagerflow as ef
from eagerflow import errors
from tests.messages import says


def test_what_is_saved_is_there(tmp_path: Path) -> None:
    saved = {
        "transposed": ef.arange(6, dtype=ef.float32).reshape(2, 3).T,
        "bfloat16": ef.ones(3, dtype=ef.bfloat16),
        "integers": ef.arange(4),
        "scalar": ef.tensor(True),
        **ef.nn.Linear(2, 3).state,
    }
    safetensors.numpy.save_file(saved, tmp_path / "x.safetensors")
    loaded = safetensors.numpy.load_file(tmp_path / "x.safetensors")
    assert loaded.keys() == saved.keys()
    for name, x in saved.items():
        np.testing.assert_array_equal(loaded[name], x.numpy())
    assert saved["transposed"].numpy().flags.c_contiguous


def test_elements_that_are_elsewhere() -> None:
    with pytest.raises(errors.DeviceError, check=says("not in the memory of the host")):
        _ = ef.ones(2, device="null:0").ctypes
