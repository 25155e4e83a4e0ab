"""Files, records and their contents as tensors: `eagerflow.io`.

All functions work eagerly and in traced functions, where each is a node.
"""

from eagerflow.ops.io.examples import encode_example, parse_example
from eagerflow.ops.io.files import read_file, write_file
from eagerflow.ops.io.parsing import decode_csv, decode_image, decode_raw, length, parse_numbers
from eagerflow.ops.io.readers import (
    FixedLengthReader,
    RecordReader,
    TextLineReader,
    WholeFileReader,
)
from eagerflow.unknown_names import module_dir, module_getattr

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

__getattr__ = module_getattr("eagerflow.io", globals())
__dir__ = module_dir(globals())
