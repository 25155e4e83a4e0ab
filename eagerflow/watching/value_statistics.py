"""Statistics of one value of a graph, taken while a step runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

#: elements examined; larger arrays are subsampled
_MOST: Final = 1 << 18
_BINS: Final = 16


@final
@dataclass(frozen=True, slots=True)
class ValueStatistics:
    """Statistics of a value.

    Attributes:
        shape: the shape of the value.
        dtype: the name of its dtype.
        size: number of its elements.
        looked_at: number of elements examined, evenly spread; all except for large values.
        least: the smallest finite element; None if there is none.
        largest: the largest finite element, likewise.
        mean: the mean of the finite elements, likewise.
        nans: number of NaN among the elements examined.
        infs: number of infinite ones among them.
        histogram: number of finite elements in each of 16 equal parts from least to largest.
    """

    shape: tuple[int, ...]
    dtype: str
    size: int
    looked_at: int
    least: float | None
    largest: float | None
    mean: float | None
    nans: int
    infs: int
    histogram: tuple[int, ...]

    def __str__(self) -> str:
        shape = ",".join(map(str, self.shape))
        parts = [f"{self.dtype}[{shape}]"]
        if self.mean is not None:
            parts.append(f"{self.least:.4g} to {self.largest:.4g}, mean {self.mean:.4g}")
        parts += [f"{self.nans} NaN"] * (self.nans > 0) + [f"{self.infs} infinite"] * (
            self.infs > 0
        )
        parts += [f"of {self.looked_at:,} elements"] * (self.looked_at < self.size)
        return ", ".join(parts)


def value_statistics(value: Any) -> ValueStatistics:
    """The statistics of an array of the host, or a number.

    Args:
        value: an object with ``__array__``, of any shape; complex numbers count by magnitude.

    >>> from eagerflow.watching.value_statistics import value_statistics
    >>> import numpy as np
    >>> print(value_statistics(np.array([1.0, 3.0, np.nan])))
    float64[3], 1 to 3, mean 2, 1 NaN
    """
    array = np.asarray(value)
    flat = array.reshape(-1)
    if len(flat) > _MOST:
        flat = flat[:: -(-len(flat) // _MOST)]
    numbers = _as_floats(flat)
    finite = numbers[np.isfinite(numbers)]
    least = largest = mean = None
    histogram = [0] * _BINS
    if len(finite):
        least, largest, mean = float(finite.min()), float(finite.max()), float(finite.mean())
        spread = largest - least
        if 0 < spread < np.inf:
            places = ((finite - least) * (_BINS / spread)).astype(np.int64)
            counts = np.bincount(np.minimum(places, _BINS - 1), minlength=_BINS)
            histogram = counts.tolist()
        else:
            histogram[0] = len(finite)
    return ValueStatistics(
        shape=array.shape, dtype=str(array.dtype), size=array.size, looked_at=len(flat),
        least=least, largest=largest, mean=mean, nans=int(np.isnan(numbers).sum()),
        infs=int(np.isinf(numbers).sum()), histogram=tuple(histogram),
    )  # fmt: skip


def _as_floats(flat: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    if flat.dtype.kind == "c":
        flat = np.abs(flat)
    if flat.dtype.kind in "OSU":  # byte strings count by length
        return np.array([len(x) for x in flat.tolist()], np.float64)
    return flat.astype(np.float64)
