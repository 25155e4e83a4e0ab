"""Pictures as tensors, through Pillow, which only this module loads."""

from __future__ import annotations

import io
import os
from importlib import import_module
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.errors import RecordError, SettingError

__all__ = ["decode_image"]


def decode_image(
    source: str | os.PathLike[str] | bytes,
    *,
    mode: str | None = "RGB",
    size: tuple[int, int] | None = None,
) -> ef.Tensor:
    """A picture as ``u8[height, width, channels]``.

    Made for `Dataset.map`, with the names of files or with the bytes of a record. Threads decode
    partly at the same time, processes wholly: ``map(decode_image, workers=2, processes=True)``.

    Args:
        source: the name of a file, or its bytes: PNG, JPEG, or any other format that Pillow reads.
        mode: of colours, as Pillow names them: ``"RGB"``, ``"L"`` for grey (one channel), …; None
            keeps that of the file.
        size: height and width to resize to, bilinearly; None keeps them.

    Raises:
        RecordError: this is no picture, or a damaged one.
        SettingError: Pillow is not installed.

    >>> import io
    >>> from PIL import Image
    >>> buffer = io.BytesIO()
    >>> Image.new("RGB", (4, 2), (255, 0, 0)).save(buffer, "PNG")
    >>> image = ef.data.decode_image(buffer.getvalue())
    >>> image.shape, image[0, 0]
    ((2, 4, 3), Tensor([255,   0,   0], u8[3]@cpu:0))
    >>> ef.data.decode_image(buffer.getvalue(), mode="L", size=(1, 1))
    Tensor([[[76]]], u8[1,1,1]@cpu:0)
    """
    pillow = _pillow()
    data = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        with pillow.open(data) as image:
            found = image if mode is None or image.mode == mode else image.convert(mode)
            if size is not None:
                found = found.resize((size[1], size[0]), pillow.Resampling.BILINEAR)
            values = np.array(found)
    except FileNotFoundError:
        raise
    except (OSError, SyntaxError, ValueError) as error:
        given = f"{len(source)} bytes" if isinstance(source, bytes) else os.fspath(source)
        raise RecordError(
            "decode_image: this picture cannot be read", given=f"{given}: {error}"
        ) from error
    return ef.asarray(values if values.ndim == 3 else values[:, :, np.newaxis])


def _pillow() -> Any:
    """The module of pictures, which few need."""
    try:
        return import_module("PIL.Image")
    except ImportError as error:
        raise SettingError(
            "decode_image: Pillow is not installed", hint="pip install eagerflow[data]"
        ) from error
