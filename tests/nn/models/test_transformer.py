"""A transformer, trained to write words backwards, which takes attention to positions."""

from __future__ import annotations

from pathlib import Path
from typing import final

import pytest

import eagerflow as ef
from eagerflow import nn
from tests.nn.models.runs import Run, dense, goes_on, reached, the_same_traced

F = nn.functional

LETTERS, LENGTH = 8, 6
SEPARATOR = LETTERS  # the token between a word and the word backwards
STEPS = 60


@final
class Block(nn.Module):
    """Attention and an MLP, each with a layer norm before it and a residual around it."""

    def __init__(self, size: int, heads: int, dropout: float) -> None:
        self.norm1 = nn.LayerNorm(size)
        self.attention = nn.MultiHeadAttention(size, heads, dropout=dropout)
        self.norm2 = nn.LayerNorm(size)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), F.gelu, nn.Linear(4 * size, size))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: ef.Tensor) -> ef.Tensor:
        x = x + self.dropout(self.attention(self.norm1(x), is_causal=True))
        return x + self.dropout(self.mlp(self.norm2(x)))


@final
class Transformer(nn.Module):
    """A decoder with scores for the next token at each position."""

    def __init__(self, tokens: int, length: int, size: int = 32, depth: int = 2) -> None:
        self.tokens = nn.Embedding(tokens, size)
        self.positions = nn.Embedding(length, size)
        self.blocks = [Block(size, heads=2, dropout=0.05) for _ in range(depth)]
        self.norm = nn.LayerNorm(size)
        self.output = nn.Linear(size, tokens)

    def forward(self, tokens: ef.Tensor) -> ef.Tensor:
        x = self.tokens(tokens) + self.positions(ef.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.output(self.norm(x))


def new_model() -> Transformer:
    return Transformer(LETTERS + 1, 2 * LENGTH)


def words(count: int, seed: int) -> ef.Tensor:
    return ef.random.Generator(seed).randint((count, LENGTH), 0, LETTERS)


def rows_of(letters: ef.Tensor) -> ef.Tensor:
    separators = ef.full((letters.shape[0], 1), SEPARATOR)
    return ef.concat([letters, separators, ef.flip(letters, axis=1)], axis=1)


def loss_of(model: Transformer, rows: ef.Tensor) -> ef.Tensor:
    """The cross-entropy of the second half of rows: the first half is random."""
    scores = model(rows[:, :-1])[:, LENGTH:]
    return F.cross_entropy(scores.reshape((-1, LETTERS + 1)), rows[:, LENGTH + 1 :].reshape(-1))


def make(traced: bool, seed: int = 0, count: int = 1024) -> Run:
    ef.random.seed(seed)
    model = new_model()
    rate = ef.optim.WarmUp(ef.optim.CosineSchedule(1e-2, steps=STEPS), steps=10)
    optimiser = ef.optim.AdamW(model.trainable, lr=rate, weight_decay=0.01)
    gradients_of = ef.value_and_grad(lambda rows: loss_of(model, rows), wrt=model.trainable)

    def train(rows: ef.Tensor) -> tuple[ef.Tensor, ef.Tensor]:
        loss, gradients = gradients_of(rows)
        gradients, norm = ef.optim.clip_by_global_norm(gradients, 1.0)
        optimiser.update(gradients)
        return loss, norm

    step = ef.trace(train) if traced else train
    rows = rows_of(words(count, seed=0))
    data = iter(ef.data.Dataset.from_tensors(rows).shuffle(seed=0).batch(32).repeat())
    return Run(
        {"model": model, "optimiser": optimiser, "data": data},
        lambda: dict(zip(("loss", "norm"), step(next(data)), strict=True)),
        [step],
    )


def written_by(model: Transformer, letters: ef.Tensor) -> ef.Tensor:
    """The model's output for words, generated letter by letter."""
    tokens = ef.concat([letters, ef.full((letters.shape[0], 1), SEPARATOR)], axis=1)
    for _ in range(LENGTH):
        best = model(tokens)[:, -1].argmax(axis=-1)
        tokens = ef.concat([tokens, best[:, None]], axis=1)
    return tokens[:, LENGTH + 1 :]


@pytest.mark.slow
def test_it_learns_to_reverse_words() -> None:
    run, losses = the_same_traced(make, STEPS)
    assert losses[0]["loss"] > 2  # as good as guessing: log(8) is 2.08
    assert losses[-1]["loss"] < 0.05
    new = words(100, seed=99)
    model = run.kept["model"].eval()
    assert bool((written_by(model, new) == ef.flip(new, axis=1)).all())


def test_words_get_longer_in_one_trace() -> None:
    """Each letter adds a token: the second length makes a trace for all lengths."""
    model, new = new_model().eval(), words(3, seed=0)
    expected = written_by(model, new)
    traced = ef.trace(model)
    tokens = ef.concat([new, ef.full((3, 1), SEPARATOR)], axis=1)
    for _ in range(LENGTH):
        tokens = ef.concat([tokens, traced(tokens)[:, -1:].argmax(axis=-1)], axis=1)
    assert bool((tokens[:, LENGTH + 1 :] == expected).all())
    assert len(traced.traces) == 2


def test_a_token_does_not_see_those_after_it() -> None:
    model, rows = new_model().eval(), rows_of(words(4, seed=0))
    for position in (1, LENGTH, 2 * LENGTH - 1):
        other = ef.concat([rows[:, :position], (rows[:, position:-1] + 1) % LETTERS], axis=1)
        before = model(rows[:, :-1])[:, :position], model(other)[:, :position]
        assert bool(ef.allclose(*before, rtol=1e-5, atol=1e-5))
        assert not bool(ef.allclose(model(rows[:, :-1]), model(other), atol=1e-3))


def test_gradients_reach_all_parameters() -> None:
    ef.random.seed(0)
    model, rows = new_model(), rows_of(words(32, seed=0))
    _, gradients = ef.value_and_grad(lambda: loss_of(model, rows), wrt=model.trainable)()
    # a constant added to all scores of a query leaves its attention weights as they are
    constant = {f"blocks.{i}.attention.key.bias" for i in range(2)}
    assert reached(gradients) | constant == set(model.parameters)
    assert isinstance(gradients["tokens.weight"], ef.IndexedSlices)


def test_embedding_and_output_may_share_their_weights() -> None:
    """One variable, one gradient: the sum of the gather's and the product's (Press, 2017)."""
    ef.random.seed(0)
    model, rows = new_model().eval(), rows_of(words(8, seed=0))
    model.output.weight = model.tokens.weight
    assert "output.weight" not in model.state
    gradients_of = ef.value_and_grad(lambda: loss_of(model, rows), wrt=model.trainable)
    _, gradients = gradients_of()
    _, again = ef.trace(gradients_of)()
    assert all(bool((dense(again[p]) == dense(gradients[p])).all()) for p in gradients)

    apart = new_model().eval()
    apart.load_state({**model.state, "output.weight": model.output.weight})
    _, parts = ef.value_and_grad(lambda: loss_of(apart, rows), wrt=apart.trainable)()
    both = dense(parts["tokens.weight"]) + parts["output.weight"]
    assert bool(ef.allclose(gradients["tokens.weight"], both, rtol=1e-4, atol=1e-5))


def test_blocks_that_are_computed_twice_give_the_same_gradients() -> None:
    """`ef.remat` accepts modules like functions."""
    block, x = Block(16, heads=2, dropout=0.0), ef.random.Generator(0).normal((3, 5, 16))
    again = ef.remat(block)
    gradients = [
        ef.value_and_grad(lambda f=f: (f(x) ** 2).sum(), wrt=block.trainable)()[1]
        for f in (block, again)
    ]
    assert all(bool((gradients[0][p] == gradients[1][p]).all()) for p in block.trainable)


@pytest.mark.parametrize("traced", [False, True])
def test_a_run_goes_on(traced: bool, tmp_path: Path) -> None:
    goes_on(make, tmp_path, traced)


def test_a_smaller_last_batch_is_one_more_trace() -> None:
    expected = make(traced=False, count=71).train(8)  # 32, 32 and 7 rows
    traced = make(traced=True, count=71)
    assert traced.train(8) == expected
    (step,) = traced.functions
    assert [t.reason for t in step.traces] == [
        "the first call",
        "rows: now i64[7,13]@cpu:0, before i64[32,13]@cpu:0",
    ]
    assert "i64[n,13]" in str(step.explain())


def test_another_mode_is_another_trace_and_back_is_none() -> None:
    run = make(traced=True)
    model, rows = run.kept["model"], rows_of(words(32, seed=0))
    score = ef.trace(lambda rows: loss_of(model, rows))
    first = float(score(rows))
    assert float(score(rows)) != first  # dropout draws anew
    model.eval()
    still = float(score(rows))
    assert float(score(rows)) == still == float(loss_of(model, rows))
    assert "model.training: was True, now False" in score.traces[1].reason
    model.train()
    run.train(2)
    score(rows)
    assert len(score.traces) == 2
    assert run.traces == [1]


def test_tuning_the_last_layers_of_a_trained_model(tmp_path: Path) -> None:
    """The attention is trained already; the output is not."""
    run = make(traced=True)
    run.train(STEPS)
    ef.checkpoint.save(tmp_path / "words", run.kept["model"].state)

    model = new_model()
    ef.checkpoint.load(tmp_path / "words", like=model.state)
    before = {path: v.numpy() for path, v in model.state.items()}
    model.freeze()
    model.output.unfreeze()
    model.norm.unfreeze()
    assert list(model.trainable) == ["norm.weight", "norm.bias", "output.weight", "output.bias"]
    optimiser = ef.optim.Adam(model.trainable, lr=1e-2)
    gradients_of = ef.value_and_grad(lambda x: loss_of(model, x), wrt=model.trainable)

    @ef.trace
    def step(rows: ef.Tensor) -> ef.Tensor:
        loss, gradients = gradients_of(rows)
        optimiser.update(gradients)
        return loss

    letters = words(64, seed=5)
    flipped = (ef.flip(letters, axis=1) + 1) % LETTERS  # each letter is the next of the alphabet
    rows = ef.concat([letters, ef.full((64, 1), SEPARATOR), flipped], axis=1)
    losses = [float(step(rows)) for _ in range(60)]
    assert losses[0] > 2
    assert losses[-1] < 0.3
    assert len(step.traces) == 1
    changed = {path for path, v in model.state.items() if (v.numpy() != before[path]).any()}
    assert changed == set(model.trainable)
