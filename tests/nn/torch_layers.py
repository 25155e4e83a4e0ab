"""PyTorch's results for a `Setting`: outputs, gradients, buffers afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tests.nn.settings import Setting, cotangent_of, inputs_of, mask_of, state_of

Arrays = dict[str, np.ndarray[Any, Any]]


def _module(setting: Setting) -> Any:
    name = {"MultiHeadAttention": "MultiheadAttention"}.get(setting.layer, setting.layer)
    if name == "BatchNorm":
        name = "BatchNorm2d" if len(setting.shapes[0]) == 4 else "BatchNorm1d"
    options = dict(setting.options)
    if name == "MultiheadAttention":
        options["batch_first"] = True
    module = getattr(torch.nn, name)(*setting.args, **options).double()
    return module.train(setting.training)


_PARTS = ("query", "key", "value")


def _names(module: Any) -> dict[str, Any]:
    """PyTorch's parameters and buffers by eagerflow's paths; packed ones as slices."""
    entries: dict[str, Any] = {}
    packed = ()
    for path, part in module.named_modules():
        start = f"{path}." if path else ""
        if isinstance(part, torch.nn.MultiheadAttention):
            entries |= {f"{start}{name}": entry for name, entry in _attention_names(part).items()}
            packed = (*packed, start)
        elif not any(path.startswith(other) for other in packed):
            own = [*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)]
            entries |= {f"{start}{name}": value for name, value in own}
    return entries


def _attention_names(module: Any) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for i, part in enumerate(_PARTS):
        if module.in_proj_weight is not None:
            entries[f"{part}.weight"] = (module.in_proj_weight, i)
        else:
            entries[f"{part}.weight"] = getattr(module, f"{part[0]}_proj_weight")
        if module.in_proj_bias is not None:
            entries[f"{part}.bias"] = (module.in_proj_bias, i)
    entries["output.weight"] = module.out_proj.weight
    if module.out_proj.bias is not None:
        entries["output.bias"] = module.out_proj.bias
    return entries


def _value(entry: Any, gradient: bool = False) -> Any:
    tensor, part = entry if isinstance(entry, tuple) else (entry, None)
    tensor = tensor.grad if gradient else tensor.detach()
    return tensor if part is None or tensor is None else tensor.chunk(3)[part]


def _call(setting: Setting, module: Any, inputs: list[Any]) -> Any:
    if setting.layer.startswith("Transformer"):
        return module(*inputs, **_transformer_options(setting))
    if setting.layer != "MultiHeadAttention":
        return module(*inputs)
    query, key, value = inputs * 3 if len(inputs) == 1 else inputs
    options: dict[str, Any] = {"need_weights": False}
    mask = mask_of(setting)
    if setting.mask == "padding":
        options["key_padding_mask"] = torch.from_numpy(~mask)
    elif setting.mask == "causal":
        size = query.shape[1]
        options["attn_mask"] = torch.ones(size, size, dtype=torch.bool).triu(1)
    elif mask is not None:  # True means hidden in PyTorch's boolean masks
        options["attn_mask"] = torch.from_numpy(~mask if mask.dtype == bool else mask)
    return module(query, key, value, **options)[0]


def _transformer_options(setting: Setting) -> dict[str, Any]:
    """The masks of a call. A padding mask is that of the memory, if there is a memory."""
    mask = mask_of(setting) if setting.mask not in (None, "causal") else None
    own = "tgt" if "Decoder" in setting.layer else "src"
    if setting.mask == "padding":
        of = "memory" if own == "tgt" else own
        return {f"{of}_key_padding_mask": torch.from_numpy(~mask)}
    if setting.mask == "causal":
        size = setting.shapes[0][1]
        return {f"{own}_mask": torch.ones(size, size, dtype=torch.bool).triu(1)}
    return {} if mask is None else {f"{own}_mask": torch.from_numpy(mask)}


def run(setting: Setting) -> Arrays:
    """Results by name: ``out``, ``input 0``, the paths of parameters, ``after`` and a buffer."""
    module = _module(setting)
    entries = _names(module)
    state = state_of(setting, {k: tuple(_value(v).shape) for k, v in entries.items()})
    with torch.no_grad():
        for path, entry in entries.items():
            _value(entry).copy_(torch.from_numpy(state[path]))
    inputs = [torch.from_numpy(x) for x in inputs_of(setting)]
    floating = [x.requires_grad_() for x in inputs if x.is_floating_point()]
    out = _call(setting, module, inputs)
    (out * torch.from_numpy(cotangent_of(setting, tuple(out.shape)))).sum().backward()
    arrays: Arrays = {"out": out.detach().numpy()}
    arrays |= {f"input {i}": x.grad.numpy() for i, x in enumerate(floating)}
    parameters = {id(p) for p in module.parameters()}
    for path, entry in entries.items():
        tensor = entry[0] if isinstance(entry, tuple) else entry
        if id(tensor) not in parameters:
            arrays[f"after {path}"] = tensor.numpy()
        elif _value(entry, gradient=True) is not None:
            arrays[path] = _value(entry, gradient=True).numpy()
    return arrays
