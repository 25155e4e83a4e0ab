"""Gradients of cases as functions of all arguments, so that gradients can be traced themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import eagerflow as ef
from eagerflow.core import tree
from eagerflow.core.tensor import Tensor

Function = Callable[..., Any]


def gradient(
    function: Function, wrt: Sequence[int], kwargs: dict[str, Any], order: int = 1
) -> Function:
    """The function of the gradients of ``function``, for cotangents made of its results.

    Args:
        function: gives tensors.
        wrt: the positions of the arguments to differentiate by; in them, the floating tensors.
        kwargs: other arguments of the function.
        order: 2 gives the gradients and the gradients of these.
    """

    def gradients(*args: Any) -> Any:
        leaves, treedef = tree.flatten(args)
        places = _places(args, wrt)

        def results(*point: Any) -> list[Any]:
            moved = list(leaves)
            for i, x in zip(places, point, strict=True):
                moved[i] = x
            outputs = tree.leaves(function(*tree.unflatten(treedef, moved), **kwargs))
            return [y for y in outputs if isinstance(y, Tensor) and y.dtype.is_inexact]

        def slopes(*point: Any) -> Any:
            return _pulled(results, point)[1]

        point = [leaves[i] for i in places]
        return slopes(*point) if order == 1 else _pulled(slopes, point)

    return gradients


def _places(args: Sequence[Any], wrt: Sequence[int]) -> list[int]:
    """Indices of the floating tensors of the arguments ``wrt`` among the leaves of all."""
    places, start = [], 0
    for i, arg in enumerate(args):
        leaves = tree.leaves(arg)
        if i in wrt:
            places += [start + k for k, x in enumerate(leaves) if _is_floating(x)]
        start += len(leaves)
    return places


def _is_floating(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype.is_inexact


def _pulled(function: Function, point: Sequence[Any]) -> Any:
    """The value, and the cotangents pulled back from one that differs from element to element."""
    value, pull = ef.vjp(function, *point)
    return value, pull(tree.map(_cotangent, value))


def _cotangent(y: Any) -> Any:
    y = ef.stop_gradient(y if isinstance(y, Tensor) else ef.asarray(y))
    return y * 0.5 + 1.0
