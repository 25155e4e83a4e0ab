"""Composites: functions with a derivative of their own, as interpreters get them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final


@final
@dataclass(slots=True, eq=False)
class Passed:
    """The result of a `Composite`'s forward pass, for the interpreter that differentiates it.

    Attributes:
        outputs: the outputs, tensors.
        residuals: every tensor that ``pull`` will read; ``pull`` itself must hold none, so that
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
    """A function with a derivative of its own: `custom_vjp`, `remat`.

    Attributes:
        name: for messages.
        body: computes the outputs, a flat tuple, from the inputs; an interpreter
            that does not differentiate runs it.
        forward: ``forward(*inputs)`` computes the outputs as well and returns a `Passed`; a tape
            calls it instead of ``body``. Exactly one of the two is called, once.
        own_rule: whether the derivative is another than that of the ops in ``body``. If not,
            forward mode differentiates ``body``.
        node: its effect on state (see `eagerflow.core.op.Op.effect`), if it becomes one node of
            a graph. It depends on nothing but its inputs and the state that it affects; an
            interpreter that does not differentiate it passes it on to the trace below.
        depends: gives for each output the indices of the inputs, and then of ``captured``, that it
            is computed from, without those that only decide the control flow. None if not known.
        push: ``push(inputs, tangents)`` gives the outputs and their tangents; forward mode calls
            it instead of ``body``, in the chain below. None if there is only ``forward``.
        reads: the resources that it reads, with respect to which derivatives may be taken.
        keep: ``keep(*inputs)`` puts it into a graph as a node together with its derivative; a
            trace calls it instead of ``body``. None if a trace has to handle it itself.
        batch: ``batch(vmap, inputs)`` applies it to many rows at once, and gives its outputs. None
            if the batching rules of the ops in ``body`` are to be used.
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
