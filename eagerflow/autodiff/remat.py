"""`remat`: rematerialisation, recomputing intermediate values in the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

from eagerflow.autodiff.backward import search, seeds_of
from eagerflow.autodiff.graph_recorder import Recorder
from eagerflow.autodiff.packing import Packing, pack
from eagerflow.autodiff.tape import Tape
from eagerflow.core.composites import Composite, Passed
from eagerflow.core.interpreter import current, installed
from eagerflow.core.tensor import Tensor
from eagerflow.errors import hides_frames
from eagerflow.graph.ir import Graph
from eagerflow.runtime.replay import replay


def remat(f: Callable[..., Any]) -> Callable[..., Any]:
    """``f``, with only its inputs kept on a tape, and the rest recomputed for the gradient.

    It trades time for memory: a deep network of ``remat`` blocks needs the values between the
    blocks, and inner values of one block at a time. The gradient is the same. The effects of ops
    of ``f`` are not repeated: values read from variables and keys of random draws are kept, so
    a dropout mask is the same in both passes. Python code does not run again either.

    Args:
        f: a function of trees of tensors. Arguments are passed by value: an update in place does
            not reach the caller's tensor. It may use tensors and variables from outside.

    Returns:
        A function with the arguments and results of ``f``.

    >>> block = ef.remat(lambda x: ef.exp(ef.sin(x)))
    >>> ef.grad(lambda x: block(x).sum())(ef.tensor([0.0, 1.0]))
    Tensor([1.       , 1.2533808], f32[2]@cpu:0)
    """
    name = getattr(f, "__name__", "remat")

    @hides_frames
    @wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        inputs, packing = pack((args, kwargs))
        packed: list[Packing] = []  # packing of the result, once known

        def body(*xs: Tensor) -> tuple[Tensor, ...]:
            some, named = packing.unpack(xs)
            outputs, rest = pack(f(*some, **named))
            packed.append(rest)
            return tuple(outputs)

        def forward(*xs: Tensor) -> Passed:
            return recorded(body, xs)

        outputs = current().call(Composite(name, body, forward, own_rule=False), inputs)
        return packed[0].unpack(outputs)

    return function


def recorded(body: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor]) -> Passed:
    """Run a function; keeps only the values needed to run its ops again.

    Args:
        body: computes the outputs from the inputs.
        inputs: the inputs.
    """
    recorder = Recorder(inputs)
    with installed(recorder):
        outputs = body(*inputs)
    graph, held = recorder.finish(outputs)
    return Passed(outputs, [*inputs, *held], partial(_pull, graph), held)


def _pull(
    graph: Graph, residuals: Sequence[Tensor], gs: Sequence[Tensor | None], wanted: Sequence[bool]
) -> Sequence[Any]:
    """Run the recorded ops again under a tape, and then its backward pass."""
    tape = Tape()
    sources = [(tape.watch(x),) if w else () for x, w in zip(residuals, wanted, strict=True)]
    with installed(tape):
        outputs = replay(graph, residuals, again=True)
    seeds = seeds_of(map(tape.slot_of, outputs), gs)
    return search(tape, seeds, sources, consume=True)
