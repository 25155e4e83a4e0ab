"""PyTorch's results for a `Setting`: output, gradients, variables afterwards."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

from tests.nn.functional.settings import Setting, cotangent_of

Arrays = dict[str, np.ndarray[Any, Any]]
_NAMES = {"axis": "dim", "keepdims": "keepdim"}


def _tensor(x: Any) -> Any:
    return torch.tensor(x) if isinstance(x, (np.ndarray, np.generic)) else x


def run(setting: Setting) -> Arrays:
    args = [_tensor(x) for x in setting.args]
    for i in setting.differentiable:
        args[i].requires_grad_()
    options = {_NAMES.get(k, k): _tensor(v) for k, v in setting.options.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = getattr(torch.nn.functional, setting.function)(*args, **options)
    arrays = {"out": out.detach().numpy()}
    if out.dtype.is_floating_point:
        (out * torch.tensor(cotangent_of(setting, tuple(out.shape)))).sum().backward()
    for i in setting.differentiable:
        gradient = torch.zeros_like(args[i]) if args[i].grad is None else args[i].grad
        arrays[f"gradient {i}"] = gradient.numpy()
    return arrays | {f"after {i}": args[i].numpy() for i in setting.running}
