"""Embeddings as layers: a row of a table for each index."""

from __future__ import annotations

from typing import final

import eagerflow as ef
from eagerflow.errors import TensorValueError
from eagerflow.extending import SIZE, hint_at, require
from eagerflow.nn import functional as F
from eagerflow.nn import init
from eagerflow.nn.module import Module

__all__ = ["Embedding", "ShardedEmbedding"]


@final
class Embedding(Module):
    """A row of a table for each index (Bengio et al., 2003).

    Input: integers of any shape; output ``[*shape, embedding_dim]``. Rows are drawn from the
    standard normal distribution. The gradient of the table is sparse, `eagerflow.IndexedSlices` of
    the rows taken, so that the cost of a step grows with these rows and not with the table.

    Args:
        num_embeddings: number of rows.
        embedding_dim: length of the rows.
        padding_idx: index of a row that starts with zeros and gets no gradient; a negative index
            counts from the end.
        dtype: dtype of the table; float32 by default.
        generator: the generator to draw initial values from; the process's own by default.

    Attributes:
        weight: the table, ``[num_embeddings, embedding_dim]``.

    Raises:
        TensorValueError: a size is less than 1, or ``padding_idx`` is out of range.

    >>> words = ef.nn.Embedding(1000, 16, padding_idx=0)
    >>> words(ef.tensor([[5, 7, 0]])).shape
    (1, 3, 16)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        dtype: ef.types.DTypeLike = None,
        generator: ef.random.Generator | None = None,
    ) -> None:
        require("Embedding", SIZE, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise TensorValueError(
                "Embedding: padding_idx is not a row",
                given=f"padding_idx={padding_idx}, num_embeddings={num_embeddings}",
                expected="a row of the table",
            )
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        table = init.normal((num_embeddings, embedding_dim), generator=generator, dtype=dtype)
        if padding_idx is not None:
            table[padding_idx] = 0.0
        self.weight = ef.Variable(table, name="weight")

    def forward(self, indices: ef.Tensor) -> ef.Tensor:
        return F.embedding(indices, self.weight, padding_idx=self.padding_idx)


hint_at(
    Embedding,
    {
        "from_pretrained": "layer = ef.nn.Embedding(*table.shape); layer.weight.assign(table); "
        "layer.freeze() keeps it as it is"
    },
)


@final
class ShardedEmbedding(Module):
    """An embedding whose table is split into several variables, such as one on each device.

    Row ``i`` is row ``i // shards`` of shard ``i % shards`` (Abadi et al., 2016, section 4.2):
    indices are partitioned by shard, rows are gathered from each shard, and the rows are stitched
    together. Input, output and initial values are as in `Embedding`. The gradient of each
    shard is `eagerflow.IndexedSlices`.

    Args:
        num_embeddings: number of rows in all shards together.
        embedding_dim: length of the rows.
        shards: number of variables.
        dtype: dtype of the variables; float32 by default.
        generator: the generator to draw initial values from; the process's own by default.

    Attributes:
        shards: the variables, ``[rows, embedding_dim]`` each; if the rows do not divide evenly,
            the first shards have one row more.

    Raises:
        TensorValueError: a size is less than 1, or there are more shards than rows.

    >>> words = ef.nn.ShardedEmbedding(1000, 16, shards=3)
    >>> words(ef.tensor([[5, 7, 0]])).shape
    (1, 3, 16)
    >>> [shard.shape for shard in words.shards]
    [(334, 16), (333, 16), (333, 16)]
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        shards: int,
        *,
        dtype: ef.types.DTypeLike = None,
        generator: ef.random.Generator | None = None,
    ) -> None:
        require(
            "ShardedEmbedding", SIZE,
            num_embeddings=num_embeddings, embedding_dim=embedding_dim, shards=shards,
        )  # fmt: skip
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        if shards > num_embeddings:
            raise TensorValueError(
                "ShardedEmbedding: there are more shards than rows",
                given=f"num_embeddings={num_embeddings}, shards={shards}",
                expected="a row in each shard",
            )
        self.shards = [
            ef.Variable(
                init.normal(
                    (len(range(i, num_embeddings, shards)), embedding_dim),
                    generator=generator, dtype=dtype,
                ),
                name=f"shard{i}",
            )
            for i in range(shards)
        ]  # fmt: skip

    def forward(self, indices: ef.Tensor) -> ef.Tensor:
        indices = ef.asarray(indices)
        flat = indices.reshape(-1)
        rows = ef.check_labels(flat, self.num_embeddings, of="rows")
        count = len(self.shards)
        shard = rows % count
        positions = ef.dynamic_partition(ef.arange(flat.shape[0]), shard, count)
        parts = ef.dynamic_partition(rows // count, shard, count)
        gathered = [ef.take(v, part, axis=0) for v, part in zip(self.shards, parts, strict=True)]
        whole = ef.dynamic_stitch(positions, gathered, size=flat.shape[0])
        return whole.reshape((*indices.shape, self.embedding_dim))
