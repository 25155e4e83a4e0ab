"""Hints for names of functions in NumPy, PyTorch, TensorFlow and JAX.

Methods and attributes: `hints/attribute_names.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: the hint for three calls: a user who writes one of them needs all
TRAINING: Final = (
    "zero_grad, backward and step are two lines: "
    "loss, grads = ef.value_and_grad(loss_fn, wrt=net.trainable)(x, y); optimiser.update(grads), "
    "with a function loss_fn(x, y) that gives the loss; by a tensor w, "
    "loss, grad = ef.value_and_grad(loss_fn)(w)"
)
_SCOPED: Final = (
    "nothing is recorded outside of ef.grad, ef.value_and_grad and ef.GradientTape; "
    "ef.stop_gradient(x) cuts off within"
)
_STATE: Final = (
    "generator = ef.random.default_generator(); state = generator.state reads its state, and "
    "generator.state = state puts it back; ef.checkpoint.save(path, {'rng': generator}) keeps it; "
    "a shuffled dataset has a position of its own, it.state of its iterator"
)
_QUEUE: Final = 'ef.Queue(capacity, like, kind="{}")'


def by_name(names: Mapping[str, str]) -> dict[str, str]:
    """The hint for each name, from a table of names by hint."""
    return {name: said for said, each in names.items() for name in each.split()}


#: hint for searches of NaN
CHECKED: Final = (
    "with ef.config(check_nan=True): ... raises at the first op that makes a NaN or an infinity"
)
REPEATED: Final = (
    "leave it out: after ef.random.seed(number), a run repeats its bits on the same machine with "
    "the same kernels: ef.config(kernels='portable') or 'native'"
)

_CHECKED_GRADIENTS: Final = (
    "ef.check_grads(f, (x,)), which raises where a derivative of the first or the second order is "
    "wrong"
)
_COMPARED: Final = "np.testing.assert_allclose(x, y) takes tensors; ef.allclose(x, y) is a bool"
_TIMED: Final = "start = time.perf_counter(); f(x).item(); time.perf_counter() - start"
_WAITED: Final = (
    "x.item() and all that looks at values waits by itself; ef.hardware.synchronize() waits for "
    "all that was issued"
)

DTYPES: Final = {
    "double": "float64", "float": "float32", "half": "float16", "int": "int32", "long": "int64",
}  # fmt: skip
#: names whose counterpart has another spelling, in any namespace
SPELLINGS: Final = {
    **{
        name: f"linalg.{name}"
        for name in ["det", "inv", "lstsq", "norm", "qr", "solve", "svd", "trace"]
    },
    **{name: f"random.{name}" for name in ("bernoulli", "normal")},
    "reduce_max": "max",
    "reduce_mean": "mean",
    "reduce_min": "min",
    "reduce_sum": "sum",
    **DTYPES,
    **by_name(
        {
            "Dataset": "DataLoader",
            "Queue": "FIFOQueue",
            "AbstractOptimiser": "Optimizer",
            "atanh": "arctanh",
            "digamma": "psi",
            "lgamma": "gammaln loggamma",
            "sigmoid": "expit",
            "isin": "in1d",
            "float64": "float_",
            "concat": "cat",
            "clip": "clamp clip_by_value",
            "copy": "clone",
            "tensor": "constant",
            "asarray": "as_tensor convert_to_tensor",
            "broadcast_arrays": "broadcast_tensors",
            "linalg.cho_solve": "cholesky_solve",
            "linalg.expm": "matrix_exp",
            "linalg.lu": "lu_unpack",
            "linalg.pinv": "pinverse",
            "outer": "ger",
            "swapaxes": "swapdims",
            "take_along_axis": "take_along_dim",
            "custom_vjp": "custom_gradient",
            "random.Generator": "default_rng",
            "stop_gradient": "detach",
            "take": "gather index_select",
            "eye": "identity",
            "linalg.inv": "inverse",
            "random.normal": "standard_normal",
            "py_call": "numpy_function pure_callback py_function",
            "random.uniform": "random random_sample",
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

#: of the package itself: hints for names without a counterpart
FUNCTIONS: Final = {
    **dict.fromkeys(
        [
            "enable_grad",
            "inference_mode",
            "is_grad_enabled",
            "is_inference_mode_enabled",
            "no_grad",
            "set_grad_enabled",
        ],
        _SCOPED,
    ),
    "PaddingFIFOQueue": _QUEUE.format("padding"),
    "PriorityQueue": _QUEUE.format("priority"),
    "RandomShuffleQueue": _QUEUE.format("shuffle"),
    "Session": "graph = f.graph(...) of a traced function f; graph.run(fetches, feeds)",
    "boolean_mask": "x[mask]",
    **by_name(
        {
            _CHECKED_GRADIENTS: "gradcheck gradgradcheck",
            _COMPARED: "assert_allclose assert_array_equal assert_close assert_equal testing",
            _TIMED: "benchmark timeit",
            _WAITED: "synchronize",
            "ef.nn.functional": "functional",
            "f.explain() of a traced function f": "explain",
            "@ef.trace(compile='off') makes a graph that is not compiled": "compiler",
            "ef.reshape(ef.stack(ef.meshgrid(x, y, indexing='ij'), axis=-1), (-1, 2))": (
                "cartesian_prod"
            ),
        }
    ),
    "from_numpy": "ef.asarray(array) shares its memory, ef.tensor(array) copies",
    **dict.fromkeys(["amp", "autocast"], "x.astype(ef.bfloat16); layers take a dtype, too"),
    "GradScaler": "bfloat16 needs no scaled loss: x.astype(ef.bfloat16); of float16, "
    "ef.cond(ef.isfinite(norm), lambda: optimiser.update(grads), lambda: None) skips an update",
    "betainc": "ef.distributions.Beta draws and has densities; its distribution function is not "
    "here: scipy.special.betainc(a, b, x.numpy())",
    "bitwise_count": "np.bitwise_count(x.numpy())",
    "cast": "x.astype(dtype)",
    "compile": "@ef.trace makes a graph of a function, and compiles it",
    "device_put": "x.to(device)",
    "erfcinv": "ef.erfinv(1 - x)",
    "euler_gamma": "0.5772156649015329",
    **dict.fromkeys(["export", "fx"], "ef.trace: f.graph(...) gives the graph of a function"),
    "float_power": "x.astype(ef.float64) ** y",
    "fori_loop": "in a traced function, for i in range(n) is a loop of the graph if n is a tensor",
    "fromfunction": "f(*ef.meshgrid(*map(ef.arange, shape), indexing='ij'))",
    "gather_nd": "x[i, j]",
    **dict.fromkeys(["get_rng_state", "set_rng_state"], _STATE),
    **dict.fromkeys(
        ["check_numerics", "debug_nans", "detect_anomaly", "set_detect_anomaly"], CHECKED
    ),
    "is_tensor": "isinstance(x, ef.Tensor)",
    "jit": "@ef.trace makes a graph of a function",
    "load": "ef.checkpoint.load(path)",
    "manual_seed": "ef.random.seed(number)",
    "initial_seed": "ef.random.default_generator().state['seed']",
    **dict.fromkeys(("may_share_memory", "shares_memory"), "no question here: values never change"),
    "Generator": "generator = ef.random.Generator(seed)",
    "multinomial": "ef.random.categorical((), ef.log(p)) draws one index for each row of p",
    "ndim": "x.ndim",
    "norm": "ef.linalg.norm(x); the normal distribution is ef.distributions.Normal",
    "placeholder": "the arguments of a traced function are the inputs of its graph",
    "put_along_axis": "x = ef.update_along_axis(x, indices, values, axis), which gives a new value",
    "rand": "ef.random.uniform((2, 3)), whose shape is one tuple",
    "randint": "ef.random.randint((2, 3), 0, 10): the shape comes first",
    "randn": "ef.random.normal((2, 3)), whose shape is one tuple",
    "require": "ef.asarray(x, dtype=...)",
    "save": "ef.checkpoint.save(path, tree)",
    "set_default_device": "with ef.device(device): ...",
    "shape": "x.shape",
    "size": "x.size",
    "use_deterministic_algorithms": REPEATED,
    "watch": "ef.dashboard() shows running functions, ef.show(f) one; tape.watch(x) is of a tape",
    "special": "ef itself has these functions: ef.erf, ef.gammainc, ef.lgamma, ef.logsumexp; a "
    "kernel is registered by ef.extending.special",
    "stats": "ef.distributions has densities, as ef.distributions.Normal(0, 1).log_prob(x)",
    "trim_zeros": "x[ef.nonzero(x)[0].min() : ef.nonzero(x)[0].max() + 1]",
    "unwrap": "np.unwrap(x.numpy())",
    "view": "ef.reshape(x, shape)",
}

_KERNELS: Final = (
    "ef.config(kernels='portable'), at the start of a program, computes with NumPy's functions, "
    "ef.config(kernels='native') with eagerflow's own, which is the default; "
    "`eagerflow info` names those in force"
)
#: of the package itself: hints for settings, and for their values
SETTING_NAMES: Final = by_name(
    {
        _KERNELS: "backend get_backend get_kernels kernel_library kernels native native_kernels "
        "portable_kernels set_backend set_kernels use_native use_portable",
        _KERNELS + "; a kernel of your own: from eagerflow.extending import portable": "portable",
        "ef.config(threads=count)": "get_num_interop_threads get_num_threads num_threads "
        "set_num_threads set_num_interop_threads set_threads threads",
        "ef.config(cpu_devices=count)": "cpu_devices set_cpu_devices",
        "ef.config(gpu_memory_limit=bytes)": "gpu_memory_limit memory_limit set_memory_limit "
        "set_per_process_memory_fraction",
        "ef.config(moves='error') refuses the moves of `ef.device` scopes": "moves",
        "ef.config(soft_placement=True)": "set_soft_device_placement soft_placement",
        "ef.config(verify=True)": "verify",
        CHECKED: "check_nan set_check_nan",
        REPEATED: "deterministic set_deterministic",
        "ef.config(threads=2), or the name of another setting; with ef.config(...): ... is a block":
            "set_config set_flags set_option set_options update_config",
    }
)  # fmt: skip
#: of ops of one's own
OWN_OPS: Final = {
    "register_autograd": "vjp= of define is the derivative, a function for each operand (or "
    "joint(rule), one that gives a tuple): "
    "define('square', infer=elementwise(INEXACT), saved='inputs', "
    "vjp=(lambda g, out, x: g * 2 * x,))",
    "register_fake": "infer= of define gives the type of the result from those of the operands: "
    "infer=elementwise(INEXACT), or infer=lambda kind, *, axis: kind.like(shape=...)",
    "register_kernel": "from eagerflow.extending import special, a decorator: "
    "@special('square', 'cpu', (ef.float32,)) of a function of NumPy arrays and attributes",
    "register_vmap": "batch= of define is the batching rule, which ops that broadcast do not need: "
    "batch=lambda at: at.bind(*at.all_whole(), **at.attrs), where at.all_whole() are the inputs, "
    "each with an axis of rows in front",
    "opcheck": "each call of a kernel is compared with its type rule; ef.check_grads(f, (x,)) "
    "checks derivatives of the first and the second order",
}
#: of ops
OPS: Final = {**OWN_OPS, **dict.fromkeys(("impl", "kernel"), OWN_OPS["register_kernel"])}
#: of modules within ``torch`` that eagerflow lacks
FUNCTIONS_OF_MODULES: Final = {
    "Function": "ef.custom_vjp(f) of a plain function f; "
    "f.defvjp(lambda x: (f(x), x), lambda x, g: (g * derivative(x),)): the second result of the "
    "first function takes the place of ctx.save_for_backward",
    **OWN_OPS,
    "ProfilerActivity": "leave it out: ef.profile() takes no arguments",
    **by_name(
        {
            _CHECKED_GRADIENTS: "gradcheck gradgradcheck",
            "ef.grad(f)(x), of a function f and not of its result; by networks "
            "ef.grad(f, wrt=net.trainable)(x)": "backward grad",
            "ef.jvp(f, (x,), (t,)) gives the value and the tangent of f(x)": (
                "dual_level forward_ad make_dual unpack_dual"
            ),
            "nets are pytrees: ef.vmap(lambda net, x: net(x), in_axes=(0, None)) of one whose "
            "variables have an axis for members": "functional_call stack_module_state",
            _TIMED: "Timer benchmark",
            "ef.remat(f)(x) recomputes values for gradients": "checkpoint",
            "print the values, or write them with tensorboardX or a csv.writer: "
            "writer.add_scalar('loss', loss.item(), step)": "SummaryWriter tensorboard",
            "any(device.kind == 'gpu' for device in ef.devices())": "is_available",
            _WAITED: "synchronize",
        }
    ),
    **{
        name: f"ef.{name}(f)(x), a function of the arguments of f"
        for name in ("hessian", "jacobian")
    },
    **{name: f"ef.{name}(f, (x,), (t,)), with tuples of arguments" for name in ("hvp", "jvp")},
    "vjp": "value, pull = ef.vjp(f, x); pull(g) gives a tuple",
    "detect_anomaly": CHECKED,
    "profile": "with ef.profile() as prof: ...; print(prof) is the table; "
    "prof.save('trace.json') writes it for Perfetto and Chrome",
    "record_function": "with ef.name_scope(name): ...",
    "set_detect_anomaly": CHECKED,
}

#: of ``ef.extending``
EXTENDING: Final = {
    "kernel": "from eagerflow.extending import portable, special, which register kernels"
}
#: of ``ef.linalg``
LINALG: Final = by_name(
    {
        "c = ef.linalg.cholesky(x), which ef.linalg.cho_solve((c, True), b) takes": "cho_factor",
        "ef.linalg.lu(x) gives the factors; ef.linalg.solve(x, b) solves": "lu_factor lu_solve",
        "a @ b @ c; ef.einsum chooses the order": "multi_dot",
        "ef.linalg.eigh: v * ef.sqrt(w) @ v.mT of w, v = ef.linalg.eigh(x), for symmetric x":
            "sqrtm",
        "ef.linalg.eigh: v * ef.log(w) @ v.mT of w, v = ef.linalg.eigh(x), for symmetric x": "logm",
        "ef.linalg.inv of ef.reshape(x, (n, n)), with n the product of the first sizes":
            "tensorinv tensorsolve",
        "c[abs(i[:, None] - i)] for i = ef.arange(len(c)), if it is symmetric": "toeplitz",
        "x[..., i, j], or ef.linalg.solve_triangular": "solve_banded solveh_banded",
    }
)  # fmt: skip
#: of ``ef.random`` and of `Generator`: draws that are made of others
_MADE: Final = {
    "binomial": "ef.sum(ef.random.bernoulli((n, *shape), p), axis=0)",
    "chisquare": "ef.random.gamma(shape, df / 2, scale=2.0)",
    "geometric": "1 + ef.floor(ef.log(ef.random.uniform(shape)) / ef.log1p(-p))",
    "laplace": "ef.distributions.Laplace(loc, scale).sample(shape)",
    "logistic": "loc + scale * ef.logit(ef.random.uniform(shape))",
    "lognormal": "ef.exp(ef.random.normal(shape, mean, sigma))",
    "multivariate_normal": "mean + ef.random.normal((*shape, len(mean))) @ "
    "ef.linalg.cholesky(cov).mT",
    "negative_binomial": "ef.random.poisson(shape, ef.random.gamma(shape, n) * (1 - p) / p)",
    "pareto": "ef.exp(ef.random.exponential(shape) / a) - 1",
    "rayleigh": "scale * ef.sqrt(2 * ef.random.exponential(shape))",
    "standard_cauchy": "ef.tan(ef.pi * (ef.random.uniform(shape) - 0.5))",
    "standard_exponential": "ef.random.exponential(shape)",
    "standard_gamma": "ef.random.gamma(shape, concentration)",
    "standard_t": "ef.random.normal(shape) / ef.sqrt(ef.random.gamma(shape, df / 2, scale=2 / df))",
    "weibull": "ef.random.exponential(shape) ** (1 / a)",
}
_CHOICE: Final = (
    "x[ef.random.randint((count,), 0, len(x))]; without repetitions, "
    "ef.random.permutation(x)[:count]; with weights, x[ef.random.categorical((count,), logits)]"
)
#: of ``ef.random``
RANDOM: Final = {
    **dict.fromkeys(["get_rng_state", "get_state", "set_rng_state", "set_state"], _STATE),
    **dict.fromkeys(["manual_seed", "set_seed"], "ef.random.seed(number)"),
    **dict.fromkeys(["PRNGKey", "RandomState", "default_rng", "key"], "ef.random.Generator(seed)"),
    **dict.fromkeys(["fold_in", "split"], "ef.random.Generator(seed) counts its draws: no keys"),
    **dict.fromkeys(
        ["multinomial", "sample"], "ef.random.categorical((), logits) draws one index for each row"
    ),
    **dict.fromkeys(["rand", "random"], "ef.random.uniform((2, 3)); the shape is one tuple"),
    "randn": "ef.random.normal((2, 3)); the shape is one tuple",
    **_MADE,
    **dict.fromkeys(["permuted", "shuffle"], "x = ef.random.permutation(x), a new value"),
    "choice": _CHOICE,
}
#: of `Generator`
GENERATORS: Final = {
    **dict.fromkeys(
        ["bit_generator", "get_state", "state_dict"],
        "generator.state is a dict of seed and ticket, and may be set",
    ),
    **dict.fromkeys(
        ["load_state_dict", "set_state"],
        "generator.state = state, or generator.load_state(state), with the state of a generator",
    ),
    **dict.fromkeys(
        ["initial_seed", "manual_seed", "seed"],
        "generator.state = {'seed': number, 'ticket': 0}, or a new one: "
        "ef.random.Generator(number); generator.state['seed'] is its seed",
    ),
    **_MADE,
    "choice": _CHOICE,
    "clone_state": "ef.random.Generator(0) with generator.state = other.state",
    "integers": "generator.randint((2, 3), 0, 10): the shape comes first",
    "random": "generator.uniform((2, 3)), whose shape is one tuple",
    **dict.fromkeys(["permuted", "shuffle"], "x = generator.permutation(x), a new value"),
    "spawn": "ef.random.Generator(seed) with another seed",
    "standard_normal": "generator.normal((2, 3)), whose shape is one tuple",
}
#: of ``ef.config``
SETTINGS: Final = {
    **dict.fromkeys(
        ["check_inf", "debug_infs", "debug_nans", "detect_anomaly"],
        "ef.config(check_nan=True) raises at the first op that makes a NaN or an infinity",
    ),
    **dict.fromkeys(["deterministic", "deterministic_algorithms"], REPEATED),
    **dict.fromkeys(
        ["default_dtype", "enable_x64"],
        "dtypes are arguments: ef.zeros(shape, dtype=ef.float64)",
    ),
    **by_name(
        {
            "ef.config(threads=count)": "num_threads n_threads",
            "ef.config(kernels='portable') computes with NumPy's functions, "
            "ef.config(kernels='native') with eagerflow's own, which is the default":
                "backend kernel kernels library native portable",
        }
    ),
}  # fmt: skip
