"""Hints for attributes of arrays, queues, profiles, graphs and accumulators of other frameworks.

Each name is also listed where its class calls `hint_at`, mostly in `_HINTED`, so that importing
loads no hints; a test compares the two. Functions: `hints/function_names.py`.
"""

from __future__ import annotations

from typing import Final

from eagerflow.hints.function_names import DTYPES, TRAINING, by_name

ASKED: Final = (
    "leave it out: ef.grad(f) differentiates by the arguments of f, or by wrt=; net.freeze() "
    "leaves variables out of net.trainable"
)
#: functions that are methods elsewhere
ALSO_METHODS: Final = (
    "abs", "ceil", "cos", "cosh", "diag", "diagonal", "diff", "erf", "exp", "expm1", "flip",
    "floor", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "logsumexp", "median",
    "rsqrt", "sigmoid", "sign", "sin", "sinh", "softmax", "sqrt", "square", "tan", "tanh", "trace",
    "tril", "triu", "trunc",
)  # fmt: skip

_OPERATORS: Final = {
    "add": "+", "bmm": "@", "div": "/", "eq": "==", "ge": ">=", "gt": ">", "le": "<=", "lt": "<",
    "matmul": "@", "mm": "@", "mul": "*", "ne": "!=", "pow": "**", "sub": "-",
}  # fmt: skip


#: of tensors and variables
ARRAYS: Final = {
    **dict.fromkeys(("requires_grad", "requires_grad_"), ASKED),
    **{name: f"ef.{name}(x)" for name in ALSO_METHODS},
    **{name: f"x {sign} y" for name, sign in _OPERATORS.items()},
    **{name: f"x.astype(ef.{name})" for name in ("bfloat16", "bool")},
    **{name: f"x.astype(ef.{dtype})" for name, dtype in DTYPES.items()},
    **{name: f"ef.{name}(x, y)" for name in ("maximum", "minimum", "outer")},
    "add_": "x += y",
    "at": "x[i] = v, which gives the tensor a new value",
    "backward": TRAINING,
    "block_until_ready": "x.item() and all that looks at values waits by itself",
    "chunk": "ef.array_split(x, count, axis)",
    "clamp": "x.clip(low, high)",
    "clone": "x.copy()",
    "contiguous": "leave it out: how elements lie in memory does not matter",
    "copy_": "x[...] = y; of a variable, x.assign(y)",
    "cpu": "x.to('cpu')",
    "cuda": "x.to('gpu:0')",
    "data": "x.value of a variable, which x.assign(y) sets; a tensor is a value itself",
    "detach": "ef.stop_gradient(x)",
    "dim": "x.ndim",
    "element_size": "x.itemsize",
    "expand": "ef.broadcast_to(x, shape)",
    "expand_as": "ef.broadcast_to(x, y.shape)",
    "fill": "x[...] = value; of a variable, x.assign(ef.full(x.shape, value))",
    "fill_": "x[...] = value; of a variable, x.assign(ef.full(x.shape, value))",
    "flat": "x.ravel()",
    "gather": "ef.take_along_axis(x, indices, axis)",
    **dict.fromkeys(
        ("scatter", "scatter_"), "x = ef.update_along_axis(x, indices, values, axis), a new value"
    ),
    "scatter_add_": "x = ef.scatter_add(x, indices, values), which adds to rows",
    "grad": TRAINING,
    "index_select": "ef.take(x, indices, axis)",
    "is_contiguous": "leave it out: how elements lie in memory does not matter",
    "is_cuda": "x.device",
    "is_floating_point": "ef.isdtype(x.dtype, 'real floating')",
    "log_softmax": "ef.nn.functional.log_softmax(x)",
    "masked_fill": "ef.where(mask, value, x)",
    "movedim": "ef.moveaxis(x, source, destination)",
    "mul_": "x *= y",
    "narrow": "x[start:stop]",
    "neg": "-x",
    "nelement": "x.size",
    "new_full": "ef.full(shape, value, dtype=x.dtype, device=x.device)",
    "new_ones": "ef.ones(shape, dtype=x.dtype, device=x.device)",
    "new_tensor": "ef.tensor(data, dtype=x.dtype, device=x.device)",
    "new_zeros": "ef.zeros(shape, dtype=x.dtype, device=x.device)",
    "norm": "ef.linalg.norm(x)",
    "numel": "x.size",
    "permute": "ef.permute_dims(x, axes)",
    "register_hook": "ef.custom_vjp makes a function with a derivative of its own",
    "relu": "ef.nn.functional.relu(x)",
    "repeat_interleave": "ef.repeat(x, count)",
    "retain_grad": "ef.grad(f)(x) gives the gradient; none is kept in a tensor",
    "resize": "x.reshape(shape)",
    "roll": "ef.roll(x, shift)",
    "split": "ef.split(x, sections, axis): in so many parts, or before these indices",
    "strides": "leave it out: how elements lie in memory does not matter",
    "sub_": "x -= y",
    "t": "x.T",
    "tile": "ef.tile(x, repetitions)",
    "tobytes": "x.numpy().tobytes()",
    "topk": "ef.topk(x, count)",
    "type_as": "x.astype(y.dtype)",
    "unbind": "ef.unstack(x)",
    "unique": "ef.unique_values(x)",
    "unsqueeze": "ef.expand_dims(x, axis)",
    "view": "x.reshape(shape)",
    "view_as": "x.reshape(y.shape)",
    "where": "ef.where(condition, x, y)",
    "zero_": "x[...] = 0; of a variable, x.assign(ef.zeros(x.shape))",
}

