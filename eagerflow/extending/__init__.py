"""What libraries are written with, beside the public names of `eagerflow` itself.

`eagerflow.nn`, `optim`, `data` and `checkpoint` use this and nothing else of the framework, and so
may any library. `docs/extending.md` tells what each name is for. What has to do with traces is in
`eagerflow.extending.tracing`, what pipelines are made of in `eagerflow.extending.pipelines`: these
load more of the framework.
"""

from eagerflow.core import tree as tree
from eagerflow.core.byte_arrays import pack as pack
from eagerflow.core.byte_arrays import packed_size as packed_size
from eagerflow.core.byte_arrays import unpack as unpack
from eagerflow.core.convert import TensorLike as TensorLike
from eagerflow.core.interpreter import is_traced as is_traced
from eagerflow.core.op import is_part as is_part
from eagerflow.core.symbols import number_now as number_now
from eagerflow.dims import Size as Size
from eagerflow.dims import maximum as maximum
from eagerflow.dims import may_equal as may_equal
from eagerflow.dims import same as same
from eagerflow.files import replaced as replaced
from eagerflow.files import unwritable as unwritable
from eagerflow.ops.random.draws import in_range as in_range
from eagerflow.ops.random.draws import is_weak as is_weak
from eagerflow.ops.rules.sizes import matched as matched
from eagerflow.progress import progress_bar as progress_bar
from eagerflow.source import Source as Source
from eagerflow.source import capture as capture
from eagerflow.source import warn as warn
from eagerflow.tables import table_html as table_html
from eagerflow.tables import table_lines as table_lines
from eagerflow.unknown_names import hint_at as hint_at
from eagerflow.unknown_names import module_getattr as module_getattr
from eagerflow.unknown_names import nearest as nearest
from eagerflow.unknown_names import unknown_name as unknown_name
