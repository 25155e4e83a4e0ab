"""Kernels of whole files. Their arrays are of Python's bytes, so the namespace is NumPy."""

from __future__ import annotations

import errno
import os
from typing import Any

from eagerflow_kernels.table import portable

Array = Any  # of objects, which are bytes


@portable("read_file")
def read_file(xp: Any, path: Array, *, resource: Any = None) -> Array:
    """The contents of the files with these names."""
    out = xp.empty(path.shape, object)
    flat = out.reshape(-1)
    for i, name in enumerate(path.reshape(-1).tolist()):
        with open(os.fsdecode(name), "rb") as file:
            flat[i] = file.read()
    return out


@portable("write_file")
def write_file(xp: Any, path: Array, contents: Array, *, resource: Any = None) -> tuple[Array, ...]:
    """Write files; each is there when it is whole."""
    if path.shape != contents.shape:  # before anything is written
        raise ValueError("one name for each of the contents")
    for name, data in zip(path.reshape(-1).tolist(), contents.reshape(-1).tolist(), strict=True):
        target = os.fsdecode(name)
        if os.path.exists(target) and not os.path.isfile(target):  # a device would be replaced
            raise OSError(errno.EINVAL, "it is no regular file", target)
        part = f"{target}.{os.getpid()}.part"
        try:
            with open(part, "wb") as file:
                file.write(data)
            os.replace(part, target)
        except BaseException as error:
            if os.path.exists(part):
                os.unlink(part)
            if isinstance(error, OSError):  # a full disk is reported without a name
                text = f"{error.strerror}, of a file of {len(data):,} bytes"
                raise OSError(error.errno, text, target) from None
            raise
    return ()