#: methods that are functions in some frameworks
ALSO_FUNCTIONS: Final = ("backward", "bmm", "chunk", "masked_fill", "mm", "nelement", "numel")
#: of queues
QUEUES: Final = by_name(
    {
        "queue.enqueue(x); at the end, queue.close(): then dequeue gives the rest, and raises "
        "ef.errors.QueueClosedError": "append push put",
        "queue.size() == 0": "empty",
        "queue.size() == queue.capacity": "full",
        "queue.dequeue()": "get pop popleft",
        "queue.dequeue_many(n); at the end, dequeue_up_to(n) takes what is left": "get_many",
        "queue.dequeue(timeout=0)": "get_nowait",
        "queue.closed": "is_closed",
        "queue.close(), and whoever reads ends after the last: for x in queue: ...; "
        "a runner of ef.spawn has join()": "join task_done",
        "queue.capacity": "maxsize",
        "queue.enqueue_many(xs)": "extend put_many",
        "queue.enqueue(x, timeout=0)": "put_nowait",
        "queue.size()": "qsize",
        "queue.close()": "shutdown",
    }
)

MEMORY: Final = "ef.memory(device).in_use is what is taken now"
#: of profiles
PROFILES: Final = {
    **dict.fromkeys(
        ["memory", "peak_memory"],
        f"print(profile) ends with the memory of the process; {MEMORY}, of a GPU, too",
    ),
    **dict.fromkeys(
        ["key_averages", "print_stats"],
        "print(profile) shows ops and lines; profile.table() and profile.lines() have the rows",
    ),
    "export_chrome_trace": "profile.save('trace.json') writes it for Perfetto and Chrome",
    **dict.fromkeys(
        ["start", "step", "stop"], "with ef.profile() as profile: ... measures its block"
    ),
}

#: of events
EVENTS: Final = {
    **dict.fromkeys(["dur", "duration", "elapsed", "took"], "event.seconds is its duration"),
    **dict.fromkeys(
        ["begin", "end", "finish"], "event.start and event.stop are times of time.perf_counter()"
    ),
    "line": "event.source.line, where event.source is not None",
    "op": "event.name is the name of the op",
}

#: what `explain` does not take
EXPLAINED: Final = {
    "memory": f"f.explain('costs') has the bytes that each node reads and writes; {MEMORY}",
}
#: of graphs
GRAPHS: Final = EXPLAINED

#: of accumulators
ACCUMULATORS: Final = {
    "apply_grad": "accumulator.add(gradients, step)",
    "num_accumulated": "accumulator.size()",
    "set_global_step": "accumulator.set_step(step)",
    "take_grad": "accumulator.take(count)",
}
