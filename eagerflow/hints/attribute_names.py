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
    "abs", "bincount", "ceil", "cos", "cosh", "diag", "diagonal", "diff", "erf", "exp", "expm1",
    "floor", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "reciprocal",
    "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trace",
    "tril", "triu", "trunc",
)  # fmt: skip
#: likewise, along an axis
_ALONG_AXIS: Final = ("amax", "amin", "flip", "logsumexp", "median", "softmax")
#: names in ``ef.linalg`` of methods elsewhere
_LINALG: Final = {
    "cholesky": "cholesky", "det": "det", "inverse": "inv", "logdet": "slogdet",
    "matrix_exp": "expm", "pinverse": "pinv", "qr": "qr", "slogdet": "slogdet", "svd": "svd",
}  # fmt: skip
_LAYOUT: Final = "leave it out: how elements lie in memory does not matter"
_KEPT: Final = "ef.grad(f)(x) gives the gradient; none is kept in a tensor"
_PAIR: Final = (
    "x.max(axis) and ef.sort(x, axis) are the values alone; x.argmax(axis) and "
    "ef.argsort(x, axis) are the indices"
)
_DRAWN: Final = "x[...] = {0}(x.shape{1}); of a variable, v.assign({0}(v.shape{1}))"

_OPERATORS: Final = {
    "add": "+", "bmm": "@", "div": "/", "eq": "==", "ge": ">=", "gt": ">", "le": "<=", "lt": "<",
    "matmul": "@", "mm": "@", "mul": "*", "ne": "!=", "pow": "**", "sub": "-",
}  # fmt: skip


#: of tensors and variables
ARRAYS: Final = {
    **dict.fromkeys(("requires_grad", "requires_grad_"), ASKED),
    **{name: f"ef.{name}(x)" for name in ALSO_METHODS},
    **{name: f"ef.{name}(x, axis)" for name in _ALONG_AXIS},
    **{name: f"ef.linalg.{ours}(x)" for name, ours in _LINALG.items()},
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
    "addcdiv": "x + value * a / b",
    "addcmul": "x + value * a * b",
    "adjoint": "ef.matrix_transpose(x); of complex numbers, ef.conj of that",
    "aminmax": "ef.amin(x, axis), ef.amax(x, axis)",
    "bernoulli_": _DRAWN.format("ef.random.bernoulli", ", p"),
    "char": "x.astype(ef.int8)",
    "clamp_max": "ef.minimum(x, high)",
    "clamp_min": "ef.maximum(x, low)",
    "diag_embed": "ef.diag(x) of a vector; ef.vmap(ef.diag)(x) of a batch of them",
    "frac": "x - ef.trunc(x)",
    **dict.fromkeys(("get_device", "is_cpu"), "x.device"),
    "histc": "ef.histogram(x, bins)",
    **dict.fromkeys(
        ("index_add", "index_add_"), "x = ef.scatter_add(x, indices, values), which adds to rows"
    ),
    **dict.fromkeys(
        ("index_copy", "index_copy_"), "x[indices] = y; of a variable, v.scatter_update(indices, y)"
    ),
    **dict.fromkeys(
        ("index_fill", "index_fill_"),
        "x[indices] = value; of a variable, v.scatter_update(indices, ef.full(shape, value))",
    ),
    **dict.fromkeys(("index_put", "index_put_"), "x[indices] = y"),
    "indices": _PAIR,
    "is_complex": "ef.isdtype(x.dtype, 'complex floating')",
    "lerp": "x + weight * (y - x)",
    "logcumsumexp": "ef.associative_scan(ef.logaddexp, x), along the first axis",
    "mH": "ef.matrix_transpose(x); of complex numbers, ef.conj of that",
    "masked_fill_": "x[mask] = value; of a variable, v.assign(ef.where(mask, value, v))",
    **dict.fromkeys(("masked_scatter", "masked_scatter_"), "x[mask] = y"),
    "masked_select": "x[mask]",
    "matrix_power": "ef.linalg.matrix_power(x, n)",
    "msort": "ef.sort(x, 0)",
    "ndimension": "x.ndim",
    "new_empty": "ef.empty(shape, dtype=x.dtype, device=x.device)",
    "normal_": _DRAWN.format("ef.random.normal", ", loc, scale"),
    "random_": _DRAWN.format("ef.random.randint", ", low, high"),
    "reshape_as": "x.reshape(y.shape)",
    "scatter_reduce": "ef.segment_sum(values, indices, count), and segment_max, segment_min and "
    "segment_mean",
    "swapdims": "x.swapaxes(i, j)",
    "take_along_dim": "ef.take_along_axis(x, indices, axis)",
    "to_dense": "leave it out: a tensor is dense; ef.IndexedSlices has to_dense()",
    **dict.fromkeys(
        ("to_sparse", "coalesce"), "ef.IndexedSlices(values, rows, shape) has some rows alone"
    ),
    "unflatten": "x.reshape((*x.shape[:axis], *sizes, *x.shape[axis + 1:]))",
    "unfold": "x[:, starts[:, None] + ef.arange(size)] along axis 1, with "
    "starts = ef.arange(0, x.shape[1] - size + 1, step)",
    "uniform_": _DRAWN.format("ef.random.uniform", ", low, high"),
    "unique_consecutive": "x[ef.concat([ef.ones(1, dtype=ef.bool), x[1:] != x[:-1]])]",
    "values": _PAIR,
    **dict.fromkeys(
        (
            "contiguous",
            "data_ptr",
            "is_contiguous",
            "pin_memory",
            "share_memory_",
            "storage",
            "storage_offset",
            "stride",
            "strides",
            "untyped_storage",
        ),
        _LAYOUT,
    ),
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
    "is_cuda": "x.device",
    "is_floating_point": "ef.isdtype(x.dtype, 'real floating')",
    "log_softmax": "ef.log_softmax(x, axis)",
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
    "norm": "ef.linalg.norm(x, axis=axis)",
    "numel": "x.size",
    "permute": "ef.permute_dims(x, axes)",
    "register_hook": "ef.custom_vjp makes a function with a derivative of its own",
    "relu": "ef.nn.functional.relu(x)",
    "repeat_interleave": "ef.repeat(x, count)",
    **dict.fromkeys(
        ("grad_fn", "is_leaf", "register_post_accumulate_grad_hook", "retain_grad", "retains_grad"),
        _KEPT,
    ),
    "resize": "x.reshape(shape)",
    "roll": "ef.roll(x, shift, axis)",
    "split": "parts of n: ef.split(x, range(n, x.shape[axis], n), axis); in so many equal parts: "
    "ef.split(x, count, axis)",
    "split_with_sizes": "ef.split(x, ends, axis), with the ends of the parts: "
    "ef.cumsum(sizes)[:-1]",
    "sub_": "x -= y",
    "t": "x.T",
    "tile": "ef.tile(x, repetitions)",
    "tobytes": "x.numpy().tobytes()",
    "topk": "ef.topk(x, count, axis)",
    "type_as": "x.astype(y.dtype)",
    "unbind": "ef.unstack(x, axis=axis)",
    "unique": "ef.unique_values(x)",
    "unsqueeze": "ef.expand_dims(x, axis)",
    "view": "x.reshape(shape)",
    "view_as": "x.reshape(y.shape)",
    "where": "ef.where(condition, x, y)",
    "zero_": "x[...] = 0; of a variable, x.assign(ef.zeros(x.shape))",
}

