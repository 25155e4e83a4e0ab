"""Decoding of images to tensors, for any function that works on elements."""

from __future__ import annotations

import os

import eagerflow as ef
from eagerflow.errors import RecordError, SettingError
from eagerflow_kernels.pictures import MissingError, pixels
from eagerflow_kernels.records import DamagedError


def decode_image(
    source: str | os.PathLike[str] | bytes | bytearray | memoryview,
    *,
    mode: str | None = "RGB",
    size: tuple[int, int] | None = None,
) -> ef.Tensor:
    """A picture as ``u8[height, width, channels]``.

    Made for `Dataset.map`, with the names of files or with the bytes of a record. Threads decode
    in parallel in part, processes entirely: ``map(decode_image, workers=2, processes=True)``.

    Args:
        source: the name of a file, or its bytes: PNG, JPEG, or any other format that Pillow reads.
        mode: the colour mode, as Pillow names it: ``"RGB"``, ``"L"`` for grey (one channel), …;
            None keeps that of the file.
        size: height and width to resize to, bilinearly; None keeps them.

    Raises:
        RecordError: the source is no picture, a damaged one, or a picture so large when decoded
            that Pillow takes it for an attack (``PIL.Image.MAX_IMAGE_PIXELS``).
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
    image: str | bytes
    if isinstance(source, bytes):
        image = source
    elif isinstance(source, (bytearray, memoryview)):
        image = bytes(source)
    else:
        image = os.fspath(source)
    try:
        values = pixels(image, mode, size)
    except MissingError as error:
        raise SettingError(
            "decode_image: Pillow is not installed", hint="pip install 'eagerflow[data]'"
        ) from error
    except DamagedError as error:
        given = f"{len(image)} bytes" if isinstance(image, bytes) else image
        raise RecordError(f"decode_image: {error}", given=given) from error
    return ef.asarray(values)
