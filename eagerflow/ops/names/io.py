"""Files, records and what is written in them, as tensors: `eagerflow.io`.

All of it works eagerly and in traced functions, where each function here is a node.
"""

from eagerflow.ops.io.examples import encode_example as encode_example
from eagerflow.ops.io.examples import parse_example as parse_example
from eagerflow.ops.io.files import read_file as read_file
from eagerflow.ops.io.files import write_file as write_file
from eagerflow.ops.io.parsing import decode_csv as decode_csv
from eagerflow.ops.io.parsing import decode_image as decode_image
from eagerflow.ops.io.parsing import decode_raw as decode_raw
from eagerflow.ops.io.parsing import length as length
from eagerflow.ops.io.parsing import parse_numbers as parse_numbers
from eagerflow.ops.io.readers import FixedLengthReader as FixedLengthReader
from eagerflow.ops.io.readers import RecordReader as RecordReader
from eagerflow.ops.io.readers import TextLineReader as TextLineReader
from eagerflow.ops.io.readers import WholeFileReader as WholeFileReader
from eagerflow.unknown_names import module_getattr

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


def __dir__() -> list[str]:
    return __all__
