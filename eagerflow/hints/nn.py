"""Hints for other frameworks' names of layers, functions and methods of `eagerflow.nn`."""

from __future__ import annotations

import inspect
from typing import Final

import eagerflow as ef
from eagerflow.hints.function_names import SPELLINGS, TRAINING, by_name

_SET: Final = "set it as an attribute: self.name"
_PLACE: Final = "leave it out on a CPU; for a GPU make it there: with ef.device('gpu:0'): ..."
_SAVE: Final = "ef.checkpoint.save(path, net) and ef.checkpoint.load(path, like=net)"
_FREEZE: Final = (
    "net.freeze() and net.unfreeze(); net.trainable has the variables that are not frozen"
)
_PADS: Final = (
    "dataset.padded_batch(16) pads sequences to one length, of a list x = next(iter("
    "ef.data.Dataset.from_iterable(rows).padded_batch(len(rows)))); recurrent layers take their "
    "lengths: lstm(x, lengths=lengths)"
)
_SIZES: Final = "layers take all their sizes: ef.nn.Linear(in_features, out_features)"
_PADDED: Final = (
    "use the function ef.nn.functional.pad in forward: "
    "ef.nn.functional.pad(x, (1, 1, 1, 1), mode='reflect')"
)
_NORMALISED: Final = (
    "not here: a module of your own computes its weight in forward, such as "
    "w / ef.linalg.norm(w, 2) of v.value"
)
_FORWARD: Final = (
    "there are no hooks: forward of a module of your own keeps or changes what a layer gives; "
    "f.value(name) of a traced function is one of its values"
)
_ELSEWHERE: Final = (
    "ef.optim.clip_by_global_norm(grads, max_norm) gives gradients and their norm; "
    "ef.optim.global_norm(grads) the norm alone"
)

#: of ``ef.nn``, names that are no classes here
NN: Final = {
    "BCELoss": "use the function ef.nn.functional.binary_cross_entropy",
    "BCEWithLogitsLoss": "use the function ef.nn.functional.binary_cross_entropy_with_logits",
    **dict.fromkeys(
        ["DataParallel", "parallel"],
        "f.place({pattern: device}) runs parts of a traced function on several devices; "
        "ef.cluster has processes",
    ),
    **dict.fromkeys(
        ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"),
        "ef.nn.BatchNorm(channels) is one class for any number of axes",
    ),
    "Dense": "use ef.nn.Linear",
    "Lambda": "Sequential takes functions as they are: "
    "ef.nn.Sequential(ef.nn.Linear(2, 3), lambda x: x * 2)",
    "ModuleDict": "a plain dict of modules will do",
    "ModuleList": "a plain list of modules will do",
    "Parameter": "assign an ef.Variable to an attribute",
    "ParameterDict": "a plain dict of variables will do",
    "ParameterList": "a plain list of variables will do",
    "Transformer": "ef.nn.TransformerEncoder and ef.nn.TransformerDecoder: "
    "decoder(y, encoder(x), is_causal=True)",
    **dict.fromkeys(
        ("Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"),
        "use the function ef.nn.functional.interpolate",
    ),
    **dict.fromkeys(
        (
            "CircularPad1d",
            "CircularPad2d",
            "ConstantPad1d",
            "ConstantPad2d",
            "ConstantPad3d",
            "ReflectionPad1d",
            "ReflectionPad2d",
            "ReflectionPad3d",
            "ReplicationPad1d",
            "ReplicationPad2d",
            "ReplicationPad3d",
            "ZeroPad1d",
            "ZeroPad2d",
            "ZeroPad3d",
        ),
        _PADDED,
    ),
    **dict.fromkeys(
        (
            "LazyBatchNorm1d",
            "LazyBatchNorm2d",
            "LazyConv1d",
            "LazyConv2d",
            "LazyConv3d",
            "LazyConvTranspose1d",
            "LazyConvTranspose2d",
            "LazyConvTranspose3d",
            "LazyLinear",
            "UninitializedParameter",
        ),
        _SIZES,
    ),
    **{
        f"Dropout{n}d": f"use the function ef.nn.functional.dropout{n}d(x, p, "
        "training=self.training) in forward"
        for n in (1, 2, 3)
    },
    "attention": "ef.nn.functional.scaled_dot_product_attention(q, k, v)",
    "Buffer": "assign ef.Variable(value, trainable=False) to an attribute",
    "EmbeddingBag": "ef.nn.Embedding(rows, size), and embedding(x).sum(axis=1) or its mean",
    "Unflatten": "a function: lambda x: x.reshape((len(x), 8, 4, 4)); Sequential takes functions "
    "as they are",
    "modules": "the classes are in ef.nn itself",
    "parameter": "assign an ef.Variable to an attribute",
    "parameters_to_vector": "ef.concat([v.ravel() for v in net.trainable.values()])",
    "vector_to_parameters": "v.assign(part.reshape(v.shape)) for each part of the vector",
    **dict.fromkeys(
        (
            "clip_grad",
            "clip_grad_norm",
            "clip_grad_norm_",
            "clip_grads_with_norm_",
            "get_total_norm",
        ),
        _ELSEWHERE,
    ),
    **dict.fromkeys(
        ("parametrizations", "parametrize", "spectral_norm", "weight_norm"), _NORMALISED
    ),
    "utils": "grads, norm = ef.optim.clip_by_global_norm(grads, max_norm) clips gradients; "
    + _PADS,
    **dict.fromkeys(
        (
            "PackedSequence",
            "pack_padded_sequence",
            "pack_sequence",
            "pad_packed_sequence",
            "pad_sequence",
            "rnn",
            "unpad_sequence",
        ),
        _PADS,
    ),
}

