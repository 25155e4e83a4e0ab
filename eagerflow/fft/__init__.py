"""The module `eagerflow.fft` for imports: that of `eagerflow/ops/names`."""

import sys

from eagerflow.ops.names.fft import *  # noqa: F403 - for type checkers

sys.modules[__name__] = sys.modules["eagerflow.ops.names.fft"]
