"""Graph files: the text form and the large constants in one file, without pickle.

The file is a safetensors file, so that other tools can read the constants (and the text)::

    8 bytes   the length of the header, little-endian
    header    JSON in ASCII, filled up with spaces so that the data begin at a multiple of 64:
              {"__metadata__": {"format": "eagerflow graph", "version": "2",
                                "graph": the text form, "checksum": 64 hexadecimal digits},
               name of an array: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
    data      the elements of the arrays in row-major order, little-endian, one after the other

``$name`` in the text refers to an array by its name in the header. The text gives the true type of
an array: dtypes that safetensors lacks are stored as bytes along one more axis, byte strings as
`eagerflow.core.byte_arrays` packs them. The checksum is the SHA-256 of the whole file with 64 zeros
in its place. The state of resources is not stored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NoReturn

from eagerflow.atomic_files import replaced
from eagerflow.core.tensor import Tensor
from eagerflow.errors import GraphError, GraphFileError
from eagerflow.graph.devices import move_operands
from eagerflow.graph.ir import Graph
from eagerflow.graph.text import constants
from eagerflow.graph.text.parser import parse_graph
from eagerflow.graph.text.printer import Printer
from eagerflow.source import warn
from eagerflow.types import BYTES

VERSION: Final = 2
_FORMAT: Final = "eagerflow graph"
_ALIGNMENT: Final = 64
_UNSUMMED: Final = "0" * 64

#: names of dtypes in safetensors; the others are stored as bytes
_NAMES: Final = {
    "bool": "BOOL", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
    **{f"int{n}": f"I{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"U{n}" for n in (8, 16, 32, 64)},
    **{f"float{n}": f"F{n}" for n in (16, 32, 64)},
}  # fmt: skip


def save_graph(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write ``graph`` into the file ``path``, which is replaced once all is written.

    Raises:
        GraphError: an attribute has no text form.
        FileError: the file cannot be written. It is an OSError.
    """
    data = to_bytes(graph)
    with replaced("Graph.save", path, len(data)) as write:
        write(data)


def load_graph(path: str | os.PathLike[str], resources: Mapping[str, Any] | None = None) -> Graph:
    """The graph that `save_graph` wrote.

    Args:
        path: of the file.
        resources: the objects that ``@name`` refers to; the others become a `Reference`.

    Raises:
        GraphFileError: the file is truncated, damaged, foreign, or of a newer format.
        OSError: the file cannot be read.
    """
    return from_file_bytes(Path(path).read_bytes(), resources, str(path))


