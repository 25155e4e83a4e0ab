"""PyTorch's results for a `Setting`: outputs, last states, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import (
    pack_padded_sequence,
    pad_packed_sequence,
)

from tests.nn.recurrent.settings import (
    HIDDEN,
    INPUTS,
    Setting,
    cotangent_of,
    input_of,
    starts_of,
    variable_of,
)

Arrays = dict[str, np.ndarray[Any, Any]]


def _call(setting: Setting, module: Any, x: Any, starts: list[Any]) -> dict[str, Any]:
    """Outputs and last state by name."""
    hx = None if not starts else tuple(starts) if len(starts) == 2 else starts[0]
    if setting.layer.endswith("Cell"):
        state = module(x, hx)
        return dict(zip("hc", state if isinstance(state, tuple) else (state,), strict=False))
    if setting.lengths is None:
        out, state = module(x, hx)
    else:
        first = module.batch_first
        packed = pack_padded_sequence(
            x, torch.tensor(setting.lengths), batch_first=first, enforce_sorted=False
        )
        out, state = module(packed, hx)
        steps = setting.shape[1 if first else 0]
        out, _ = pad_packed_sequence(out, batch_first=first, total_length=steps)
    state = state if isinstance(state, tuple) else (state,)
    return {"out": out, **dict(zip("hc", state, strict=False))}


def run(setting: Setting) -> Arrays:
    """Results by name, and gradients by ``d`` and the name of the variable."""
    module = getattr(torch.nn, setting.layer)(INPUTS, HIDDEN, **setting.options).double()
    parameters = dict(module.named_parameters())
    with torch.no_grad():
        for path, p in parameters.items():
            p.copy_(torch.from_numpy(variable_of(setting, path, tuple(p.shape))))
    x = torch.from_numpy(input_of(setting)).requires_grad_()
    starts = [torch.from_numpy(s).requires_grad_() for s in starts_of(setting)]
    starts = starts if setting.starts else []
    outputs = _call(setting, module, x, starts)
    parts = [
        (y * torch.from_numpy(cotangent_of(setting, name, tuple(y.shape)))).sum()
        for name, y in outputs.items()
    ]
    torch.stack(parts).sum().backward()
    named = {"x": x, **parameters, **{f"start {i}": s for i, s in enumerate(starts)}}
    gradients = {f"d {name}": p.grad.numpy() for name, p in named.items()}
    return {name: y.detach().numpy() for name, y in outputs.items()} | gradients
