"""Plausible bugs, a few for each package, and the tests that must find them."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["BUGS", "Bug"]


class Bug(NamedTuple):
    """A change of the source that breaks something.

    Attributes:
        name: the behaviour that breaks.
        file: the file that is changed.
        right: a text that occurs once in the file.
        wrong: its replacement.
        tests: the files and folders of tests for this behaviour.
    """

    name: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]


BUGS: Final = (
    Bug(
        "memory that a tape follows is written into",
        "eagerflow/ops/indexing/writable_memory.py",
        "\n        and not getweakrefcount(data)\n",
        "\n",
        ("ops/indexing/test_writable_memory.py", "autodiff/test_in_place.py"),
    ),
    Bug(
        "the gradient of a square root is half of what it should be",
        "eagerflow/ops/elementwise/powers_and_logarithms.py",
        "g * 0.5 / conjugate(out)",
        "g * 0.25 / conjugate(out)",
        ("ops/test_table.py -k sqrt",),
    ),
    Bug(
        "a reduction that keeps its axes loses them in the type",
        "eagerflow/ops/rules/type_rules.py",
        "return tuple(1 if i in axes else d for i, d in enumerate(shape))",
        "return tuple(d for i, d in enumerate(shape) if i not in axes)",
        ("ops/test_table.py -k sum-kept",),
    ),
    Bug(
        "the kernel of a median takes the smaller neighbour for both",
        "kernels/eagerflow_kernels/cpu/sort.py",
        "out[..., 1] = out[..., 0] if second == first else np.fmin.reduce(rest, axis=-1)",
        "out[..., 1] = out[..., 0]",
        ("ops/test_table.py -k median",),
    ),
    Bug(
        "an assignment does not wait for reads before it",
        "eagerflow/tracing/effect_order.py",
        'nodes += (one.reads or write) if effect == "writes" else write',
        "nodes += write",
        ("tracing/test_effect_order.py", "programs"),
    ),
    Bug(
        "a guard takes -0.0 for 0.0",
        "eagerflow/capture/equality.py",
        "return a == b and repr(a) == repr(b)",
        "return a == b",
        ("capture/test_guards.py", "function/test_expectations.py"),
    ),
    Bug(
        "a full cache drops the newest trace of a key",
        "eagerflow/function/lookup/trace_cache.py",
        "oldest.entries = oldest.entries[:-1]",
        "oldest.entries = oldest.entries[1:]",
        ("function/lookup/test_trace_cache.py",),
    ),
    Bug(
        "sizes that differ from call to call do not become symbols",
        "eagerflow/function/lookup/trace_cache.py",
        "tuple([a if a == b else None for a, b in zip(old, new, strict=True)])",
        "tuple(new)",
        ("function/lookup/test_trace_cache.py",),
    ),
    Bug(
        "a loop on tensors is taken to have had an iteration",
        "eagerflow/autograph/flow/loop_statements.py",
        "    known = python\n",
        "    known = True\n",
        ("autograph",),
    ),
    Bug(
        "a return in a loop does not end what is behind it",
        "eagerflow/autograph/conversion/jumps.py",
        "flags = [_RETURNED] if self.early and _jumps(node, ast.Return) else []",
        "flags = [_RETURNED] if self.early and isinstance(node, ast.If) else []",
        ("autograph/test_programs.py", "autograph/test_constructs.py"),
    ),
    Bug(
        "the gradient of a loop takes what moves for fixed",
        "eagerflow/control/derivatives/loop_derivatives.py",
        "if v in numbers and numbers[v] < self.total and numbers[v] not in self.moving",
        "if v in numbers and numbers[v] < self.total",
        ("control",),
    ),
    Bug(
        "constants 0.0 and -0.0 are merged",
        "eagerflow/graph/passes/cse.py",
        'float: lambda value: pack("<d", value)',
        "float: lambda value: (float, value)",
        ("graph/passes",),
    ),
    Bug(
        "folding computes what has effects",
        "eagerflow/graph/passes/fold.py",
        "if not is_pure(node) or next(node.subgraphs(), None) is not None:",
        "if next(node.subgraphs(), None) is not None:",
        ("graph/passes/test_fold.py", "programs"),
    ),
    Bug(
        "a buffer is given away while a view of it is needed",
        "eagerflow/graph/passes/donate.py",
        "self.last[self._root(value)] = position\n",
        "self.last[value] = position\n",
        ("graph/passes",),
    ),
    Bug(
        "generated code writes into an array that somebody else holds",
        "eagerflow/runtime/generated/buffer_reuse.py",
        "out.nbytes < LARGE or getrefcount(out) > _alone[0]:",
        "out.nbytes < LARGE:",
        ("runtime/test_memory.py", "runtime/generated"),
    ),
    Bug(
        "more iterations of a loop overlap than it says",
        "eagerflow/runtime/scheduled/scheduler.py",
        "elif len(loop.open) < context.plan.parallel:",
        "elif len(loop.open) <= context.plan.parallel:",
        ("runtime/scheduled/test_scheduler.py",),
    ),
    Bug(
        "elements of a dequeue that was cancelled come back in the wrong order",
        "eagerflow/resources/queue_kinds.py",
        "taker.taken[::-1]\n        taker.taken = []\n        self.items.extendleft",
        "taker.taken\n        taker.taken = []\n        self.items.extendleft",
        ("resources",),
    ),
    Bug(
        "room in a queue does not wake those that wait for it",
        "eagerflow/resources/queue_state.py",
        "if puts:",
        "if puts and LevelEvent.wanted:",
        ("resources", "data/workers/test_buffers.py", "data/workers/test_parallel.py"),
    ),
    Bug(
        "a closed queue is an error of the runner that needs it",
        "eagerflow/runners/runner.py",
        "is_complete = isinstance(error, QueueClosedError) and failure_behind(error) is None",
        "is_complete = False",
        ("runners",),
    ),
    Bug(
        "a saved position does not bring its seed",
        "eagerflow/data/base/orders.py",
        "with self._lock:\n            self._value = value\n",
        "self.check(self.value)\n",
        ("data/test_positions.py", "data/test_pipelines.py"),
    ),
    Bug(
        "running means move by what they should keep",
        "eagerflow/nn/functional/normalisation.py",
        "running * (1 - momentum) + new * momentum",
        "running * momentum + new * (1 - momentum)",
        ("nn/functional/test_normalisation.py",),
    ),
    Bug(
        "Adam corrects eps of sparse gradients",
        "eagerflow/optim/adam.py",
        "(self.eps if means.indices is not None else eps)",
        "eps",
        ("optim",),
    ),
    Bug(
        "a damaged header of a shard is not noticed",
        "eagerflow/checkpoint/shards.py",
        "if sha256(header).hexdigest() != shard.header:",
        "if False:",
        ("checkpoint/test_manifest.py", "checkpoint/test_shards.py"),
    ),
    Bug(
        "arrays of other shapes have one name in a text",
        "eagerflow/graph/text/constants.py",
        'f"{tensor.dtype.short}{tensor.shape}:"',
        'f"{tensor.dtype.short}:"',
        ("graph/text", "graph/passes/test_cse.py"),
    ),
    Bug(
        "what a scan has inside must be on one device",
        "eagerflow/graph/signatures.py",
        'return kind_of(op) in ("call", "branches", "loop")',
        'return kind_of(op) in ("call", "branches", "loop") and op != "scan"',
        ("control/test_devices.py", "graph"),
    ),
    Bug(
        "errors of a graph name the line of its call",
        "eagerflow/source.py",
        "if type(source) is Source:\n                    return source.code, source.offset",
        "if type(source) is Source:\n                    pass",
        ("runtime/generated/test_failures.py", "function/test_errors.py"),
    ),
)
