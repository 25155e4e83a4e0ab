"""Reading and writing of whole files, in each run of a graph."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from eagerflow.core.op import bind, define
from eagerflow.core.op_records.cost_formulas import per_input
from eagerflow.core.op_records.op_facts import MOVING, of_family
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, as_tensor, tensor_of
from eagerflow.errors import ShapeError
from eagerflow.hardware.device_rules import common_device
from eagerflow.ops.rules.type_rules import BYTE_STRINGS, check_kind, effect_op
from eagerflow.resources.files import FILES, FileSystem
from eagerflow.types import TensorType, may_be_same_shape


def _paths(path: Any) -> Tensor:
    """Names of files as bytes: strings and paths in the encoding of the file system."""
    if isinstance(path, (str, os.PathLike)):
        return as_tensor(os.fsencode(path))
    if isinstance(path, Sequence) and path and isinstance(path[0], (str, os.PathLike)):
        return as_tensor([os.fsencode(one) for one in path])
    return tensor_of(path)


@of_family(MOVING)
def _read_type(path: TensorType, *, resource: FileSystem) -> TensorType:
    check_kind(path, BYTE_STRINGS)
    return path


_read_file = define(
    "read_file",
    infer=_read_type,
    vjp=(None,),
    effect="reads",
    cost=per_input(2e5),
    resource=FileSystem,
    reaches="files",
)


def read_file(path: TensorLike | os.PathLike[str], /) -> Tensor:
    """The contents of files.

    In a graph this is a node that reads the files in each run, after all earlier writes.

    Args:
        path: the name of a file; or bytes of any shape, which the contents then have.

    Raises:
        FileError: a file cannot be read (also an OSError).

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "greeting")
    ...     ef.io.write_file(path, b"hello")
    ...     ef.io.read_file(path)
    Tensor(b'hello', bytes[]@cpu:0)
    """
    return bind(_read_file, _paths(path), resource=FILES)


def _write_type(
    path: TensorType, contents: TensorType, *, resource: FileSystem
) -> tuple[TensorType, ...]:
    check_kind(path, BYTE_STRINGS)
    check_kind(contents, BYTE_STRINGS)
    if not may_be_same_shape(path.shape, contents.shape):
        raise ShapeError("there is one name for each of the contents", expected="one shape")
    return ()


_write_file = effect_op(
    "write_file", FileSystem, _write_type, "writes", devices=common_device, takes_bytes=True,
    outputs=None, reaches="files",
)  # fmt: skip


def write_file(path: TensorLike | os.PathLike[str], contents: TensorLike, /) -> None:
    """Write files. Each file is complete when it gets its name, and replaces an existing file.

    Args:
        path: the name of a file; or bytes of any shape, one name per file.
        contents: bytes of the same shape.

    Raises:
        FileError: a file cannot be written (also an OSError).
        ShapeError: the shapes differ.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = [os.path.join(folder, name) for name in ("a", "b")]
    ...     ef.io.write_file(paths, [b"1", b"22"])
    ...     [os.path.getsize(path) for path in paths]
    [1, 2]
    """
    bind(_write_file, _paths(path), tensor_of(contents), resource=FILES)
