"""The module `eagerflow.io` for imports: that of `eagerflow/ops/names`."""

import sys

from eagerflow.ops.names.io import *  # noqa: F403 - for type checkers

sys.modules[__name__] = sys.modules["eagerflow.ops.names.io"]
