"""User-defined forward-mode derivatives: `custom_jvp`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any, Final, TypeVar, final

from eagerflow.autodiff.backward import Cotangent, full_like
from eagerflow.autodiff.forward_mode import Broken
from eagerflow.autodiff.packing import Packing, pack
from eagerflow.autodiff.vjp_jvp import matched, vjp
from eagerflow.core import tree
from eagerflow.core.composites import Composite, Passed
from eagerflow.core.interpreter import current
from eagerflow.core.tensor import Tensor
from eagerflow.errors import GradientError, hides_frames
from eagerflow.hardware import current_device_scope
from eagerflow.hardware.device_scopes import within
from eagerflow.ops.elementwise.arithmetic import add

_Rule = TypeVar("_Rule", bound=Callable[..., Any])
_WHAT: Final = "custom_jvp"


@final
class custom_jvp:
    """A function with its own forward-mode rule, set by `defjvp` or `defjvps`.

    Reverse mode transposes the rule, which must be linear in the tangents and made of ops. So one
    rule serves `jvp`, `grad` and all transforms built on these, to any order. Arguments may be
    trees; leaves that are not floating tensors are constants.

    Args:
        f: the function, used without differentiation, and for values in reverse mode.

    >>> @ef.custom_jvp
    ... def softabs(x):
    ...     return ef.sqrt(x * x)
    >>> @softabs.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return softabs(x), ef.sign(x) * t
    >>> ef.grad(softabs)(ef.tensor(0.0)), ef.jvp(softabs, (-2.0,), (1.0,))[1]
    (Tensor(0., f32[]@cpu:0), Tensor(-1., f32[]@cpu:0))
    """

    def __init__(self, f: Callable[..., Any]) -> None:
        self._f = f
        self._rule: Callable[..., Any] | None = None
        update_wrapper(self, f)

    def defjvp(self, rule: _Rule) -> _Rule:
        """Set the rule; usable as a decorator.

        Args:
            rule: ``rule(primals, tangents, **kwargs)`` returns ``(result, tangent)``, two trees of
                one structure. ``primals`` are the positional arguments; ``tangents`` is a tuple of
                trees like the primals, with None in place of leaves that are not floating tensors.
                The rule is linear in the tangents.

        Returns:
            The rule.
        """
        self._rule = rule
        return rule

    def defjvps(self, *rules: Callable[..., Any] | None) -> None:
        """Set a rule per positional argument, for functions from tensors to one tensor.

        Args:
            rules: ``rules[i](tangent, result, *args, **kwargs)`` returns the contribution of the
                tangent of argument i to the tangent of the result; a rule of None contributes zero.

        Raises:
            GradientError: in a call, the numbers of rules and of positional arguments differ.

        >>> @ef.custom_jvp
        ... def scaled(x, y):
        ...     return x * y
        >>> scaled.defjvps(lambda t, out, x, y: t * y, None)
        >>> ef.grad(scaled, (0, 1))(ef.tensor(2.0), ef.tensor(3.0))
        (Tensor(3., f32[]@cpu:0), Tensor(0., f32[]@cpu:0))
        """

        def rule(primals: Sequence[Any], tangents: Sequence[Any], **kwargs: Any) -> Any:
            if len(rules) != len(primals):
                raise GradientError(
                    f"{_WHAT}: {self.name} has not one rule for each positional argument",
                    given=f"{len(rules)} rules, {len(primals)} arguments",
                    hint=f"{self.name}.defjvps(...) takes None for an argument without a tangent",
                )
            result = self(*primals, **kwargs)
            parts = [
                along(t, result, *primals, **kwargs)
                for along, t in zip(rules, tangents, strict=True)
                if along is not None and t is not None
            ]
            if not parts:
                return result, full_like(result, 0)
            total = parts[0]
            for part in parts[1:]:
                total = add(total, part)
            return result, total

        self._rule = rule

    @hides_frames
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        rule = self._rule
        if rule is None:
            raise GradientError(
                f"{_WHAT}: {self.name} has no rule",
                hint=f"give it one with @{self.name}.defjvp",
            )
        inputs, packing = pack(args)
        call = _Call(self.name, self._f, rule, packing, kwargs)
        composite = Composite(self.name, call.body, call.forward, own_rule=True, push=call.push)
        return call.unpacked(current().call(composite, inputs))

    @property
    def name(self) -> str:
        """The name of the function."""
        return getattr(self._f, "__name__", "the function")


@final
class _Call:
    """A call as the parts of a `Composite`: functions of flat lists of tensors.

    Args:
        name: name of the function.
        f: the function.
        rule: its rule.
        packing: the packing of the positional arguments.
        kwargs: the keyword arguments, constants.
    """

    def __init__(
        self, name: str, f: Callable[..., Any], rule: Callable[..., Any], packing: Packing,
        kwargs: dict[str, Any],
    ) -> None:  # fmt: skip
        self._name = name
        self._f = f
        self._rule = rule
        self._packing = packing
        self._kwargs = kwargs
        self._result: Packing | None = None
        #: the device scope of the call: user code is not bound to the device of an op
        self._scope = current_device_scope()

    def unpacked(self, results: Sequence[Tensor]) -> Any:
        assert self._result is not None  # set by the methods below
        return self._result.unpack(results)

    def body(self, *xs: Tensor) -> tuple[Tensor, ...]:
        return self._outputs(self._f(*self._packing.unpack(xs), **self._kwargs))

    def _outputs(self, result: Any) -> tuple[Tensor, ...]:
        tensors, self._result = pack(result)
        return tuple(tensors)

    def push(
        self, xs: Sequence[Tensor], tangents: Sequence[Any]
    ) -> tuple[tuple[Tensor, ...], list[Any]]:
        """The outputs and their tangents, by the user's rule."""
        broken = next((t for t in tangents if isinstance(t, Broken)), None)
        smooth = [t if type(t) is Tensor else None for t in tangents]
        if all(t is None for t in smooth):
            outputs = self.body(*xs)
            return outputs, [broken] * len(outputs)
        return self._along(xs, smooth)

    def _along(
        self, xs: Sequence[Tensor], tangents: Sequence[Tensor | None]
    ) -> tuple[tuple[Tensor, ...], list[Any]]:
        packing = self._packing
        ts = [
            (full_like(x, 0) if t is None else t) if x.dtype.is_inexact else None
            for x, t in zip(xs, tangents, strict=True)
        ]
        directions = packing._replace(constants=[None] * len(packing.constants)).unpack(ts)
        with within(self._scope):
            given = self._rule(packing.unpack(xs), directions, **self._kwargs)
        if not isinstance(given, tuple) or len(given) != 2:
            raise GradientError(
                f"{_WHAT}: the rule of {self._name} must return (result, tangent)",
                given=type(given).__name__,
            )
        outputs = self._outputs(given[0])
        return outputs, self._checked(outputs, given[1])

    def _checked(self, outputs: Sequence[Tensor], tangent: Any) -> list[Any]:
        """The tangents of the outputs, checked against these."""
        assert self._result is not None
        positions, whole = self._result.positions, self._result.treedef
        try:
            leaves = whole.flatten_up_to(tangent)
        except ValueError:
            raise GradientError(
                f"{_WHAT}: the tangent does not have the structure of the result of {self._name}",
                given=tree.show(tree.flatten(tangent)[1]),
                expected=tree.show(whole),
            ) from None
        along = [
            leaves[i] if y.dtype.is_inexact else 0 for i, y in zip(positions, outputs, strict=True)
        ]
        return matched(
            _WHAT, "tangents", f"the result of {self._name}", along,
            tree.flatten([0] * len(along))[1], [y.type for y in outputs],
        )  # fmt: skip

    def forward(self, *xs: Tensor) -> Passed:
        """The outputs and the pullback for reverse mode: the transposed rule."""
        outputs = self.body(*xs)
        moving = [out.dtype.is_inexact for out in outputs]

        def pull(
            primals: Sequence[Tensor], gs: Sequence[Tensor | None], wanted: Sequence[bool]
        ) -> list[Cotangent | None]:
            smooth = [i for i, x in enumerate(primals) if x.dtype.is_inexact and wanted[i]]

            def along(*ts: Tensor) -> list[Tensor]:
                tangents = dict(zip(smooth, ts, strict=True))
                results = self._along(primals, [tangents.get(i) for i in range(len(primals))])[1]
                return [t for t, moves in zip(results, moving, strict=True) if moves]

            ends, back = vjp(along, *[full_like(primals[i], 0) for i in smooth])
            given = [g for g, moves in zip(gs, moving, strict=True) if moves]
            cotangents = back(
                [full_like(end, 0) if g is None else g for end, g in zip(ends, given, strict=True)]
            )
            by_position = dict(zip(smooth, cotangents, strict=True))
            return [by_position.get(i) for i in range(len(primals))]

        return Passed(outputs, xs, pull)
