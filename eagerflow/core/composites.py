"""Composites: functions that are differentiated in a way of their own, as interpreters get them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final


@final
@dataclass(slots=True, eq=False)
class Passed:
    """What the forward pass of a `Composite` gives to the interpreter that differentiates it.

    Attributes:
        outputs: the outputs, tensors.
        residuals: every tensor that ``pull`` will read; it must hold none of its own, so that
            an interpreter that recomputes a residual can free it in between.
        captured: tensors other than the inputs that the outputs depend on and that ``pull``
            gives cotangents for.
        pull: ``pull(residuals, cotangents, wanted)`` gives the cotangents of the inputs, then of
            ``captured``; where ``wanted`` is false it may give None.
    """

    outputs: Sequence[Any]
    residuals: Sequence[Any]
    pull: Callable[[Sequence[Any], Sequence[Any], Sequence[bool]], Sequence[Any]]
    captured: Sequence[Any] = ()


@final
@dataclass(slots=True, eq=False)
class Composite:
    """A function that is differentiated in a way of its own: `custom_vjp`, `remat`.

    Attributes:
        name: for messages.
        body: computes the outputs, a flat tuple, from the inputs; an interpreter
            that does not differentiate runs it.
        forward: ``forward(*inputs)`` computes them as well and gives a `Passed`; a tape calls it
            instead of ``body``. Exactly one of the two is called, once.
        own_rule: whether the derivative is another than that of the ops in ``body``. If not,
            forward mode goes through ``body``.
        node: what it does to state (see `eagerflow.core.op.Op.effect`), if it becomes one node of
            a graph. It depends on nothing but its inputs and what has the effect; an
            interpreter that does not differentiate it hands it on to the trace below.
        depends: gives for each output the numbers of the inputs, and then of ``captured``, that it
            is computed from; those that only decide what is computed are not among them. None if
            that is not known.
        push: ``push(inputs, tangents)`` gives the outputs and their tangents; forward mode calls
            it instead of ``body``, in the chain below. None if there is only ``forward``.
        reads: the resources that it reads inside, and that derivatives may be taken by.
        keep: ``keep(*inputs)`` puts it into a graph as a node that has its derivative with it; a
            trace calls it instead of ``body``. None where a trace has to find a way itself.
        batch: ``batch(vmap, inputs)`` applies it to many rows at once, and gives its outputs. None
            where what it is made of says how.
    """

    name: str
    body: Callable[..., tuple[Any, ...]]
    forward: Callable[..., Passed]
    own_rule: bool
    node: str | None = None
    depends: Callable[[], Sequence[frozenset[int]]] | None = None
    push: Callable[[Sequence[Any], Sequence[Any]], tuple[Any, Any]] | None = None
    reads: Sequence[Any] = ()
    keep: Callable[..., tuple[Any, ...]] | None = None
    batch: Callable[[Any, Sequence[Any]], tuple[Any, ...]] | None = None
