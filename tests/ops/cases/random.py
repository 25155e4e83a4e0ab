"""Cases of the random ops, as methods of a generator: it comes first among the arguments."""

from __future__ import annotations

import math

import numpy as np

import eagerflow as ef
from tests.ops.case import OpCase, Sample
from tests.ops.random import philox

SEED = 0x9E3779B97F4A7C15
FIXED = "random numbers of fixed parameters: there is nothing to differentiate"
WIDTH = {"float32": 32, "float64": 64}


def _generator_and_shape(s: Sample):
    return ef.random.Generator(SEED), s.shape


def _drawn(function, dtype, **attrs):
    """A reference: ``function`` of seed, ticket and count, with the numbers as an array."""

    def reference(generator, shape):
        count = math.prod(shape)
        values = function(SEED, 0, count, WIDTH[dtype], **attrs)
        return np.array(values, dtype).reshape(shape)

    return reference


def _floating(name, function, **attrs):
    return [
        OpCase(
            f"random.Generator.{name}",
            _generator_and_shape,
            _drawn(function, dtype, **attrs),
            kwargs={"dtype": dtype, **attrs},
            plain=True,
            dtypes=(dtype,),
            no_grad=FIXED,
            ops=("next_key", f"random_{name}"),
            tolerance=8,
            exact=name == "uniform",
            label="-".join([dtype, *map(str, attrs.values())]),
        )
        for dtype in WIDTH
    ]


def _bits(dtype):
    width = int(dtype.removeprefix("uint"))

    def reference(generator, shape):
        drawn = philox.words(SEED, 0, math.prod(shape), width)
        return np.array(drawn, dtype).reshape(shape)

    return OpCase(
        "random.Generator.bits", _generator_and_shape, reference, kwargs={"dtype": dtype},
        plain=True, dtypes=(dtype,), no_grad="bits", ops=("next_key", "random_bits"),
        label=dtype,
    )  # fmt: skip


def _integers(shape, low, high, dtype):
    count = math.prod(shape)
    drawn = (philox.words(SEED, 0, count, 64, stream) for stream in (0, 1))
    ends = (
        np.broadcast_to(np.asarray(x).astype(object), shape).ravel().tolist() for x in (low, high)
    )
    values = [philox.integer(*row) for row in zip(*ends, *drawn, strict=True)]
    return np.array(values, dtype).reshape(shape)


def _randint(low, high, dtype="int64"):
    return OpCase(
        "random.Generator.randint",
        lambda s: (ef.random.Generator(SEED), s.shape, low, high),
        lambda generator, shape, low, high: _integers(shape, low, high, dtype),
        kwargs={"dtype": dtype}, plain=True, dtypes=(dtype,), no_grad="integers",
        ops=("random_integers",), label=f"{low}-{high}-{dtype}",
    )  # fmt: skip


def _bounds(s: Sample):
    low = s.ints(-5, 5, s.shape)
    span = s.ints(1, 2, s.shape) << s.ints(0, 60, s.shape)  # on both sides of 2**32
    return ef.random.Generator(SEED), s.shape, low, low + span


def _categorical(generator, shape, logits):
    noise = philox.gumbels(SEED, 0, math.prod(shape) * logits.shape[-1], 32)
    noise = np.array(noise, np.float32).reshape((*shape, logits.shape[-1]))
    return np.argmax(noise + logits, axis=-1)


def _permutation(generator, count):
    drawn = philox.words(SEED, 0, count)
    return np.array(sorted(range(count), key=drawn.__getitem__))


def _rejection(name, function, low, high, dtype):
    """The row of a draw whose parameter is a tensor of float64."""

    def reference(generator, shape, values):
        drawn = function(SEED, 0, values.ravel().tolist())
        return np.array(drawn, dtype).reshape(shape)

    return OpCase(
        f"random.Generator.{name}",
        lambda s: (ef.random.Generator(SEED), s.shape, s.array(low, high)),
        reference, kwargs={"dtype": dtype}, plain=True, dtypes=("float64",),
        no_grad="the parameter decides what is rejected", ops=("next_key", f"random_{name}"),
        tolerance=8, label=f"{low}-{high}",
    )  # fmt: skip


CASES = [
    _rejection("gamma", philox.gammas, 0.1, 1.0, "float64"),
    _rejection("gamma", philox.gammas, 1.0, 50.0, "float64"),
    _rejection("poisson", philox.poissons, 0.0, 29.0, "int64"),
    _rejection("poisson", philox.poissons, 30.0, 300.0, "int64"),
    *_floating("uniform", philox.uniforms),
    *_floating("normal", philox.normals),
    *_floating("exponential", philox.exponentials),
    *_floating("gumbel", philox.gumbels),
    *_floating("truncated_normal", philox.truncated_normals, lower=-2.0, upper=0.5),
    *_floating("truncated_normal", philox.truncated_normals, lower=4.0, upper=6.0),
    _bits("uint32"),
    _bits("uint64"),
    _randint(-3, 4),
    _randint(0, 2**32),
    _randint(-5, 2**32 - 4),
    _randint(-(2**63), 2**63),
    _randint(7, 3 * 2**62, "uint64"),
    _randint(0, 2**64, "uint64"),
    _randint(-128, 128, "int8"),
    OpCase(
        "random.Generator.randint", _bounds,
        lambda generator, shape, low, high: _integers(shape, low, high, "int64"),
        dtypes=("int64",), no_grad="integers", ops=("random_integers",), label="tensors",
    ),
    OpCase(
        "random.Generator.bernoulli",
        lambda s: (ef.random.Generator(SEED), s.shape, s.array(0.0, 1.0)),
        lambda generator, shape, p: np.array(
            philox.uniforms(SEED, 0, math.prod(shape), 32)
        ).reshape(shape) < p,
        dtypes=("float32",), no_grad="truth values", ops=("random_uniform",),
    ),
    OpCase(
        "random.Generator.categorical",
        lambda s: (ef.random.Generator(SEED), s.shape, s.array(shape=(*s.shape, 4))),
        _categorical, dtypes=("float32",), no_grad="indices", ops=("random_gumbel",),
    ),
    OpCase(
        "random.Generator.permutation", lambda s: (ef.random.Generator(SEED), 37),
        _permutation, dtypes=("int64",), no_grad="integers", layouts=("0d",),
        ops=("random_bits", "argsort"), label="integers",
    ),
    OpCase(
        "random.Generator.permutation", lambda s: (ef.random.Generator(SEED), s.array()),
        lambda generator, x: x[_permutation(generator, len(x))], dtypes=("float32",),
        no_grad="tested where gradients of take are", layouts=("vector", "matrix", "strided"),
        ops=("random_bits", "take"), label="rows",
    ),
]  # fmt: skip
