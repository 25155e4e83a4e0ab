"""The API for libraries, beside the public names of `eagerflow` itself.

`eagerflow.nn`, `optim`, `data` and `checkpoint` use this and nothing else of the framework, and so
may any library. `docs/extending.md` explains each name. The names for ops of one's own
(`extending/ops.py`), for traces (`extending/tracing.py`) and for pipelines
(`extending/pipelines.py`) load more of the framework when one of them is first used.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any
from typing import Final as _Final

from eagerflow.atomic_files import new_file, replaced, sync_folder, unwritable
from eagerflow.core import tree
from eagerflow.core.abstract_symbols import number_now
from eagerflow.core.byte_arrays import pack, packed_size, unpack
from eagerflow.core.interpreter import is_traced
from eagerflow.core.op import is_part
from eagerflow.core.to_tensor import TensorLike
from eagerflow.dims import Size, maximum, may_equal, same
from eagerflow.formatting import table_html, table_lines
from eagerflow.ops.random.draws import in_range, is_weak
from eagerflow.ops.rules.sizes import matched
from eagerflow.ops.state.variables import keep_together
from eagerflow.option_checks import (
    COUNT,
    FRACTION,
    NOT_NEGATIVE,
    POSITIVE,
    PROBABILITY,
    SIZE,
    OptionKind,
    one_of,
    require,
)
from eagerflow.progress import progress_bar
from eagerflow.source import Source, capture, warn
from eagerflow.state_loading import first_names, put_state, renaming
from eagerflow.unknown_names import (
    hint_about,
    hint_at,
    module_dir,
    module_getattr,
    nearest,
    unknown_name,
)

if _TYPE_CHECKING:
    from eagerflow.extending.ops import *
    from eagerflow.extending.pipelines import *
    from eagerflow.extending.tracing import *

#: names that load more of the framework, by their module
_LATER: _Final = {
    "ops": ("ANY", "BOOL", "COMPLEX", "FLOATING", "INEXACT", "INTEGER", "NUMERIC", "REAL",
            "binary", "bind", "define", "each_row", "elementwise", "floating", "joint", "over",
            "per_output", "portable", "promote", "special", "sum_to_like", "times", "unary"),
    "pipelines": ("FifoStore", "QueueState", "SequenceStore", "ShuffleStore", "begin_told",
                  "ending", "slept", "to_html"),
    "tracing": ("call_in_scope", "children", "in_graph", "note_set", "note_walk", "undo_by",
                "walk"),
}  # fmt: skip

__all__ = [
    "ANY", "BOOL", "COMPLEX", "COUNT", "FLOATING", "FRACTION", "INEXACT", "INTEGER",
    "NOT_NEGATIVE", "NUMERIC", "POSITIVE", "PROBABILITY", "REAL", "SIZE", "FifoStore",
    "OptionKind", "QueueState", "SequenceStore", "ShuffleStore", "Size", "Source",
    "TensorLike", "begin_told", "binary", "bind", "call_in_scope", "capture", "children",
    "define", "each_row", "elementwise", "ending", "first_names", "floating", "hint_about",
    "hint_at", "in_graph", "in_range", "is_part", "is_traced", "is_weak", "joint", "keep_together",
    "matched", "maximum", "may_equal", "module_dir", "module_getattr", "nearest", "new_file",
    "note_set", "note_walk", "number_now", "one_of", "over", "pack", "packed_size",
    "per_output", "portable", "progress_bar", "promote", "put_state", "renaming", "replaced",
    "require", "same", "slept", "special", "sum_to_like", "sync_folder", "table_html",
    "table_lines", "times", "to_html", "tree", "unary", "undo_by", "unknown_name", "unpack",
    "unwritable", "walk", "warn",
]  # fmt: skip


__dir__ = module_dir(globals())


def __getattr__(name: str) -> _Any:
    for module, names in _LATER.items():
        if name in names:
            return getattr(_import_module(f"eagerflow.extending.{module}"), name)
    if name.startswith("__"):
        raise AttributeError(name)
    raise unknown_name("eagerflow.extending", name, dict.fromkeys(__all__))
