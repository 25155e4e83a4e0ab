"""Random numbers: the bits, the distributions, generators, threads, gradients."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

import eagerflow as ef
from eagerflow_kernels import table
from eagerflow_kernels.portable.random import CONVERSIONS, philox
from tests.ops.random import philox as plain

X = ef.ones(2)
FULL = 2**64 - 1
#: tests/kat_vectors of Random123, the lines "philox4x64 10": counter, key, block
KNOWN = [
    (
        (0, 0, 0, 0),
        (0, 0),
        (0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B),
    ),
    (
        (FULL, FULL, FULL, FULL),
        (FULL, FULL),
        (0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0),
    ),
    (
        (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89),
        (0x452821E638D01377, 0xBE5466CF34E90C6C),
        (0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6),
    ),
]
N = 20_000


def numpys_block(counter, key):
    """The same block from NumPy, which increments the counter before it generates."""
    before = (sum(word << (64 * i) for i, word in enumerate(counter)) - 1) % 2**256
    bits = np.random.Philox(0)
    state = bits.state
    state["state"]["counter"][:] = [(before >> (64 * i)) & FULL for i in range(4)]
    state["state"]["key"][:] = key
    state["buffer_pos"] = 4
    bits.state = state
    return tuple(bits.random_raw(4).tolist())


def portable_block(counter, key):
    arrays = [np.array([word], np.uint64) for word in (*counter, *key)]
    words = philox(tuple(arrays[:4]), tuple(arrays[4:]))
    return tuple(int(word[0]) for word in words)


# --- bits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("counter", "key", "block"), KNOWN)
@pytest.mark.parametrize("function", [plain.block, portable_block, numpys_block])
def test_known_answers_of_random123(function, counter, key, block) -> None:
    assert function(counter, key) == block


KEYS = [(5, 0), (0, 0), (FULL, 7), (3, FULL)]
#: around the sizes of a block and of the pieces that the CPU kernel works in
COUNTS = (0, 1, 2, 3, 4, 5, 8, 9, 101, 2**15 - 1, 2**15, 2**15 + 5, 2**16 + 3)


def both_kernels(name, dtypes=("uint64",)):
    special = table.find(name, "cpu", dtypes, np)
    portable = table.find(name, "none", dtypes, np)
    assert special is not portable
    return special, portable


def assert_same(a, b) -> None:
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
@pytest.mark.parametrize("stream", [0, 1])
def test_cpu_bits_are_the_portable_ones(key, dtype, stream) -> None:
    special, portable = both_kernels("random_bits")
    for count in COUNTS:
        how = {"shape": (count,), "dtype": np.dtype(dtype), "stream": stream}
        word = np.array(key, np.uint64)
        assert_same(special(word, **how), portable(word, **how))


ATTRS = {
    "random_uniform": {"digits": 24},
    "random_truncated_normal": {"lower": -1.0, "upper": 3.0},
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(CONVERSIONS))
def test_cpu_draws_are_the_portable_ones(name, dtype) -> None:
    special, portable = both_kernels(name)
    word = np.array([11, 3], np.uint64)
    for count in COUNTS:
        how = {"shape": (count,), "dtype": np.dtype(dtype), **ATTRS.get(name, {})}
        assert_same(special(word, **how), portable(word, **how))


@pytest.mark.parametrize("wide", [False, True])
def test_cpu_integers_are_the_portable_ones(wide) -> None:
    special, portable = both_kernels("random_integers", ("uint64", "int64", "int64"))
    word = np.array([11, 3], np.uint64)
    for count in COUNTS:
        low, last = np.array(-4), np.arange(count) + 7
        how = {"shape": (count,), "wide": wide}
        assert_same(special(word, low, last, **how), portable(word, low, last, **how))


@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize("name", sorted(CONVERSIONS))
def test_extreme_words_give_numbers_in_range(name, width) -> None:
    bits = np.array([0, 0, 2**width - 1, 2**width - 1, 0, 2**width - 1], f"uint{width}")
    attrs = {"digits": {32: 24, 64: 53}[width]} if name == "random_uniform" else ATTRS.get(name, {})
    values = CONVERSIONS[name](np, bits, **attrs)
    assert np.isfinite(values).all()
    if name == "random_uniform":
        assert values.min() == 0.0
        assert values.max() < 1.0
    if name == "random_exponential":
        assert values.min() >= 0.0
        assert not np.signbit(values).any()
    if name == "random_truncated_normal":
        assert values.min() >= -1.0
        assert values.max() <= 3.0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_uniforms_are_the_float32_ones_cut_off(dtype) -> None:
    wide = ef.random.Generator(1).uniform((1000,)).numpy()
    narrow = ef.random.Generator(1).uniform((1000,), dtype=dtype)
    assert narrow.dtype == dtype
    values = narrow.numpy().astype(np.float32)
    assert (values <= wide).all()
    assert (values < 1.0).all()
    assert np.abs(values - wide).max() < 0.26


# --- repeatability ----------------------------------------------------------------------------


def test_elements_are_counted_in_c_order() -> None:
    flat = ef.random.Generator(1).normal((24,)).numpy()
    for shape in [(4, 6), (2, 3, 4), (24, 1)]:
        np.testing.assert_array_equal(
            ef.random.Generator(1).normal(shape).numpy(), flat.reshape(shape)
        )
    np.testing.assert_array_equal(ef.random.Generator(1).normal((5,)).numpy(), flat[:5])


def test_seed_starts_the_default_generator_anew() -> None:
    ef.random.seed(3)
    first = [ef.random.normal((3,)), ef.random.uniform(), ef.random.randint((2,), 0, 9)]
    ef.random.seed(3)
    again = [ef.random.normal((3,)), ef.random.uniform(), ef.random.randint((2,), 0, 9)]
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    same = ef.random.Generator(3).normal((3,))
    np.testing.assert_array_equal(first[0].numpy(), same.numpy())


def test_draws_differ() -> None:
    generator = ef.random.Generator(1)
    draws = [generator.uniform((4,)).tolist() for _ in range(3)]
    draws.append(ef.random.Generator(2).uniform((4,)).tolist())
    assert len({tuple(d) for d in draws}) == 4
    assert ef.random.Generator().state["seed"] != ef.random.Generator().state["seed"]


def test_state_goes_on_where_it_was() -> None:
    generator = ef.random.Generator(5)
    generator.normal((3,))
    state = generator.state
    assert state == {"seed": 5, "ticket": 1}
    expected = generator.normal((3,)).numpy()
    for other in (ef.random.Generator(), pickle.loads(pickle.dumps(generator)), generator):
        other.state = state
        np.testing.assert_array_equal(other.normal((3,)).numpy(), expected)
    twin = copy.deepcopy(generator)
    np.testing.assert_array_equal(twin.bits((2,)).numpy(), generator.bits((2,)).numpy())
    assert repr(generator) == "Generator(seed=5, ticket=3)"


def test_tickets_wrap_around() -> None:
    generator = ef.random.Generator(0)
    generator.state = {"seed": 0, "ticket": FULL}
    generator.uniform()
    assert generator.state["ticket"] == 0


# --- distributions ----------------------------------------------------------------------------

CONTINUOUS = [
    ("uniform", {"low": -1.0, "high": 3.0}, stats.uniform(-1.0, 4.0)),
    ("normal", {"loc": 2.0, "scale": 0.5}, stats.norm(2.0, 0.5)),
    ("exponential", {"scale": 3.0}, stats.expon(scale=3.0)),
    ("gumbel", {"loc": 1.0, "scale": 2.0}, stats.gumbel_r(1.0, 2.0)),
    ("truncated_normal", {}, stats.truncnorm(-2.0, 2.0)),
    ("truncated_normal", {"lower": 3.0, "upper": 9.0}, stats.truncnorm(3.0, 9.0)),
    ("truncated_normal", {"lower": -30.0, "upper": -20.0}, stats.truncnorm(-30.0, -20.0)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "parameters", "law"), CONTINUOUS)
def test_continuous_distributions(name, parameters, law, dtype) -> None:
    draw = getattr(ef.random.Generator(20), name)
    values = draw((N,), dtype=dtype, **parameters)
    assert values.dtype == dtype
    array = values.numpy().astype(np.float64)
    assert stats.kstest(array, law.cdf).pvalue > 1e-3
    assert abs(array.mean() - law.mean()) < 5 * law.std() / N**0.5
    assert array.std() == pytest.approx(law.std(), rel=0.05)


@pytest.mark.parametrize("name", ["normal", "uniform"])
def test_neighbours_are_not_correlated(name) -> None:
    values = getattr(ef.random.Generator(4), name)((N,)).numpy()
    values = (values - values.mean()) / values.std()
    for lag in (1, 2, 3, 4, 8):
        assert abs(np.mean(values[lag:] * values[:-lag])) < 5 / N**0.5


def test_consecutive_tickets_are_not_correlated() -> None:
    generator = ef.random.Generator(0)
    rows = np.stack([generator.normal((N,)).numpy() for _ in range(3)])
    assert np.abs(np.corrcoef(rows) - np.eye(3)).max() < 5 / N**0.5


@pytest.mark.parametrize(("low", "high"), [(0, 10), (-3, 4), (250, 256)])
def test_integers_are_equally_likely(low, high) -> None:
    values = ef.random.Generator(6).randint((N,), low, high).numpy()
    counts = np.bincount(values - low, minlength=high - low)
    assert len(counts) == high - low
    assert stats.chisquare(counts).pvalue > 1e-3


def test_wide_integers_are_equally_likely() -> None:
    """2**64 words for 3 * 2**62 values: one word for each would favour every third value."""
    values = ef.random.Generator(6).randint((N,), 0, 3 * 2**62, dtype="uint64").numpy()
    counts = np.bincount((values % np.uint64(3)).astype(int), minlength=3)
    assert stats.chisquare(counts).pvalue > 1e-3
    assert stats.chisquare(np.bincount((values >> np.uint64(62)).astype(int))).pvalue > 1e-3


@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
def test_bernoulli(p) -> None:
    values = ef.random.Generator(7).bernoulli((N,), p)
    assert values.dtype == "bool"
    assert abs(values.numpy().mean() - p) < 5 * (p * (1 - p) / N) ** 0.5 + 1e-12


def test_categorical() -> None:
    weights = np.array([[1.0, 2.0, 3.0, 0.0], [5.0, 1.0, 1.0, 1.0]])
    with np.errstate(divide="ignore"):
        logits = ef.tensor(np.log(weights))
    for axis, given in ((-1, logits), (0, logits.T)):
        values = ef.random.Generator(8).categorical((N, 2), given, axis=axis).numpy()
        for column, row in zip(values.T, weights, strict=True):
            counts = np.bincount(column, minlength=4)
            possible = row > 0
            assert counts[~possible].sum() == 0
            expected = row[possible] / row.sum() * N
            assert stats.chisquare(counts[possible], expected).pvalue > 1e-3
    assert ef.random.categorical((), logits).shape == (2,)
    assert ef.random.categorical((), logits).dtype == "int64"


def test_permutations_are_equally_likely() -> None:
    generator = ef.random.Generator(9)
    counts = Counter(tuple(generator.permutation(4).tolist()) for _ in range(2400))
    assert set(counts) == set(permutations(range(4)))
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3


def test_permutation_of_rows_keeps_them() -> None:
    x = ef.reshape(ef.arange(12), (6, 2))
    shuffled = ef.random.Generator(1).permutation(x)
    assert sorted(shuffled.tolist()) == x.tolist()
    assert shuffled.tolist() != x.tolist()
    assert ef.random.permutation(0).shape == (0,)
