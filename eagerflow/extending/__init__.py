"""What libraries are written with, beside the public names of `eagerflow` itself.

`eagerflow.nn`, `optim`, `data` and `checkpoint` use this and nothing else of the framework, and so
may any library. `docs/extending.md` tells what each name is for. What has to do with traces is in
`eagerflow.extending.tracing`, what pipelines are made of in `eagerflow.extending.pipelines`: these
load more of the framework.
"""

from eagerflow.core import tree
from eagerflow.core.byte_arrays import pack, packed_size, unpack
from eagerflow.core.convert import TensorLike
from eagerflow.core.interpreter import is_traced
from eagerflow.core.op import is_part
from eagerflow.core.symbols import number_now
from eagerflow.dims import Size, maximum, may_equal, same
from eagerflow.files import replaced, unwritable
from eagerflow.ops.random.draws import in_range, is_weak
from eagerflow.ops.rules.sizes import matched
from eagerflow.progress import progress_bar
from eagerflow.source import Source, capture, warn
from eagerflow.unknown_names import hint_at, module_getattr, nearest, unknown_name

__all__ = [
    "Size",
    "Source",
    "TensorLike",
    "capture",
    "hint_at",
    "in_range",
    "is_part",
    "is_traced",
    "is_weak",
    "matched",
    "maximum",
    "may_equal",
    "module_getattr",
    "nearest",
    "number_now",
    "pack",
    "packed_size",
    "progress_bar",
    "replaced",
    "same",
    "tree",
    "unknown_name",
    "unpack",
    "unwritable",
    "warn",
]