#: of ``ef.nn.functional``
FUNCTIONAL: Final = {
    "alpha_dropout": "ef.nn.functional.dropout(x, p)",
    "bilinear": "ef.einsum('bi,oij,bj->bo', x, weight, y) + bias",
    "channel_shuffle": "x.reshape((n, groups, -1, *sizes)).swapaxes(1, 2).reshape(x.shape)",
    "ctc_loss": "not here: ef.scan over time with ef.logaddexp of neighbours computes it",
    "embedding_bag": "ef.nn.functional.embedding(x, weight).sum(axis=1)",
    "fold": "ef.nn.functional.conv_transpose2d(x, w) with the w of unfold: "
    "ef.eye(c * k * k).reshape((c * k * k, c, k, k))",
    "gaussian_nll_loss": "-ef.distributions.Normal(mean, ef.sqrt(variance)).log_prob(y).mean()",
    **dict.fromkeys(
        ("affine_grid", "grid_sample"),
        "not here: x[:, :, i, j] with integer tensors i and j takes pixels",
    ),
    "hinge_embedding_loss": "ef.where(y > 0, x, ef.maximum(margin - x, 0.0)).mean()",
    "multilabel_soft_margin_loss": "use the function "
    "ef.nn.functional.binary_cross_entropy_with_logits",
    "poisson_nll_loss": "(ef.exp(x) - y * x).mean(), x being the logarithm of the rate",
    "soft_margin_loss": "ef.nn.functional.softplus(-y * x).mean()",
    "triplet_margin_with_distance_loss": "ef.maximum(d(a, p) - d(a, n) + margin, 0.0).mean()",
    "unfold": "ef.nn.functional.conv2d(x, w) with w = ef.eye(c * k * k).reshape((c * k * k, c, k, "
    "k)) has the patches as channels",
    **dict.fromkeys(
        ("upsample_bilinear", "upsample_nearest"), "use the function ef.nn.functional.interpolate"
    ),
    "gumbel_softmax": "F.softmax((logits + ef.random.gumbel(logits.shape)) / tau)",
}
#: of ``ef.distributions``
_UNIT: Final = "ef.tan(ef.pi * (ef.random.uniform(shape) - 0.5))"
_CHANGED: Final = (
    "y = f(p.sample(shape)); the density of y is that of x over the derivative: of y = ef.tanh(x), "
    "p.log_prob(x) - ef.log(1 - y**2)"
)
DISTRIBUTIONS: Final = {
    "Binomial": "ef.sum(ef.random.bernoulli((n, *shape), p), axis=0) draws from one",
    "Cauchy": f"loc + scale * {_UNIT} draws from one",
    "Chi2": "ef.distributions.Gamma(df / 2, 2.0)",
    "Distribution": "ef.distributions.AbstractDistribution is the base class",
    "Geometric": "ef.floor(ef.log(ef.random.uniform(shape)) / ef.log1p(-p)) draws from one",
    "Gumbel": "loc + scale * ef.random.gumbel(shape) draws from one",
    "HalfCauchy": f"ef.abs(scale * {_UNIT}) draws from one",
    "HalfNormal": "ef.abs(ef.random.normal(shape)) * scale draws from one",
    "InverseGamma": "rate / ef.random.gamma(shape, concentration) draws from one",
    "MixtureSameFamily": "ef.logsumexp(ef.log_softmax(logits) + p.log_prob(x[..., None]), -1) is "
    "the logarithm of its density, for a distribution p of all components",
    "Multinomial": "ef.one_hot(ef.random.categorical((n,), logits), k).sum(axis=0) draws from one",
    "NegativeBinomial": "ef.random.poisson(shape, ef.random.gamma(shape, n) * p / (1 - p)) draws "
    "from one",
    **dict.fromkeys(
        ("OneHotCategorical", "OneHotCategoricalStraightThrough"),
        "ef.one_hot(ef.distributions.Categorical(logits=logits).sample(), k); with gradients, "
        "q + ef.stop_gradient(one_hot - q) of q = ef.softmax(logits)",
    ),
    "Pareto": "scale * ef.exp(ef.random.exponential(shape) / alpha) draws from one",
    "RelaxedBernoulli": "ef.sigmoid((logits + ef.logit(ef.random.uniform(logits.shape))) / "
    "temperature) draws from one",
    "RelaxedOneHotCategorical": "ef.softmax((logits + ef.random.gumbel(logits.shape)) / "
    "temperature) draws from one",
    "StudentT": "ef.random.normal(shape) / ef.sqrt(ef.random.gamma(shape, df / 2, scale=2 / df)) "
    "draws from one",
    "Weibull": "scale * ef.random.exponential(shape) ** (1 / k) draws from one",
    **dict.fromkeys(
        (
            "AffineTransform",
            "ExpTransform",
            "SigmoidTransform",
            "TanhTransform",
            "Transform",
            "TransformedDistribution",
            "transforms",
        ),
        _CHANGED,
    ),
    "constraints": "leave it out: parameters are checked by their values",
    "register_kl": "a function of your own beside ef.distributions.kl",
    "Independent": "log_prob gives one number for each distribution: p.log_prob(x).sum(-1)",
    "LogNormal": "ef.exp(ef.distributions.Normal(loc, scale).sample(shape))",
    "MultivariateNormal": "mean + scale_tril @ ef.random.normal(shape) draws from one",
    "kl_divergence": "ef.distributions.kl(p, q)",
}

