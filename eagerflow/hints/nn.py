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
    "dataset.padded_batch(16) pads sequences to one length, and recurrent layers take their "
    "lengths: lstm(x, lengths=lengths)"
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
    "ModuleDict": "a plain dict of modules will do",
    "ModuleList": "a plain list of modules will do",
    "Parameter": "assign an ef.Variable to an attribute",
    "ParameterDict": "a plain dict of variables will do",
    "ParameterList": "a plain list of variables will do",
    "Transformer": "ef.nn.TransformerEncoder and ef.nn.TransformerDecoder: "
    "decoder(y, encoder(x), is_causal=True)",
    "Upsample": "use the function ef.nn.functional.interpolate",
    "ZeroPad2d": "use the function ef.nn.functional.pad",
    "utils": "grads, norm = ef.optim.clip_by_global_norm(grads, max_norm) clips gradients; "
    + _PADS,
    **dict.fromkeys(
        ("pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence"), _PADS
    ),
}

#: of ``ef.nn.functional``
FUNCTIONAL: Final = {
    "gumbel_softmax": "F.softmax((logits + ef.random.gumbel(logits.shape)) / tau)",
}
#: of ``ef.distributions``
DISTRIBUTIONS: Final = {
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


def initial_hint(name: str) -> str | None:
    """The hint for a function of ``ef.nn.init`` that elsewhere sets its argument in place.

    >>> from eagerflow.hints.nn import initial_hint
    >>> initial_hint("zeros_")
    'it gives a value: v.assign(ef.nn.init.zeros(v.shape))'

    Args:
        name: a name that is no function in ``ef.nn.init``.
    """
    plain = SPELLINGS.get(name, name.removesuffix("_"))
    if not name.endswith("_") or plain not in vars(ef.nn.init):
        return None
    scale = ", scale=0.02" if plain == "normal" else ""
    return f"it gives a value: v.assign(ef.nn.init.{plain}(v.shape{scale}))"


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
        return None
    use = f"use the function ef.nn.functional.{match}"
    operands = inspect.signature(getattr(ef.nn.functional, match)).parameters.values()
    is_layer = sum(x.default is x.empty for x in operands) == 1  # and no loss
    return f"{use}; Sequential takes functions as they are" if is_layer else use
