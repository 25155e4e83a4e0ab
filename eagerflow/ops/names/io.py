"""Files, records and what is written in them, as tensors: `eagerflow.io`.

All of it works eagerly and in traced functions, where each function here is a node.
"""

from eagerflow.counterparts import unknown_name
from eagerflow.ops.io.examples import encode_example, parse_example
from eagerflow.ops.io.files import read_file, write_file
from eagerflow.ops.io.parsing import decode_csv, decode_image, decode_raw, length, parse_numbers
from eagerflow.ops.io.readers import (
    FixedLengthReader,
    RecordReader,
    TextLineReader,
    WholeFileReader,
)

__all__ = [
    "FixedLengthReader",
    "RecordReader",
    "TextLineReader",
    "WholeFileReader",
    "decode_csv",
    "decode_image",
    "decode_raw",
    "encode_example",
    "length",
    "parse_example",
    "parse_numbers",
    "read_file",
    "write_file",
]


def __getattr__(name: str) -> object:
    """Word the error for a name that is not here, with the nearest one that is."""
    if name.startswith("__"):
        raise AttributeError(name)
    raise unknown_name("eagerflow.io", name, {n: globals()[n] for n in __all__})


def __dir__() -> list[str]:
    return __all__
