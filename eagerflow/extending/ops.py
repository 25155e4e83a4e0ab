"""The API for ops of one's own: kernels, records, and rules to write them with."""

from eagerflow.core.op import bind, define, joint
from eagerflow.core.op_records.batch_rules import each_row
from eagerflow.core.op_records.cost_formulas import per_output
from eagerflow.ops.rules.gradients import over, sum_to_like, times
from eagerflow.ops.rules.promotion import floating, promote
from eagerflow.ops.rules.type_rules import (
    ANY,
    BOOL,
    COMPLEX,
    FLOATING,
    INEXACT,
    INTEGER,
    NUMERIC,
    REAL,
    binary,
    elementwise,
    unary,
)
from eagerflow_kernels.table import portable, special

__all__ = [
    "ANY", "BOOL", "COMPLEX", "FLOATING", "INEXACT", "INTEGER", "NUMERIC", "REAL", "binary",
    "bind", "define", "each_row", "elementwise", "floating", "joint", "over", "per_output",
    "portable", "promote", "special", "sum_to_like", "times", "unary",
]  # fmt: skip