#: methods that are functions in some frameworks
ALSO_FUNCTIONS: Final = (
    "addcdiv", "addcmul", "adjoint", "aminmax", "backward", "bmm", "chunk", "clamp_max",
    "clamp_min", "diag_embed", "frac", "histc", "index_copy", "index_fill",
    "index_put", "is_complex", "is_floating_point", "lerp", "logcumsumexp", "masked_fill",
    "masked_scatter", "masked_select", "mm", "msort", "nelement", "numel", "scatter_reduce",
    "split_with_sizes", "unflatten", "unique_consecutive",
)  # fmt: skip
#: hint where elements of a variable are assigned; also its error
ROWS: Final = (
    "of a variable: v.scatter_update(rows, x) for rows, such as ef.arange(2, 5), v.assign(x) for "
    "all, or v.assign(ef.index_update(v, (slice(2, 5), 0), x))"
)
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
    **by_name(
        {
            "print(profile) shows ops and lines; profile.table() and profile.lines() have the "
            "rows, the slowest first": "key_averages ops print print_stats print_table report show "
            "summary top total_average",
            "profile.save('trace.json') writes it for Perfetto and Chrome": "dump_stats "
            "export_chrome_trace export_stacks",
            "pandas.DataFrame(profile.table()), or of profile.lines()": "to_pandas",
            "profile.seconds is the time of the block; row.total that of a row, for row in "
            "profile.table()": "total",
            "profile.outside() has waits by line, profile.queues() those at queues": "waits",
            "f.explain() of a traced function; profile.outside() has their time": "retraces traces",
        }
    ),
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

#: of the rows of a profile
STATISTICS: Final = by_name(
    {
        "row.calls is their number": "count ncalls num_calls",
        "row.total is the time of all its calls, row.mean of one": "cpu_time cpu_time_total "
        "cumtime duration elapsed seconds self_cpu_time_total time tottime",
    }
)
#: of rows of a profile by op, and by line
OP_ROWS: Final = STATISTICS | by_name(
    {
        "row.name is the name of the op": "key op",
        "row.nbytes are the bytes of the results of all calls, row.largest of one call at most":
            "bytes cpu_memory_usage max_bytes memory output_bytes peak self_cpu_memory_usage size",
    }
)  # fmt: skip
LINE_ROWS: Final = STATISTICS | {
    **dict.fromkeys(("code", "name", "op"), "row.text is the code of the line"),
    "source": "row.file and row.line are the place",
}
#: of traced functions
TRACED: Final = by_name(
    {
        "len(f.traces) is their number; f.explain() tells why each was made":
            "cache_size experimental_get_tracing_count num_traces retraces trace_count",
        "f.graph(x) is the graph for such arguments":
            "concrete_function get_concrete_function inspect_ir lower",
        "with ef.profile() as profile: f(x)": "benchmark profile time timeit",
        "f.explain('costs') has the operations and the bytes of each node":
            "cost cost_analysis flops memory_analysis",
        "f.clear()": "clear_cache reset",
    }
)  # fmt: skip

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
