"""The module `eagerflow.random` for imports: that of `eagerflow/ops/names`."""

import sys

from eagerflow.ops.names.random import *  # noqa: F403 - for type checkers

sys.modules[__name__] = sys.modules["eagerflow.ops.names.random"]
