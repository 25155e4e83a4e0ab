"""Names of parameters in other frameworks, and their counterparts here."""

from __future__ import annotations

import re
from typing import Final

from eagerflow.hints.attribute_names import ASKED, MEMORY
from eagerflow.hints.function_names import CHECKED, by_name

#: hint for updates in place
VALUES: Final = "tensors are values, take the result instead: y = f(x), or x[...] = f(x)"
_COMMON: Final = "leave it out: how elements lie in memory does not matter"

#: names of parameters here -> names elsewhere
_COUNTERPARTS: Final = {
    "lengths": "mask sequence_length sequence_lengths seq_lengths seq_lens",
    "axis axes": "dim dims axes axis reduction_indices",
    "keepdims": "keepdim keep_dims",
    "shape": "size dims sizes output_shape newshape target_shape",
    "size": "output_size shape batch_size",
    "min": "a_min low clip_value_min amin",
    "max": "a_max high clip_value_max amax",
    "low": "minval lower min a",
    "high": "maxval upper max b",
    "loc": "mean mu",
    "scale": "std stddev sigma",
    "correction": "unbiased ddof",
    "p": "prob rate keep_prob dropout",
    "start_axis": "start_dim",
    "end_axis": "end_dim",
    "k": "count diagonal offset",
    "num": "steps count",
    "capacity": "maxsize size maxlen",
    "indices_or_sections": "sections num_or_size_splits split_size_or_sections chunks",
    "repeats": "repeat repetitions dims",
    "repetitions": "reps multiples",
    "shift": "shifts",
    "num_classes depth": "num_classes depth n_classes",
    "decimals": "digits",
    "indices": "index idx",
    "weight": "weights kernel",
    "lr": "learning_rate step_size",
    "momentum": "beta",
    "betas": "beta_1 beta_2 beta1 beta2 b1 b2",
    "eps": "epsilon",
    "weight_decay": "decay l2",
    "max_norm": "clip_norm norm",
    "workers": "num_workers num_parallel_calls",
    "bias": "use_bias with_bias",
    "in_features": "input_dim input_size",
    "out_features": "units output_dim features",
    "in_channels": "in_planes",
    "out_channels": "filters",
    "kernel_size": "kernel",
    "stride": "strides",
    "dilation": "dilation_rate",
    "argnums": "argnum",
    "in_axes": "in_dims",
    "out_axes": "out_dims",
    "x": "input input_tensor a self array tensor data object arr",
    "x1": "input a x lhs",
    "x2": "other b y rhs",
    "arrays": "tensors values inputs seq xs",
    "condition": "cond",
    "generator": "rng key seed",
    "dtype": "type",
    "n": "s",
    "axis1": "dim1",
    "axis2": "dim2",
    "static": "static_argnums static_argnames",
    "compile": "backend jit_compile mode",
    "strict": "fullgraph nopython",
}


def _by_other_name() -> dict[str, tuple[str, ...]]:
    by_other: dict[str, tuple[str, ...]] = {}
    for ours, others in _COUNTERPARTS.items():
        for other in others.split():
            by_other[other] = (*by_other.get(other, ()), *ours.split())
    return by_other


#: name elsewhere -> names that the parameter may have here
NAMES: Final = _by_other_name()

#: by name here and name elsewhere, hints where the values differ as well
CONVERTED: Final = {
    ("lengths", "mask"): "lengths=mask.sum(axis=1) for a mask [batch, time], true at the first "
    "steps of each sequence",
    ("static", "static_argnums"): "static=('n',), by the names of parameters",
    ("compile", "mode"): "compile='now', 'background' or 'off'",
    ("compile", "backend"): "compile='now', 'background' or 'off'",
    ("compile", "jit_compile"): "compile='now', 'background' or 'off'",
    ("strict", "fullgraph"): "strict=True refuses effects and values that a trace would freeze; "
    "a traced function is one graph in any case",
}

