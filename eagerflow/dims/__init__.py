"""Symbolic sizes, which are known by name only, and exact arithmetic with them."""

from eagerflow.dims.dim import Dim as Dim
from eagerflow.dims.dim import Size as Size
from eagerflow.dims.dim import broadcast as broadcast
from eagerflow.dims.dim import evaluate as evaluate
from eagerflow.dims.dim import exact_quotient as exact_quotient
from eagerflow.dims.dim import maximum as maximum
from eagerflow.dims.dim import may_equal as may_equal
from eagerflow.dims.dim import minimum as minimum
from eagerflow.dims.dim import number_of as number_of
from eagerflow.dims.dim import parse_dim as parse_dim
from eagerflow.dims.dim import same as same
from eagerflow.dims.dim import substitute as substitute
from eagerflow.dims.dim import symbols as symbols
from eagerflow.dims.size_questions import resolving as resolving
from eagerflow.dims.size_questions import spelled as spelled
from eagerflow.dims.size_questions import unknown as unknown
