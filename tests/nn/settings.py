"""A table of layers with their settings, and the numbers that they are compared on.

`record_layers.py` runs it with PyTorch, `test_recorded.py` with eagerflow. Inputs, variables and
cotangents are made by integer arithmetic, so that nothing but results needs to be recorded.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Shape = tuple[int, ...]
TARGET = Path(__file__).parent / "data" / "layers.npz"


@dataclass(frozen=True)
class Setting:
    """A layer with the arguments of one call."""

    name: str
    layer: str
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    shapes: Sequence[Shape] = ()
    training: bool = True
    mask: str | None = None
    indices: int | None = None  # inputs are integers below this

    def __str__(self) -> str:
        return self.name


def numbers(name: str, shape: Shape) -> np.ndarray[Any, Any]:
    """Numbers between -1 and 1, derived from a name; exactly the same on every machine."""
    i = np.arange(int(np.prod(shape)), dtype=np.int64) + zlib.crc32(name.encode()) % 9973
    return (((i * i * 31 + i * 7919) % 10007) / 5003.0 - 1.0).reshape(shape)


def inputs_of(setting: Setting) -> list[np.ndarray[Any, Any]]:
    inputs = [numbers(f"{setting.name} {i}", shape) for i, shape in enumerate(setting.shapes)]
    if setting.indices is None:
        return inputs
    return [np.floor((x + 1) / 2.001 * setting.indices).astype(np.int64) for x in inputs]


def state_of(setting: Setting, shapes: dict[str, Shape]) -> dict[str, np.ndarray[Any, Any]]:
    """Values for the variables: running variances are positive, and counters start at 0."""
    state = {}
    for path, shape in shapes.items():
        x = numbers(f"{setting.name} {path}", shape)
        state[path] = x + 1.5 if path == "running_var" else x
        if path == "num_batches_tracked":
            state[path] = np.zeros(shape, np.int64)
    return state


def cotangent_of(setting: Setting, shape: Shape) -> np.ndarray[Any, Any]:
    return numbers(f"{setting.name} cotangent", shape)


def mask_of(setting: Setting) -> np.ndarray[Any, Any] | None:
    """A mask that is True where a query sees a key, or is added to scores; no query is blind."""
    (batch, queries, _), keys = setting.shapes[0], setting.shapes[-1][1]
    if setting.mask == "bool":
        x = numbers(setting.name, (queries, keys)) > 0
        return x | (np.arange(keys) == 0)
    if setting.mask == "float":
        return numbers(setting.name, (queries, keys))
    if setting.mask == "padding":
        return np.arange(keys) < 1 + np.arange(batch)[:, None] % keys
    return None


def pack(arrays: dict[str, np.ndarray[Any, Any]], target: Path = TARGET) -> None:
    """Write named arrays as one, with an index: a file of many small ones is mostly headers."""
    index = json.dumps({name: x.shape for name, x in arrays.items()}).encode()
    values = [np.asarray(x, np.float64).reshape(-1) for x in arrays.values()]
    np.savez_compressed(target, index=np.frombuffer(index, np.uint8), values=np.concatenate(values))


def unpack(source: Path = TARGET) -> dict[str, np.ndarray[Any, Any]]:
    """The named arrays in a file that `pack` wrote."""
    arrays, start = {}, 0
    with np.load(source) as file:
        index, values = json.loads(file["index"].tobytes()), file["values"]
    for name, shape in index.items():
        end = start + int(np.prod(shape))
        arrays[name] = values[start:end].reshape(shape)
        start = end
    return arrays


def rows() -> list[Setting]:
    return [
        *_linear(), *_convolutions(), *_transposed(), *_pools(), *_norms(), *_rest(),
        *_transformers(),
    ]  # fmt: skip


def _linear() -> list[Setting]:
    return [
        Setting("linear", "Linear", (5, 3), shapes=[(4, 5)]),
        Setting("linear without bias", "Linear", (5, 3), {"bias": False}, [(2, 4, 5)]),
        Setting("linear of a vector", "Linear", (5, 3), shapes=[(5,)]),
        Setting("linear of an empty batch", "Linear", (5, 3), shapes=[(0, 5)]),
    ]


def _convolutions() -> list[Setting]:
    def conv1(name: str, shape: Shape = (2, 4, 11), **options: Any) -> Setting:
        size = options.pop("kernel_size", 3)
        return Setting(f"conv1d {name}", "Conv1d", (4, 6, size), options, [shape])

    def conv2(name: str, shape: Shape = (2, 4, 7, 6), **options: Any) -> Setting:
        size = options.pop("kernel_size", 3)
        return Setting(f"conv2d {name}", "Conv2d", (4, 6, size), options, [shape])

    return [
        conv1("plain"),
        conv1("without batch", (4, 9)),
        conv1("stride, padding", stride=2, padding=2),
        conv1("dilation, groups", dilation=3, groups=2),
        conv1("same, even kernel", kernel_size=4, padding="same"),
        conv1("same, even kernel, dilation", kernel_size=2, padding="same", dilation=3),
        conv1("empty batch", (0, 4, 9)),
        conv2("plain"),
        conv2("without batch", (4, 7, 6)),
        conv2("without bias", bias=False),
        conv2("stride, padding", stride=(2, 3), padding=(1, 2)),
        conv2("dilation, groups", dilation=(2, 1), groups=2),
        conv2("all together", kernel_size=(3, 2), stride=2, padding=(2, 1), dilation=2, groups=2),
        conv2("same", padding="same"),
        conv2("same, even kernel", kernel_size=(4, 2), padding="same"),
        conv2("same, even kernel, dilation", kernel_size=2, padding="same", dilation=3),
        conv2("valid", padding="valid", kernel_size=(1, 5)),
        conv2("kernel of 1", kernel_size=1, stride=2),
        conv2("batch of 1", (1, 4, 5, 5)),
        conv2("empty batch", (0, 4, 5, 5)),
        Setting("conv2d depthwise", "Conv2d", (4, 8, 3), {"groups": 4, "padding": 1},
                [(2, 4, 5, 5)]),
        Setting("conv3d plain", "Conv3d", (2, 4, 2), shapes=[(2, 2, 3, 4, 3)]),
        Setting("conv3d all together", "Conv3d", (4, 2, (2, 3, 1)),
                {"stride": (1, 2, 2), "padding": (1, 2, 0), "dilation": (2, 1, 1), "groups": 2},
                [(1, 4, 4, 4, 3)]),
        Setting("conv3d same, without batch", "Conv3d", (2, 3, 3), {"padding": "same"},
                [(2, 3, 2, 4)]),
    ]  # fmt: skip


def _transposed() -> list[Setting]:
    def row(name: str, layer: str, shape: Shape, **options: Any) -> Setting:
        size = options.pop("kernel_size", 3)
        return Setting(f"{layer} {name}", layer, (4, 6, size), options, [shape])

    one, two = "ConvTranspose1d", "ConvTranspose2d"
    return [
        row("plain", one, (2, 4, 5)),
        row("all together", one, (2, 4, 5), stride=3, padding=2, output_padding=2, dilation=2,
            groups=2),
        row("plain", two, (2, 4, 4, 3)),
        row("doubles", two, (2, 4, 4, 3), kernel_size=4, stride=2, padding=1),
        row("output padding", two, (2, 4, 3, 3), stride=2, padding=1, output_padding=1),
        row("all together", two, (2, 4, 3, 4), kernel_size=(3, 2), stride=(3, 2), padding=(2, 0),
            output_padding=(2, 1), dilation=(2, 3), groups=2),
        row("all together", "ConvTranspose3d", (1, 4, 2, 3, 2), kernel_size=(2, 3, 2),
            stride=(2, 1, 2), padding=(0, 1, 1), output_padding=(1, 0, 1), groups=2),
        row("without batch or bias", two, (4, 3, 3), bias=False),
        row("empty batch", two, (0, 4, 3, 3)),
    ]  # fmt: skip


def _pools() -> list[Setting]:
    def row(name: str, layer: str, size: Any, shape: Shape, **options: Any) -> Setting:
        return Setting(f"{layer} {name}", layer, (size,), options, [shape])

    return [
        row("plain", "MaxPool1d", 2, (2, 3, 7)),
        row("ceil mode", "MaxPool1d", 3, (2, 3, 8), stride=2, padding=1, ceil_mode=True),
        row("plain", "MaxPool2d", 2, (2, 3, 6, 5)),
        row("overlapping, padding", "MaxPool2d", 3, (2, 3, 7, 6), stride=2, padding=1),
        row("dilation", "MaxPool2d", (2, 3), (2, 3, 7, 8), stride=1, dilation=2),
        row("ceil mode", "MaxPool2d", 3, (2, 3, 6, 8), stride=2, ceil_mode=True),
        row("ceil mode, padding", "MaxPool2d", 2, (2, 3, 5, 5), stride=3, padding=1,
            ceil_mode=True),
        row("without batch", "MaxPool2d", 2, (3, 5, 5)),
        row("empty batch", "MaxPool2d", 2, (0, 3, 4, 4)),
        row("ceil mode, padding", "MaxPool3d", (2, 3, 2), (1, 2, 3, 5, 4), stride=2, padding=1,
            ceil_mode=True),
        row("plain", "AvgPool1d", 3, (2, 3, 8)),
        row("ceil mode", "AvgPool1d", 3, (2, 3, 8), stride=2, padding=1, ceil_mode=True),
        row("plain", "AvgPool2d", 2, (2, 3, 6, 5)),
        row("padding counts", "AvgPool2d", 3, (2, 3, 7, 6), stride=2, padding=1),
        row("padding does not count", "AvgPool2d", 3, (2, 3, 7, 6), stride=2, padding=1,
            count_include_pad=False),
        row("ceil mode", "AvgPool2d", 3, (2, 3, 6, 8), stride=2, ceil_mode=True),
        row("ceil mode, padding", "AvgPool2d", (3, 2), (2, 3, 6, 7), stride=2, padding=1,
            ceil_mode=True),
        row("divisor", "AvgPool2d", 2, (2, 3, 4, 4), divisor_override=3),
        row("empty batch", "AvgPool2d", 2, (0, 3, 4, 4)),
        row("to one", "AdaptiveAvgPool2d", 1, (2, 3, 5, 4)),
        row("uneven", "AdaptiveAvgPool2d", (3, 2), (2, 3, 7, 5)),
        row("one axis", "AdaptiveAvgPool2d", (None, 2), (2, 3, 4, 5)),
        row("enlarging", "AdaptiveAvgPool2d", 5, (1, 2, 3, 4)),
        row("padding does not count", "AvgPool3d", 2, (1, 2, 3, 4, 5), padding=1,
            count_include_pad=False),
        row("uneven", "AdaptiveAvgPool1d", 3, (2, 3, 7)),
        row("uneven", "AdaptiveAvgPool3d", (2, None, 3), (1, 2, 3, 2, 4)),
        row("uneven", "AdaptiveMaxPool1d", 3, (2, 3, 7)),
        row("uneven", "AdaptiveMaxPool2d", (3, 2), (2, 3, 7, 5)),
        row("uneven", "AdaptiveMaxPool3d", (2, None, 3), (1, 2, 3, 2, 4)),
    ]  # fmt: skip


def _norms() -> list[Setting]:
    def batch(name: str, shape: Shape, training: bool = True, **options: Any) -> Setting:
        return Setting(f"batch norm {name}", "BatchNorm", (3,), options, [shape], training)

    return [
        batch("of vectors", (5, 3)),
        batch("of sequences", (4, 3, 5)),
        batch("of images", (2, 3, 4, 5)),
        batch("eval", (2, 3, 4, 5), False),
        batch("eval, batch of 1 vector", (1, 3), False),
        batch("batch of 1 image", (1, 3, 4, 4)),
        batch("empty batch", (0, 3, 4, 4)),
        batch("empty batch of vectors", (0, 3)),
        batch("empty images", (2, 3, 0, 4), momentum=None),
        batch("empty batch, eval", (0, 3, 4, 4), False),
        batch("options", (4, 3, 2, 2), eps=0.1, momentum=0.3, affine=False),
        batch("mean of batches", (4, 3, 2, 2), momentum=None),
        batch("without running statistics", (4, 3, 2), False, track_running_stats=False),
        Setting("layer norm", "LayerNorm", (6,), shapes=[(4, 6)]),
        Setting("layer norm over two axes", "LayerNorm", ((3, 4),), {"eps": 0.1}, [(2, 5, 3, 4)]),
        Setting("layer norm without bias", "LayerNorm", (6,), {"bias": False}, [(2, 3, 6)]),
        Setting("layer norm plain", "LayerNorm", (6,), {"elementwise_affine": False}, [(4, 6)]),
        Setting("layer norm of an empty batch", "LayerNorm", (6,), shapes=[(0, 6)]),
        Setting("rms norm", "RMSNorm", (6,), {"eps": 1e-3}, [(4, 6)]),
        Setting("rms norm over two axes", "RMSNorm", ((3, 4),), {"eps": 1e-6}, [(2, 3, 4)]),
        Setting("group norm", "GroupNorm", (2, 6), shapes=[(3, 6, 4, 5)]),
        Setting("group norm of vectors", "GroupNorm", (3, 6), {"eps": 0.1}, [(4, 6)]),
        Setting("instance norm", "GroupNorm", (6, 6), {"affine": False}, [(2, 6, 5)]),
        Setting("group norm of a batch of 1", "GroupNorm", (1, 4), shapes=[(1, 4, 3, 3)]),
    ]


def _rest() -> list[Setting]:
    def attend(
        name: str, shapes: Sequence[Shape], mask: str | None = None, **options: Any
    ) -> Setting:
        return Setting(
            f"attention {name}", "MultiHeadAttention", (8, 2), options, shapes, mask=mask
        )

    cross = [(2, 3, 8), (2, 5, 8), (2, 5, 8)]
    return [
        Setting("embedding", "Embedding", (7, 4), shapes=[(3, 5)], indices=7),
        Setting("embedding padding", "Embedding", (7, 4), {"padding_idx": 2}, [(6, 5)], indices=7),
        Setting("embedding padding from the end", "Embedding", (7, 4), {"padding_idx": -1},
                [(6, 5)], indices=7),
        Setting("embedding of nothing", "Embedding", (7, 4), shapes=[(0,)], indices=7),
        Setting("flatten", "Flatten", (), shapes=[(2, 3, 4)]),
        Setting("flatten some", "Flatten", (1, 2), shapes=[(2, 3, 4, 5)]),
        attend("to itself", [(2, 4, 8)]),
        attend("across", cross),
        attend("without bias", [(2, 4, 8)], bias=False),
        attend("of other sizes", [(2, 3, 8), (2, 5, 6), (2, 5, 7)], kdim=6, vdim=7),
        attend("boolean mask", cross, "bool"),
        attend("float mask", cross, "float"),
        attend("padding mask", cross, "padding"),
        attend("causal", [(2, 5, 8)], "causal"),
    ]  # fmt: skip


def _transformers() -> list[Setting]:
    """Rows with PyTorch's argument names; dropout is off, as draws differ."""

    def layer(
        name: str, kind: str, shapes: Sequence[Shape], mask: str | None = None, **options: Any
    ) -> Setting:
        settings = {"dropout": 0.0, "batch_first": True, **options}
        return Setting(f"{kind} {name}", kind, (8, 2, 12), settings, shapes, mask=mask)

    one, two = "TransformerEncoderLayer", "TransformerDecoderLayer"
    alone, pair = [(2, 4, 8)], [(2, 3, 8), (2, 5, 8)]
    return [
        layer("plain", one, alone),
        layer("norm first, gelu", one, alone, norm_first=True, activation="gelu"),
        layer("without bias", one, alone, bias=False, layer_norm_eps=0.1),
        layer("sequence first", one, [(4, 2, 8)], batch_first=False),
        layer("without batch", one, [(4, 8)]),
        layer("causal", one, alone, "causal"),
        layer("padding mask", one, alone, "padding"),
        layer("float mask", one, alone, "float"),
        layer("plain", two, pair),
        layer("norm first, causal", two, pair, "causal", norm_first=True),
        layer("sequence first", two, [(3, 2, 8), (5, 2, 8)], batch_first=False),
        layer("padding mask", two, pair, "padding"),
    ]