#: of distributions
DRAWS: Final = by_name(
    {
        "p.mean.shape": "batch_shape",
        "scipy.stats has it, of p.mean.numpy()": "cdf icdf",
        "p.log_prob(x).sum(-1) takes an axis as one event": "event_shape",
        "parameters broadcast: p.sample(shape)": "expand",
        "p.sample(shape); gradients flow through continuous draws":
            "has_rsample rsample",
        "p.log_prob(x)": "logpdf",
        "ef.exp(p.log_prob(x))": "pdf pmf",
        "ef.sigmoid(p.logits), ef.softmax(p.logits)": "probs",
        "p.sample((n,))": "sample_n",
        "ef.exp(p.entropy())": "perplexity",
        "ef.sqrt(p.variance)": "std stddev",
    }
)  # fmt: skip
#: of modules
MODULES: Final = by_name(
    {
        f"{_SET} = module": "add_module",
        "for module in net.modules(): ...": "apply",
        "net.named_modules() gives the path and the module of all below": "children named_children",
        "a new one: ef.nn.Sequential(*layers, layer)": "append extend",
        "layers take a dtype: ef.nn.Linear(3, 2, dtype=ef.float64)": "bfloat16 double float half",
        "the loop is written out; " + TRAINING: "compile fit",
        _PLACE: "cpu cuda to",
        "net.buffers[path]": "get_buffer",
        "net.parameters[path]": "get_parameter",
        "dict(net.named_modules())[path]": "get_submodule",
        _FORWARD: "register_backward_hook register_forward_hook register_forward_pre_hook "
        "register_full_backward_hook",
        f"{_SET} = other": "register_module",
        "call the net in its mode for use: net.eval()(x)": "evaluate predict",
        "net.state gives its variables by path": "get_weights",
        "net.load_state(state)": "load_state_dict set_weights",
        _SAVE: "load_weights save save_weights",
        "net.buffers is a dict: net.buffers.items()": "named_buffers",
        "net.parameters is a dict: net.parameters.items()": "named_parameters",
        f"{_SET} = ef.Variable(value, trainable=False)": "register_buffer",
        f"{_SET} = ef.Variable(value)": "register_parameter",
        _FREEZE: "requires_grad_",
        "net.state is a dict of its variables": "state_dict",
        "net.trainable": "trainable_variables trainable_weights",
        "net.state": "variables weights",
        TRAINING: "zero_grad",
    }
)

