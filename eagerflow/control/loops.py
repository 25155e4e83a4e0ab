"""`while_loop`: a loop whose number of iterations depends on its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from eagerflow.control.applying import apply
from eagerflow.control.carry import Carry, check_iteration, own_leaves
from eagerflow.control.structured import Structured
from eagerflow.control.subgraphs import (
    argument_names,
    as_truth,
    check_callable,
    join,
    trace_subgraph,
    whole_number,
)
from eagerflow.core import interpreter, tree
from eagerflow.errors import TraceError, hides_frames
from eagerflow.runtime.python_control import repeat
from eagerflow.tracing.tracer import Tracer, tracer_of

__all__ = ["while_loop"]


@hides_frames
def while_loop(
    cond: Callable[..., Any], body: Callable[..., Any], init: Any, *,
    parallel_iterations: int = 10, max_iterations: int | None = None, recompute: bool = False,
) -> Any:  # fmt: skip
    """Repeat ``x = body(x)`` from ``init`` on, as long as ``cond(x)`` holds.

    Eagerly this is Python's ``while``. In a traced function it is one node, whose number of
    iterations is decided when it runs. Its gradient keeps what the backward pass needs of each
    iteration, so it takes memory in proportion to the number of iterations; with ``recompute`` it
    keeps only the carry, and computes each iteration again.

    Args:
        cond: gives a bool or a bool tensor without axes.
        body: gives the next carry: a tree of the same structure, with tensors of the same
            dtypes and ranks. Sizes may change. Python numbers stay numbers of their kind.
        init: a tree of tensors and numbers. The elements of a tuple or a list are passed to
            ``cond`` and ``body`` as separate arguments, anything else as one.
        parallel_iterations: how many iterations may overlap when the body is spread over devices.
        max_iterations: after how many iterations to stop in any case.
        recompute: whether the gradient computes intermediate values again instead of keeping them.

    Returns:
        The carry after the last iteration, ``init`` if there was none.

    Raises:
        TraceError: an iteration changes a structure, a dtype or a number of axes.
        DTypeError: ``cond`` gives no bool.
        ShapeError: ``cond`` gives a tensor with axes.
        TensorValueError: a number of iterations is not an int, or too small.

    >>> halve = lambda x: ef.while_loop(lambda x, n: x > 1, lambda x, n: (x / 2, n + 1), (x, 0))
    >>> halve(ef.tensor(100.0)), ef.trace(halve)(ef.tensor(100.0))
    ((Tensor(0.78125, f32[]@cpu:0), 7), (Tensor(0.78125, f32[]@cpu:0), 7))
    """
    check_callable("while_loop: cond", cond)
    check_callable("while_loop: body", body)
    most = (
        None
        if max_iterations is None
        else whole_number("while_loop: max_iterations", max_iterations, 0)
    )
    parallel = whole_number("while_loop: parallel_iterations", parallel_iterations, 1)
    loop = _Loop(cond, body, init)
    tracer = tracer_of(interpreter.current()) if interpreter.stack.installed else None
    if tracer is None:
        return loop.run(most)
    attrs: dict[str, Any] = {"parallel_iterations": parallel}
    if most is not None:
        attrs["max_iterations"] = most
    if recompute:
        attrs["recompute"] = True
    return loop.trace(tracer, attrs)


@final
class _Loop:
    """One call of `while_loop`."""

    def __init__(self, cond: Callable[..., Any], body: Callable[..., Any], init: Any) -> None:
        self.cond = cond
        self.body = body
        self.spread = type(init) in (tuple, list)
        self.kind: Any = type(init)
        self.leaves, self.treedef = own_leaves(init)

    def arguments(self, leaves: Sequence[Any]) -> Any:
        """The arguments of the functions."""
        value = tree.unflatten(self.treedef, leaves)
        return value if self.spread else (value,)

    def test(self, *args: Any) -> Any:
        """Whether there is another iteration."""
        return as_truth("while_loop: cond", self.cond(*args))

    def iteration(self, *args: Any) -> Any:
        """The next carry, as a tree like ``init``."""
        carry = self.body(*args)
        if not self.spread:
            return carry
        if type(carry) not in (tuple, list) and self.treedef.num_children == 1:
            carry = (carry,)
        return self.kind(carry) if type(carry) in (tuple, list) else carry

    # --- eagerly ---

    def run(self, most: int | None) -> Any:
        def goes_on(leaves: list[Any]) -> Any:
            return self.test(*self.arguments(leaves))

        def iteration(leaves: list[Any]) -> list[Any]:
            after, treedef = own_leaves(self.iteration(*self.arguments(leaves)))
            check_iteration("while_loop", leaves, after, self.treedef, treedef, self.body)
            return after

        return tree.unflatten(self.treedef, repeat(goes_on, iteration, self.leaves, most))

    # --- in a trace ---

    def trace(self, tracer: Tracer, attrs: dict[str, Any]) -> Any:
        names = argument_names(self.body, self.treedef, spread=self.spread)
        carry = Carry("while_loop", tracer, self.leaves, self.treedef, names, self.body)

        def arguments(part: Tracer) -> Any:
            return self.arguments(carry.enter(part))

        while True:
            failed: Exception | None = None
            try:
                loop = carry.begin()
                test = trace_subgraph(self.test, "cond", tracer, arguments, self.cond, loop)
                body = trace_subgraph(self.iteration, "body", tracer, arguments, self.body, loop)
            except (TraceError, ArithmeticError, LookupError) as error:
                failed = error
            if failed is not None:
                carry.hold(failed)
                continue
            if carry.fits(body):
                break
        (goes_on,) = test.leaves
        assert goes_on.value is not None
        test.graph.outputs = [goes_on.value]
        captured = join([test, body], carry.count)
        body.graph.outputs += body.graph.inputs[carry.count :]
        operands = [*carry.starts, *captured]
        kinds = [tracer.spec_of(x) for x in operands]
        whole = Structured(
            "while_loop",
            {"cond": test.graph, "body": body.graph, **attrs},
            kinds,
            [*carry.kinds, *kinds[carry.count :]],
        )
        outputs = apply(whole, operands)
        return tree.unflatten(self.treedef, carry.leave(outputs[: carry.count]))
