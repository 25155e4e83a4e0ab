"""Functions from functions to their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerflow.autodiff.tape import Tape, dense, fresh
from eagerflow.core import tree
from eagerflow.core.convert import tensor_of
from eagerflow.core.interpreter import installed
from eagerflow.core.op import functions

__all__ = ["grad", "vjp"]


def vjp(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The value of ``f`` and the function that pulls cotangents back through it."""
    flat, treedef = tree.flatten(primals)
    inputs = [fresh(tensor_of(x)) for x in flat]
    tape = Tape()
    slots = [tape.watch(x) for x in inputs]
    with installed(tape):
        result = f(*tree.unflatten(treedef, inputs))
    outputs, outdef = tree.flatten(result)
    out_slots = [tape.slot_of(tensor_of(y)) for y in outputs]

    def pull(cotangent: Any) -> Any:
        seeds = {}
        for slot, g in zip(out_slots, tree.leaves(cotangent), strict=True):
            if slot >= 0:
                seeds[slot] = tensor_of(g)
        found = tape.backward(seeds)
        gs = [found.get(s) for s in slots]
        gs = [
            functions["zeros_like"](x) if g is None else dense(g)
            for g, x in zip(gs, inputs, strict=True)
        ]
        return tree.unflatten(treedef, gs)

    return result, pull


def grad(f: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """The gradient of a scalar function."""

    def gradient(*args: Any) -> Any:
        one = isinstance(argnums, int)
        chosen = (argnums,) if isinstance(argnums, int) else argnums

        def inner(*some: Any) -> Any:
            full = list(args)
            for i, x in zip(chosen, some, strict=True):
                full[i] = x
            return f(*full)

        value, pull = vjp(inner, *[args[i] for i in chosen])
        gs = pull(functions["ones_like"](value))
        return gs[0] if one else gs

    return gradient


