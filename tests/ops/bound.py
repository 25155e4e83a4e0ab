"""The ops bound by the table of cases, and the test files of all others."""

from __future__ import annotations

import functools

import numpy as np

import eagerflow as ef
from eagerflow.core.op import all_ops
from tests.ops.case import OpCase
from tests.ops.cases import ALL_CASES
from tests.ops.table import (
    COLUMNS,
    arguments,
    function_of,
    layout_of,
    map_arrays,
    one_of_each_kind,
    rules_checked,
)

__all__ = ["CASE_OPS", "ELSEWHERE", "OPS", "cases_by_op"]

ef.stop_gradient(0)  # the module with its op is imported on first use
OPS = sorted(all_ops())


def _of_queues() -> list[str]:
    """Ops of queues, accumulators, barriers and mutexes, which wait for each other."""
    kin = ("accumulator_", "barrier_", "mutex_", "queue_")
    return [name for name in OPS if name.startswith(kin)]


#: ops that no case can run, as eager mode never binds them, or only gradients do, or they have no
#: result; with the tests that cover them instead
ELSEWHERE = {
    "of_taking_rows": "tests/batching/test_branches.py",
    "print": "tests/ops/state/test_callbacks.py",
    "check_parameters": "tests/ops/random/test_symbolic_draws.py",
    "matmul_like": "tests/ops/linalg/test_matmul_like.py",
    "softmax_cross_entropy_with_gradient": "tests/graph/passes/test_share.py",
    "segment_sums": "tests/graph/passes/test_share.py",
    "check_sizes": "tests/ops/rules/test_sizes.py",
    "set_key": "tests/capture/test_random_state.py",
    **dict.fromkeys(_of_queues(), "tests/resources/queues"),
    "write_file": "tests/ops/io/test_files.py",
    **dict.fromkeys(["reader_read", "reader_read_up_to", "reader_reset"], "tests/ops/io"),
    **dict.fromkeys(["reader_count", "reader_skipped"], "tests/resources/queues/test_graphs.py"),
    "snapshot": "tests/resources/queues/test_snapshots.py",
    **{
        f"list_{name}": "tests/ops/state/test_lists.py"
        for name in (
            "add",
            "concat",
            "cut",
            "erase",
            "new",
            "pop",
            "push",
            "read",
            "size",
            "split",
            "stack",
            "unstack",
            "write",
        )
    },
}
#: ops that cases bind
CASE_OPS = [name for name in OPS if name not in ELSEWHERE]


@functools.cache
def cases_by_op() -> dict[str, list[OpCase]]:
    """Cases by op: those whose run executes the op, with those named after the op first."""
    cases: dict[str, list[OpCase]] = {}
    for case in ALL_CASES:
        seen: set[str] = set()
        for dtype in one_of_each_kind(case):
            args = [map_arrays(ef.asarray, a) for a in arguments(case, dtype, layout_of(case))]
            with rules_checked() as names, np.errstate(all="ignore"):
                COLUMNS["eager"](function_of(case), args, case.kwargs)
            seen |= names
        for name in seen:
            front = name in case.covers()
            cases.setdefault(name, []).insert(0 if front else len(cases.get(name, [])), case)
    return cases
