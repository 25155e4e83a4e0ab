"""Names of NumPy, PyTorch, TensorFlow and JAX for functions, and what is written here.

Methods and attributes: `hints/attributes.py`.
"""

from __future__ import annotations

from typing import Final

LOSS: Final = "loss, grads = ef.value_and_grad(loss_fn, wrt=net.trainable)(x, y)"
_SCOPED: Final = (
    "nothing is recorded outside of ef.grad, ef.value_and_grad and ef.GradientTape; "
    "ef.stop_gradient(x) cuts off within"
)
_QUEUE: Final = 'ef.Queue(capacity, like, kind="{}")'

#: names whose counterpart is spelled in another way, in whatever namespace
SPELLINGS: Final = {
    "DataLoader": "Dataset",
    "FIFOQueue": "Queue",
    "Optimizer": "AbstractOptimiser",
    "arctanh": "atanh",
    "bernoulli": "random.bernoulli",
    "cat": "concat",
    "clip_by_value": "clip",
    "clone": "copy",
    "constant": "tensor",
    "convert_to_tensor": "asarray",
    "custom_gradient": "custom_vjp",
    "default_rng": "random.Generator",
    "det": "linalg.det",
    "detach": "stop_gradient",
    "double": "float64",
    "float": "float32",
    "from_numpy": "asarray",
    "gather": "take",
    "half": "float16",
    "identity": "eye",
    "index_select": "take",
    "int": "int32",
    "inv": "linalg.inv",
    "inverse": "linalg.inv",
    "jacfwd": "jacobian",
    "jacrev": "jacobian",
    "long": "int64",
    "lstsq": "linalg.lstsq",
    "multinomial": "random.categorical",
    "norm": "linalg.norm",
    "normal": "random.normal",
    "numpy_function": "py_call",
    "pure_callback": "py_call",
    "py_function": "py_call",
    "qr": "linalg.qr",
    "rand": "random.uniform",
    "randint": "random.randint",
    "randn": "random.normal",
    "random": "random.uniform",
    "random_sample": "random.uniform",
    "randperm": "random.permutation",
    "recompute_grad": "remat",
    "reduce_max": "max",
    "reduce_mean": "mean",
    "reduce_min": "min",
    "reduce_sum": "sum",
    "repeat_interleave": "repeat",
    "shuffle": "random.permutation",
    "solve": "linalg.solve",
    "standard_normal": "random.normal",
    "svd": "linalg.svd",
    "switch_case": "switch",
    "trace": "linalg.trace",
    "transpose": "permute_dims",
    "trapz": "trapezoid",
    "trunc_normal_": "truncated_normal",
    "unique": "unique_values",
    "unsqueeze": "expand_dims",
    "upsample": "interpolate",
    "vectorized_map": "map",
}

#: of the package itself: what is said of names that have no counterpart
FUNCTIONS: Final = {
    "PaddingFIFOQueue": _QUEUE.format("padding"),
    "PriorityQueue": _QUEUE.format("priority"),
    "RandomShuffleQueue": _QUEUE.format("shuffle"),
    "Session": "graph = f.graph(...) of a traced function f; graph.run(fetches, feeds)",
    "append": "ef.concat([x, y])",
    "boolean_mask": "x[mask]",
    "cast": "x.astype(dtype)",
    "device_put": "x.to(device)",
    "enable_grad": _SCOPED,
    "fori_loop": "in a traced function, for i in range(n) is a loop of the graph if n is a tensor",
    "gather_nd": "x[i, j]",
    "inference_mode": _SCOPED,
    "is_tensor": "isinstance(x, ef.Tensor)",
    "jit": "@ef.trace makes a graph of a function",
    "load": "ef.checkpoint.load(path)",
    "manual_seed": "ef.random.seed(number)",
    "ndim": "x.ndim",
    "no_grad": _SCOPED,
    "placeholder": "the arguments of a traced function are the inputs of its graph",
    "save": "ef.checkpoint.save(path, tree)",
    "set_grad_enabled": _SCOPED,
    "set_num_threads": "ef.config(threads=count)",
    "shape": "x.shape",
    "size": "x.size",
    "view": "ef.reshape(x, shape)",
    "vmap": "ops take whole batches; ef.map(f, xs) is a loop over the rows of xs",
}

#: of ``ef.random``
RANDOM: Final = {
    "choice": "x[ef.random.randint((count,), 0, len(x))]; without repetitions, "
    "ef.random.permutation(x)[:count]; with weights, x[ef.random.categorical((count,), logits)]",
}
