"""Checks of the arguments of `Dataset`'s methods, before a stage is built from them."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Sequence
from typing import SupportsIndex

from eagerflow.data.base.stage import AbstractStage
from eagerflow.data.base.user_calls import OnError
from eagerflow.errors import DTypeError, SettingError, TensorValueError


def check_stage(stage: AbstractStage) -> AbstractStage:
    """Refuse an argument of `Dataset` that is no stage."""
    if not isinstance(stage, AbstractStage):
        raise TensorValueError(
            "Dataset: a dataset is not made by its constructor",
            given=f"a {type(stage).__name__}",
            hint="Dataset.from_iterable(elements), or Dataset.from_tensors(tensors) for their rows",
        )
    return stage


def unknown(length: float | None) -> str:
    """The reason why a dataset has no length, in words."""
    if length is None:
        return "the length of this dataset is not known before its end"
    return "this dataset is endless"


def count_of(method: str, name: str, value: int, least: int, what: str = "elements") -> int:
    """``value`` as a number of elements, or of ``what``; raises if it is none."""
    try:
        count = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        count = None
    if count is None or count < least:
        raise TensorValueError(
            f"{method}: {name} is not a number of {what}",
            given=repr(value),
            expected=f"an integer, at least {least}",
        )
    return count


def buckets_of(bounds: Sequence[int], count: int | Sequence[int]) -> tuple[list[int], list[int]]:
    """The bounds between buckets, and the batch size of each bucket."""
    edges = [count_of("bucket_by_length", "bound", bound, 0) for bound in bounds]
    given = [count] * (len(edges) + 1) if isinstance(count, int) else list(count)
    sizes = [count_of("bucket_by_length", "count", each, 1) for each in given]
    if edges != sorted(set(edges)) or len(sizes) != len(edges) + 1:
        raise TensorValueError(
            "bucket_by_length: bounds and counts do not make buckets",
            given=f"bounds {edges}, counts {sizes}",
            expected="ascending bounds, and a count for each bucket: one more than bounds",
        )
    return edges, sizes


def length_of(value: SupportsIndex) -> int:
    """The result of a user's length function as an int; raises if it is no length."""
    try:
        length = operator.index(value)
    except TypeError:
        length = None
    if length is None or length < 0:
        raise (DTypeError if length is None else TensorValueError)(
            "bucket_by_length: the length of an element is not valid",
            given=f"a {type(value).__name__}: {value!r}",
            expected="an integer, at least 0",
        )
    return length


def check_map(workers: int, processes: bool, on_error: OnError) -> None:
    """Refuse invalid settings of a map."""
    if processes and not workers:
        raise TensorValueError(
            "map: there are no worker processes",
            given="processes=True, workers=0",
            expected="workers=n, as many as there are cores, say",
        )
    if processes and not hasattr(os, "fork"):
        raise SettingError(
            "map: there are no worker processes on this system",
            given=f"processes=True on {sys.platform}",
            hint="leave out processes= to use threads",
        )
    check_policy("map", on_error)


def check_policy(method: str, on_error: OnError) -> None:
    """Refuse an ``on_error`` that is no policy."""
    if on_error not in ("raise", "skip") and not callable(on_error):
        raise TensorValueError(
            f"{method}: on_error is not a policy",
            given=repr(on_error),
            expected='"raise", "skip" or a function that takes the exception',
        )