#: hints for parameters without a counterpart
NOT_HERE: Final = by_name(
    {
        ASKED: "requires_grad",
        f"leave it out: a printed profile tells of the memory of the process; {MEMORY}": (
            "memory profile_memory"
        ),
        "leave it out: a profile is of all devices, and its events have types, as detail, and "
        "lines, as source": "activities on_trace_ready record_shapes schedule use_cuda with_flops "
        "with_modules with_stack",
        "rows are lists, the slowest first: profile.table()[:5], "
        "sorted(profile.table(), key=lambda row: row.mean)": "group_by_input_shape row_limit "
        "sort_by",
        "leave it out: all rows run at once; for less memory, "
        "ef.concat([ef.vmap(f)(part) for part in ef.array_split(xs, 10)]), or one row after "
        "another, ef.map(f, xs)": "chunk_size",
        "leave it out: a sum over rows is one of the results: ef.vmap(f)(xs).sum(axis=0)": (
            "axis_name spmd_axis_name"
        ),
        "leave it out: a wrong derivative raises GradientError; both modes are checked, and all "
        "orders up to order=": "check_backward_ad check_batched_grad check_forward_ad "
        "check_grad_dtypes check_undefined_grad fast_mode masked modes nondet_tol raise_exception",
        "leave it out: gradients nest, ef.grad(ef.grad(f))(x), and a function may be "
        "differentiated as often as you like": "create_graph retain_graph",
        "leave it out: a result that does not depend on an argument has a gradient of zeros": (
            "allow_unused materialize_grads"
        ),
        "leave it out: the rule gives None for an argument without a derivative": "nondiff_argnums",
        "leave it out: all rows are computed at once": "strategy vectorize",
        "leave it out: from the second call on sizes that differ are symbolic, and numbers are "
        "inputs of the graph": "dynamic reduce_retracing",
        "leave it out: the first call makes the trace": "example_inputs example_kwarg_inputs "
        "input_signature",
        "leave it out: memory of values that are not used again is reused": "donate_argnames "
        "donate_argnums",
        "leave it out: an iteration of the loop is one of the graph": "unroll",
        "leave it out: if, for and while on tensors are parts of the graph": "autograph",
        VALUES: "inplace out",
        "leave it out: ef.cond(ef.isfinite(norm), lambda: optimiser.update(grads), lambda: None) "
        f"skips an update; {CHECKED}": "error_if_nonfinite",
        "with like=, tensors go to the devices of that tree; without, to the current device: "
        "with ef.device('cpu:0'): tree = ef.checkpoint.load(path)": "map_location",
        "ef.where(mask, x, neutral) first: excluded elements become neutral ones, which change "
        "nothing": "where mask",
        "combine it with the result: x.sum() + initial, ef.maximum(x.max(), initial)": "initial",
        "x.astype(dtype) converts": "dtype",
        "data.padded_batch(16) in the place of data.batch(16) pads elements of several sizes, and "
        "data.batch(16).map(f) calls f with a batch": "collate_fn",
        "sorts are stable: ef.sort(x, axis)": "kind",
        "the matrix is made Hermitian by the mean with its transpose; of one triangle, "
        "ef.tril(x) + ef.tril(x, -1).mT makes it": "UPLO",
        "ef.tensor(x) copies, ef.asarray(x) shares memory": "copy",
        _COMMON: "order memory_format layout subok",
        "leave it out: what is copied is there when it is read": "pin_memory non_blocking",
        "leave it out: updates are made in the fastest way": "capturable foreach fused",
        "leave it out on a CPU; for a GPU make it there: with ef.device('gpu:0'): ...": "device",
        "before the layer, x = ef.nn.functional.pad(x, (1, 1, 1, 1), mode='reflect')": (
            "padding_mode"
        ),
        "leave it out: the result is a tuple": "as_tuple",
        "logits= is the output of a net, without a softmax; for probabilities, "
        "logits=ef.log(probs) or, for one, ef.logit(p)": "probs",
        "a value without a dtype of its own takes that of its neighbours: x.astype(dtype) says "
        "which": "casting",
        "the loop is written out, with its prints": "verbose",
        "correction=1 divides by n - 1": "unbiased",
        "optimiser.lr may be set at any time; a schedule is the learning rate: "
        "lr=ef.optim.CosineSchedule(0.1, steps=100)": "lr_scheduler",
        "an initial value is assigned: layer.weight = ef.Variable(value)": "kernel_initializer "
        "weight_init bias_initializer",
        "name scopes name the nodes made within: with ef.name_scope(name): ...": "name",
        "a function of its own: ef.nn.functional.relu(layer(x))": "activation",
        "mask= stands for src_mask= and tgt_mask=; in a boolean mask True means that a position "
        "is seen": "src_mask tgt_mask",
        "mask= stands for attn_mask=; in a boolean mask True means that a position "
        "is seen": "attn_mask",
        "mask=(tokens != padding)[:, None, None, :] hides padding; in a boolean mask True means "
        "that a position is seen": "src_key_padding_mask tgt_key_padding_mask key_padding_mask "
        "memory_key_padding_mask",
        "is_causal=True hides later positions": "tgt_is_causal",
        "leave it out: the batch comes first": "batch_first",
        "leave it out: the output comes alone, without the weights of attention": "need_weights "
        "average_attn_weights",
    }
)


def not_here(keyword: str) -> str:
    """The hint for a parameter without a counterpart.

    >>> from eagerflow.hints.parameter_names import not_here
    >>> not_here("batch_first")
    'leave batch_first= out: the batch comes first'

    Args:
        keyword: a name of `NOT_HERE`.
    """
    return re.sub("^leave it out", f"leave {keyword}= out", NOT_HERE[keyword])