def to_bytes(graph: Graph) -> bytes:
    """The content of the graph file of ``graph``."""
    printer = Printer(strict=True)
    text = "\n".join(printer.graph(graph))
    # arrays with large elements first, so that every array is aligned to its element size
    arrays = sorted(printer.arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    entries: dict[str, Any] = {}
    end = 0
    for name, tensor in arrays:
        entries[name] = _entry(tensor, end)
        end += constants.size_in_bytes(tensor)
    metadata = {"format": _FORMAT, "version": str(VERSION), "checksum": _UNSUMMED, "graph": text}
    header = json.dumps({"__metadata__": metadata, **entries}).encode("ascii")
    header += b" " * (-(8 + len(header)) % _ALIGNMENT)
    start = len(header).to_bytes(8, "little") + header
    data = b"".join([start, *(constants.to_bytes(tensor) for _, tensor in arrays)])
    position = data.index(_UNSUMMED.encode())  # comes before all text of users
    return data[:position] + sha256(data).hexdigest().encode() + data[position + len(_UNSUMMED) :]


def _entry(tensor: Tensor, start: int) -> dict[str, Any]:
    name = _NAMES.get(tensor.dtype.name)
    shape = [*tensor.shape] if name else [*tensor.shape, tensor.dtype.itemsize]
    if tensor.dtype is BYTES:
        shape = [constants.size_in_bytes(tensor)]
    offsets = [start, start + constants.size_in_bytes(tensor)]
    return {"dtype": name or "U8", "shape": shape, "data_offsets": offsets}


def from_file_bytes(
    content: bytes, resources: Mapping[str, Any] | None = None, where: str = "the data"
) -> Graph:
    """The graph in the content of a file (see `load_graph`)."""
    data = memoryview(content)
    header, start = _header(data, where)
    metadata = header.get("__metadata__")
    if not isinstance(metadata, dict) or metadata.get("format") != _FORMAT:
        _fail(where, "is not a graph file", "a file written by Graph.save")
    version = metadata.get("version", "")
    if not isinstance(version, str) or not version.isdecimal():
        _fail(where, "is damaged: it says no version")
    if int(version) > VERSION:
        _fail(
            where,
            f"has format {version}, this eagerflow reads up to {VERSION}",
            hint="install a newer eagerflow",
        )
    _check_sum(data, metadata.get("checksum"), header, start, where)
    try:
        arrays = {name: data[start + a : start + b] for name, (a, b) in _extents(header)}
        graph = parse_graph(metadata["graph"], resources, arrays)
    except (GraphError, KeyError, TypeError, IndexError) as error:
        # the checksum is right: the file was written like this
        raise GraphFileError(f"{where} holds no graph: {error}") from None
    if int(version) == 1:
        _add_transfers(graph, where)
    return graph


def _add_transfers(graph: Graph, where: str) -> None:
    """Add the transfers of a graph of format 1, where placed nodes took operands of any device."""
    count = move_operands(graph)
    if count:
        warn(
            f"{where} has format 1, in which operands may be on other devices than the node that"
            f" takes them: {count} transfer{'s' * (count != 1)} added; save it again to keep them",
            UserWarning,
        )


def _header(data: memoryview, where: str) -> tuple[dict[str, Any], int]:
    """The header, and the position at which the data begin."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 9:
        _fail(where, f"is truncated, or no graph file: it has {len(data)} bytes")
    if data[8] != ord("{"):
        _fail(where, "is not a graph file", "a file written by Graph.save")
    if 8 + length > len(data):
        _fail(where, f"is truncated: it has {len(data)} bytes, its header alone {8 + length}")
    try:
        header = json.loads(bytes(data[8 : 8 + length]))
    except (ValueError, RecursionError):
        _fail(where, "is damaged: its header cannot be read")
    if not isinstance(header, dict):
        _fail(where, "is not a graph file", "a file written by Graph.save")
    return header, 8 + length


def _extents(header: dict[str, Any]) -> list[tuple[str, tuple[int, int]]]:
    """The begin and end of each array."""
    entries = [(name, entry) for name, entry in header.items() if name != "__metadata__"]
    return [(name, (int(e["data_offsets"][0]), int(e["data_offsets"][1]))) for name, e in entries]


def _check_sum(
    data: memoryview, checksum: object, header: dict[str, Any], start: int, where: str
) -> None:
    if isinstance(checksum, str) and len(checksum) == len(_UNSUMMED) and checksum.isascii():
        position = bytes(data[:start]).find(checksum.encode())
        whole = sha256(data[: max(position, 0)])
        whole.update(_UNSUMMED.encode())
        whole.update(data[position + len(_UNSUMMED) :])
        if position >= 0 and whole.hexdigest() == checksum:
            return
    try:
        size = start + max((end for _, (_, end) in _extents(header)), default=0)
    except (TypeError, KeyError, ValueError, IndexError):
        size = 0
    if size > len(data):
        _fail(where, f"is truncated: it has {len(data)} bytes of {size}")
    _fail(where, "is damaged: its checksum does not match", hint="use a copy of the file")


def _fail(where: str, wrong: str, expected: str | None = None, hint: str | None = None) -> NoReturn:
    raise GraphFileError(f"{where} {wrong}", expected=expected, hint=hint)