#: of ``ef.nn.init``
_INITIAL: Final = {
    "calculate_gain": "the gain is a number: 2**0.5 of relu, 5 / 3 of tanh, 1.0 of sigmoid",
    "dirac_": "v.assign(x) with x of zeros, and ones where a channel is to stay",
    "eye_": "v.assign(ef.eye(*v.shape))",
}


def initial_hint(name: str) -> str | None:
    """The hint for a function of ``ef.nn.init`` that elsewhere sets its argument in place.

    >>> from eagerflow.hints.nn import initial_hint
    >>> initial_hint("zeros_")
    'it gives a value: v.assign(ef.nn.init.zeros(v.shape))'

    Args:
        name: a name that is no function in ``ef.nn.init``.
    """
    if name in _INITIAL:
        return _INITIAL[name]
    plain = SPELLINGS.get(name, name.removesuffix("_"))
    if not name.endswith("_") or plain not in vars(ef.nn.init):
        return None
    more = {"constant": ", value", "normal": ", scale=0.02"}.get(plain, "")
    return f"it gives a value: v.assign(ef.nn.init.{plain}(v.shape{more}))"


def function_hint(name: str) -> str | None:
    """The hint naming a function that a class of this name wraps elsewhere, or of the same name.

    >>> from eagerflow.hints.nn import function_hint
    >>> function_hint("MSELoss").partition(";")[0]
    'use the function ef.nn.functional.mse_loss'

    Args:
        name: a name that is no class in `eagerflow.nn`.
    """
    plain = name[:-2] if name.endswith(("1d", "2d", "3d")) else name
    if plain in vars(ef.nn) or name.lower() in map(str.lower, vars(ef.nn)):
        return None  # the class exists, in another spelling
    every = vars(ef.nn.functional).items()
    functions = {n.replace("_", ""): n for n, f in every if n[0] != "_" and callable(f)}
    plain = plain.lower().replace("_", "")
    match = functions.get(plain) or functions.get(plain.removesuffix("loss"))
    if match is None:
        return next((h for n, h in FUNCTIONAL.items() if n.replace("_", "") == plain), None)
    use = f"use the function ef.nn.functional.{match}"
    operands = inspect.signature(getattr(ef.nn.functional, match)).parameters.values()
    is_layer = sum(x.default is x.empty for x in operands) == 1  # and no loss
    return f"{use}; Sequential takes functions as they are" if is_layer else use