#: by function, hint for a wrong number of arguments
COUNTS: Final = {
    "Accumulator.add": "step is the number of takes before the gradient was computed, such as "
    "optimiser.count: a value of an earlier step is dropped, and add returns False",
    **dict.fromkeys(
        ("Bernoulli", "Categorical"),
        "logits= is the output of a net, without a softmax; for probabilities, "
        "logits=ef.log(probs) or, for one, ef.logit(p)",
    ),
    **dict.fromkeys(
        [
            f"{owner}{name}"
            for owner in ("", "Tensor.")
            for name in ("all", "any", "argmax", "argmin", "max", "min")
        ],
        "keepdims= is given by name: x.max(1, keepdims=True)",
    ),
    "Tensor": "ef.tensor(data) makes one; Tensor is the class",
    "Tensor.repeat": "ef.tile(x, (2, 1)) repeats the whole, as x.repeat(2, 1) elsewhere; "
    "x.repeat(2, axis) repeats elements",
    "Tensor.to": "x.to(device) moves, x.astype(dtype) converts",
    "profile": "it takes no arguments; with ef.name_scope(name): ... names parts of a block",
    "trace": "it takes the function alone: f = ef.trace(function), and the first f(x) makes the "
    "trace; the sum of a diagonal is ef.linalg.trace(x)",
    "transpose": "two axes are swapped by ef.swapaxes(x, 1, 2)",
    "where": "ef.nonzero(condition) gives the indices where it holds; ef.where(condition, a, b) "
    "chooses",
}
#: by function, an example where its parameters do not say enough
EXAMPLES: Final = {
    "Profile.lines": "profile.lines()[:5], the slowest first",
    "Profile.table": "profile.table()[:5], the slowest first",
    "Queue": "ef.Queue(10, ef.tensor(0.0)), where like gives dtype and shape of an element",
}
#: by function, the hint where a value stands in the place of the axis, as in ``ef.max(x, y)``
AXES: Final = {
    "max": "ef.maximum(x, y) is the greater of two values, element by element",
    "min": "ef.minimum(x, y) is the smaller of two values, element by element",
    "sum": "x + y adds two arrays; the sum of one is ef.sum(x, axis)",
    "prod": "x * y multiplies two arrays; the product of one is ef.prod(x, axis)",
    "any": "x | y, or ef.logical_or(x, y), combines two arrays",
    "all": "x & y, or ef.logical_and(x, y), combines two arrays",
    "concat": "the arrays are one argument, a list: ef.concat([x, y])",
    "stack": "the arrays are one argument, a list: ef.stack([x, y])",
    **by_name(
        {
            "several arrays are stacked first: ef.stack([x, y]).mean(axis=0)": "mean",
            "several arrays are stacked first: ef.std(ef.stack([x, y]), axis=0)": "std var",
            "several arrays are stacked first: ef.argmax(ef.stack([x, y]), axis=0)":
                "argmax argmin",
            "ef.logaddexp(x, y) takes two arrays": "logsumexp",
            "x[ef.argsort(y)] sorts x by the values of y":
                "sort",
        }
    ),
}  # fmt: skip
#: hint for functions whose first parameter is a shape
SHAPES: Final = "the shape is one tuple, such as (2, 3), and later arguments have names"

#: functions that return values and indices elsewhere, with hints
PAIRS: Final = {
    **{
        name: f"values and indices are two calls: ef.{name}(x, axis), ef.arg{name}(x, axis)"
        for name in ("max", "min", "sort")
    },
    "median": "the result is the values alone: ef.median(x, axis)",
}
#: the hint for two axes that are given to ``transpose``, as in its error
SWAPPED: Final = "two axes are swapped by x.swapaxes{axes}"
#: modules that are functions elsewhere, with hints
CALLED_MODULES: Final = {
    "checkpoint": "ef.remat(f) recomputes values for gradients; ef.checkpoint.save(path, tree) "
    "writes files",
    "data": "ef.data.Dataset is the source of data",
    "function": "@ef.trace makes a graph of a function",
    "profiling": "ef.profile() is the block that measures",
}
#: attributes of tensors that are methods elsewhere, with hints
CALLED: Final = {
    "size": "x.shape is the sizes of all axes, x.shape[i] of one; x.size is how many elements",
    "shape": "x.shape is a tuple, without a call",
    "type": "x.astype(dtype) converts; x.type is dtype, shape and device, without a call",
    "ndim": "x.ndim is a number, without a call",
    "dtype": "x.dtype is the dtype, without a call; x.astype(dtype) converts",
    "device": "x.device is the device, without a call; x.to(device) moves",
    "T": "x.T is the transposed, without a call",
    "value": "v.value is the value, without a call",
    "real": "x.real is the real part, without a call",
    "imag": "x.imag is the imaginary part, without a call",
    "nbytes": "x.nbytes is a number, without a call",
    "itemsize": "x.itemsize is a number, without a call",
}
#: attributes of modules that are methods elsewhere, with hints
CALLED_OF_MODULES: Final = {
    "parameters": "optimisers take net.trainable; net.parameters is a dict of these and the "
    "frozen ones, without buffers, and without a call: list(net.parameters.values()) is a list",
    "buffers": "net.buffers is a dict, without a call",
    "state": "net.state is a dict, without a call",
    "trainable": "net.trainable is a dict, without a call",
}
