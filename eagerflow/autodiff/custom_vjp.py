"""User-defined reverse-mode derivatives: `custom_vjp` and `stop_gradient`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any, Final, final

from eagerflow.autodiff.backward import Cotangent, dense, fit
from eagerflow.autodiff.packing import Packing, pack
from eagerflow.core import tree
from eagerflow.core.composites import Composite, Passed
from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.interpreter import current
from eagerflow.core.op import bind, functions
from eagerflow.core.op_records.cost_formulas import FREE
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.core.to_tensor import tensor_of
from eagerflow.errors import GradientError, hides_frames
from eagerflow.hardware import DeviceScope, current_device_scope
from eagerflow.hardware.device_scopes import within
from eagerflow.ops.rules.type_rules import ALL, unary
from eagerflow.types import TensorSpec

_stop_gradient: Final = unary(
    "stop_gradient",
    ALL,
    None,
    saved="none",
    precision="exact",
    takes_bytes=True,
    cost=FREE,
    storage="same",
    order="input",
    fails_on="nothing",
)


def stop_gradient(x: object, /) -> Any:
    """``x`` as a constant: no derivative flows through it, and its absence is no error.

    Args:
        x: a tensor, a variable, or a tree of these; leaves that are not arrays are returned as is.

    >>> x = ef.tensor(3.0)
    >>> ef.grad(lambda x: x * ef.stop_gradient(x))(x)
    Tensor(3., f32[]@cpu:0)
    """
    leaves, treedef = tree.flatten(x)
    return tree.unflatten(
        treedef,
        [bind(_stop_gradient, tensor_of(y)) if isinstance(y, AbstractArray) else y for y in leaves],
    )


@final
class custom_vjp:
    """A function with its own reverse-mode rule, set by `defvjp`.

    Its arguments may be trees; leaves that are not tensors are constants. The rule holds for
    derivatives by the arguments: a dependence on other watched values has no derivative. Forward
    mode transposes the rule, which must be made of ops.

    Args:
        f: the function, used without differentiation.

    >>> @ef.custom_vjp
    ... def clipped(x):
    ...     return x * 1.0
    >>> clipped.defvjp(
    ...     lambda x: (clipped(x), None), lambda residuals, g: (ef.clip(g, -1.0, 1.0),)
    ... )
    >>> ef.grad(lambda x: (clipped(x) * 5.0).sum())(ef.tensor([1.0, 2.0]))
    Tensor([1., 1.], f32[2]@cpu:0)
    """

    def __init__(self, f: Callable[..., Any]) -> None:
        self._f = f
        self._forward: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None
        update_wrapper(self, f)

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Set the rule.

        Args:
            fwd: ``fwd(*args, **kwargs)`` returns ``(result, residuals)``; the residuals are a tree
                of the values that ``bwd`` needs.
            bwd: ``bwd(residuals, g)`` returns a tuple with a cotangent for each positional
                argument: a tree like the argument, or None for zero; for a single argument that is
                a tensor, its cotangent will do. ``g`` is a tree like the result, with None in place
                of leaves that are not floating tensors.
        """
        self._forward, self._backward = fwd, bwd

    @hides_frames
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        forward, backward = self._forward, self._backward
        if forward is None or backward is None:
            raise GradientError(
                f"custom_vjp: {self.name} has no rule",
                hint=f"give it one with {self.name}.defvjp(fwd, bwd)",
            )
        inputs, packing = pack(args)
        packed: list[Packing] = []  # packing of the result, once known

        def outputs(result: Any) -> tuple[Tensor, ...]:
            tensors, rest = pack(result)
            packed.append(rest)
            return tuple(tensors)

        def body(*xs: Tensor) -> tuple[Tensor, ...]:
            return outputs(self._f(*packing.unpack(xs), **kwargs))

        def passed(*xs: Tensor) -> Passed:
            given = forward(*packing.unpack(xs), **kwargs)
            if not isinstance(given, tuple) or len(given) != 2:
                raise GradientError(
                    f"custom_vjp: fwd of {self.name} must return (result, residuals)",
                    given=type(given).__name__,
                    hint="residuals are the values that bwd needs: lambda x: (f(x), x)",
                )
            ys = outputs(given[0])
            residuals, rest = pack(given[1])
            result = packed[0]._replace(constants=[None] * len(packed[0].constants))
            rule = _Rule(self.name, backward, rest, result, packing, [x.type for x in xs])
            return Passed(ys, residuals, rule)

        composite = Composite(self.name, body, passed, own_rule=True)
        results = current().call(composite, inputs)
        return packed[0].unpack(results)

    def with_parts(self, change: Callable[[Any], Any]) -> custom_vjp:
        """The same with ``change(f)`` in place of each of its functions."""
        made = custom_vjp(change(self._f))
        if self._forward is not None and self._backward is not None:
            made.defvjp(change(self._forward), change(self._backward))
        return made

    @property
    def name(self) -> str:
        """The name of the function."""
        return getattr(self._f, "__name__", "the function")


@final
@dataclass(frozen=True, slots=True)
class _Rule:
    """The pullback of a composite: calls the user's ``bwd`` and checks its result.

    Holds structures and types, no tensors.
    """

    name: str
    backward: Callable[..., Any]
    residuals: Packing
    result: Packing
    inputs: Packing
    types: Sequence[TensorSpec]
    #: the device scope of the call: user code is not bound to the device of an op
    scope: DeviceScope | None = field(default_factory=current_device_scope)

    def __call__(
        self, residuals: Sequence[Tensor], gs: Sequence[Tensor | None], wanted: Sequence[bool]
    ) -> list[Cotangent | None]:
        with within(self.scope):
            given = self.backward(self.residuals.unpack(residuals), self.result.unpack(gs))
        treedef = self.inputs.treedef
        count = len(treedef.children())
        if count == 1 and isinstance(given, (AbstractArray, IndexedSlices)):
            given = (given,)
        if not isinstance(given, tuple) or len(given) != count:
            raise GradientError(
                f"custom_vjp: bwd of {self.name} must return a tuple with a cotangent for each "
                "positional argument",
                given=f"a tuple of {len(given)}" if isinstance(given, tuple)
                else type(given).__name__,
                expected=f"a tuple of {count}",
                hint="an argument without a derivative has None: return g * x, None",
            )  # fmt: skip
        leaves: list[Any] = []
        for i, (one, child) in enumerate(zip(given, treedef.children(), strict=True)):
            leaves += [None] * child.num_leaves if one is None else self._leaves(i, one, child)
        return [
            self._checked(leaves[position], type_)
            for position, type_ in zip(self.inputs.positions, self.types, strict=True)
        ]

    def _leaves(self, i: int, given: Any, treedef: tree.TreeDef) -> list[Any]:
        try:
            return treedef.flatten_up_to(given)
        except ValueError:
            raise GradientError(
                f"custom_vjp: bwd of {self.name} gives argument {i} a cotangent of another "
                "structure",
                given=tree.show(tree.flatten(given)[1]),
                expected=tree.show(treedef),
            ) from None

    def _checked(self, g: Any, type_: TensorSpec) -> Cotangent | None:
        if g is None or not type_.dtype.is_inexact:
            return None
        if not isinstance(g, IndexedSlices):
            g = tensor_of(g)
        fitted: Cotangent | None = fit(g, type_)
        if fitted is None:
            raise GradientError(
                f"custom_vjp: bwd of {self.name} gives a cotangent that does not fit",
                given=str(g.type),
                expected=str(type_),
            )
        if self.scope is not None and fitted.device is not type_.device:
            return functions["to_device"](dense(fitted), type_.device)  # where its source is
        return fitted
