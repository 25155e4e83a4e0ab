"""Names of NumPy, PyTorch, TensorFlow and JAX for functions, and what is written here.

Methods and attributes: `hints/attribute_names.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LOSS: Final = "loss, grads = ef.value_and_grad(loss_fn, wrt=net.trainable)(x, y)"
_SCOPED: Final = (
    "nothing is recorded outside of ef.grad, ef.value_and_grad and ef.GradientTape; "
    "ef.stop_gradient(x) cuts off within"
)
_QUEUE: Final = 'ef.Queue(capacity, like, kind="{}")'


def by_name(names: Mapping[str, str]) -> dict[str, str]:
    """What is said of each name, of a table of the names that one thing is said of."""
    return {name: said for said, each in names.items() for name in each.split()}


DTYPES: Final = {
    "double": "float64", "float": "float32", "half": "float16", "int": "int32", "long": "int64",
}  # fmt: skip
#: names whose counterpart is spelled in another way, in whatever namespace
SPELLINGS: Final = {
    **{
        name: f"linalg.{name}"
        for name in ["det", "inv", "lstsq", "norm", "qr", "solve", "svd", "trace"]
    },
    **{name: f"random.{name}" for name in ("bernoulli", "normal", "randint")},
    **{f"reduce_{name}": name for name in ("max", "mean", "min", "sum")},
    **DTYPES,
    **by_name(
        {
            "Dataset": "DataLoader",
            "Queue": "FIFOQueue",
            "AbstractOptimiser": "Optimizer",
            "atanh": "arctanh",
            "concat": "cat",
            "clip": "clamp clip_by_value",
            "copy": "clone",
            "tensor": "constant",
            "asarray": "convert_to_tensor from_numpy",
            "custom_vjp": "custom_gradient",
            "random.Generator": "default_rng",
            "stop_gradient": "detach",
            "take": "gather index_select",
            "eye": "identity",
            "linalg.inv": "inverse",
            "random.categorical": "multinomial",
            "random.normal": "randn standard_normal",
            "py_call": "numpy_function pure_callback py_function",
            "random.uniform": "rand random random_sample",
            "random.permutation": "randperm shuffle",
            "random.normal_like": "randn_like",
            "random.uniform_like": "rand_like",
            "random.randint_like": "randint_like",
            "random.poisson": "poisson",
            "remat": "recompute_grad",
            "repeat": "repeat_interleave",
            "switch": "switch_case",
            "permute_dims": "transpose",
            "trapezoid": "trapz",
            "truncated_normal": "trunc_normal_",
            "unique_values": "unique",
            "expand_dims": "unsqueeze",
            "interpolate": "upsample",
            "map": "vectorized_map",
        }
    ),
}

#: of the package itself: what is said of names that have no counterpart
FUNCTIONS: Final = {
    **dict.fromkeys(["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"], _SCOPED),
    "PaddingFIFOQueue": _QUEUE.format("padding"),
    "PriorityQueue": _QUEUE.format("priority"),
    "RandomShuffleQueue": _QUEUE.format("shuffle"),
    "Session": "graph = f.graph(...) of a traced function f; graph.run(fetches, feeds)",
    "boolean_mask": "x[mask]",
    "cast": "x.astype(dtype)",
    "compile": "@ef.trace makes a graph of a function, and compiles it",
    "device_put": "x.to(device)",
    "fori_loop": "in a traced function, for i in range(n) is a loop of the graph if n is a tensor",
    "gather_nd": "x[i, j]",
    "is_tensor": "isinstance(x, ef.Tensor)",
    "jit": "@ef.trace makes a graph of a function",
    "load": "ef.checkpoint.load(path)",
    "manual_seed": "ef.random.seed(number)",
    "ndim": "x.ndim",
    "placeholder": "the arguments of a traced function are the inputs of its graph",
    "save": "ef.checkpoint.save(path, tree)",
    "set_default_device": "with ef.device(device): ...",
    "set_num_threads": "ef.config(threads=count)",
    "shape": "x.shape",
    "size": "x.size",
    "view": "ef.reshape(x, shape)",
}

#: of ``ef.random``
RANDOM: Final = {
    **dict.fromkeys(["manual_seed", "set_seed"], "ef.random.seed(number)"),
    **dict.fromkeys(["PRNGKey", "RandomState", "default_rng", "key"], "ef.random.Generator(seed)"),
    "choice": "x[ef.random.randint((count,), 0, len(x))]; without repetitions, "
    "ef.random.permutation(x)[:count]; with weights, x[ef.random.categorical((count,), logits)]",
}
