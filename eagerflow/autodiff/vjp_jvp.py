"""`vjp` and `jvp`: Jacobian-vector products, in reverse and in forward mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eagerflow.autodiff.backward import dense, fit, full_like, gradients, seeds_of
from eagerflow.autodiff.forward_mode import Broken, Forward
from eagerflow.autodiff.grad import check_function, described, grad, pair
from eagerflow.autodiff.gradient_sources import Arguments
from eagerflow.autodiff.looks import check_looks, tell_of_look
from eagerflow.autodiff.tape import UNKNOWN, Tape
from eagerflow.core import tree
from eagerflow.core.interpreter import installed, strip_notes, unwinds
from eagerflow.core.moves_to_scopes import to_home
from eagerflow.core.tensor import AbstractArray, Tensor, handle_of
from eagerflow.core.to_tensor import as_tensor, tensor_of
from eagerflow.errors import GradientError, hides_frames
from eagerflow.types import TensorSpec


@hides_frames
@unwinds
def vjp(f: Callable[..., Any], *primals: object, has_aux: bool = False) -> Any:
    """The value of ``f`` and its pullback, a function that maps cotangents back to the primals.

    Args:
        f: a function of trees of tensors that returns a tree of tensors.
        primals: the arguments of ``f``, trees of floating or complex tensors.
        has_aux: whether ``f`` returns ``(result, aux)``.

    Returns:
        ``(value, pullback)``, or ``(value, pullback, aux)`` with ``has_aux``. ``pullback`` takes a
        tree like the value and returns a tuple of trees like the primals; it may be called many
        times.

    Raises:
        GradientError: a primal has an integer dtype.

    >>> value, pullback = ef.vjp(lambda x: x * x, ef.tensor([1.0, 2.0]))
    >>> pullback(ef.tensor([1.0, 10.0]))
    (Tensor([ 2., 40.], f32[2]@cpu:0),)
    """
    check_function("vjp", f)
    sources = Arguments("vjp", range(len(primals)), primals)
    tape = Tape()
    wanted = sources.watch(tape)
    with installed(tape):
        result = f(*sources.args)
        value, aux = pair("vjp", result) if has_aux else (result, None)
        outputs, treedef = _outputs(value)
    slots = [UNKNOWN if y is None else tape.slot_of(y) for y in outputs]
    if tape.looks:
        check_looks(tape, slots, wanted, "vjp", sources.name)
    types = [None if y is None else y.type for y in outputs]

    def pullback(cotangents: Any) -> Any:
        gs = matched("pullback", "cotangents", "the value", cotangents, treedef, types)
        seeds = seeds_of(slots, gs)
        return sources.gradient(gradients(tape, seeds, wanted, "vjp", sources.name))

    return (value, pullback, aux) if has_aux else (value, pullback)


@hides_frames
@unwinds
def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The value of ``f`` and its directional derivative, in forward mode.

    Args:
        f: a function of trees of tensors that returns a tree of tensors.
        primals: its arguments, a tuple.
        tangents: the direction, a tuple of trees like the primals.

    Returns:
        ``(value, tangent)``, two trees of one structure; the tangents of integers are zero.

    Raises:
        GradientError: a primal has an integer dtype, the tangents do not fit the primals, or an
            op on the path has no derivative.

    >>> ef.jvp(lambda x: x * x, (ef.tensor(3.0),), (ef.tensor(1.0),))
    (Tensor(9., f32[]@cpu:0), Tensor(6., f32[]@cpu:0))
    """
    check_function("jvp", f)
    _check_tuples("jvp", primals=primals, tangents=tangents)
    sources = Arguments("jvp", range(len(primals)), primals)
    treedef = tree.flatten(tuple(sources.args))[1]
    ts = matched(
        "jvp", "tangents", "the primals", tuple(tangents), treedef,
        [x.type for x in sources.inputs],
    )  # fmt: skip
    forward = Forward()
    for x, t in zip(sources.inputs, ts, strict=True):
        forward.enter(x, t)
    with installed(forward):
        value = f(*sources.args)
        outputs, treedef = _outputs(value)
    output_tangents: list[Any] = [
        forward.tangent_of(y) if y is not None and y.dtype.is_inexact else None for y in outputs
    ]
    broken = next((t for t in output_tangents if isinstance(t, Broken)), None)
    if broken is not None and not any(isinstance(t, Tensor) for t in output_tangents):
        raise GradientError(
            f"jvp: the result depends on the primals only through {broken.name}, "
            "which has no derivative",
            hint="apply ef.stop_gradient to it, if a tangent of zero is meant",
            source=broken.source,
        )
    if forward.look is not None and all(t is None for t in output_tangents):
        tell_of_look("jvp", "the primals", forward.look, certain=not forward.shares_looks)
    for y in outputs:
        if y is not None:
            strip_notes(y, forward.owner)  # else the value would keep its tangent alive
    output_tangents = [_tangent(y, t) for y, t in zip(outputs, output_tangents, strict=True)]
    return value, tree.unflatten(treedef, output_tangents)


@hides_frames
@unwinds
def linearize(f: Callable[..., Any], *primals: object) -> tuple[Any, Callable[..., Any]]:
    """The value of ``f`` and its derivative, as a linear function of directions.

    ``f`` runs once; each direction costs the ops of the derivative alone. For a single direction
    `jvp` costs less.

    Args:
        f: a function of trees of tensors that returns a tree of real tensors.
        primals: the arguments of ``f``, trees of floating tensors.

    Returns:
        ``(value, push)``. ``push`` takes a tree like each of the primals, and returns a tree like
        the value; it may be called many times.

    Raises:
        GradientError: a primal has an integer dtype, or an op on the path has no derivative.

    >>> value, push = ef.linearize(lambda x: x * x, ef.tensor([1.0, 2.0]))
    >>> push(ef.tensor([1.0, 0.0])), push(ef.tensor([0.0, 1.0]))
    (Tensor([2., 0.], f32[2]@cpu:0), Tensor([0., 4.], f32[2]@cpu:0))
    """
    check_function("linearize", f)
    sources = Arguments("linearize", range(len(primals)), primals)
    tape, transpose = Tape(), Tape()
    wanted = sources.watch(tape)
    with installed(tape):
        value = f(*sources.args)
        outputs, treedef = _outputs(value)
    slots = [UNKNOWN if y is None else tape.slot_of(y) for y in outputs]
    if tape.looks:
        check_looks(tape, slots, wanted, "linearize", sources.name)
    gs = [
        full_like(y, 0) if y is not None and slot >= 0 else None
        for y, slot in zip(outputs, slots, strict=True)
    ]
    starts = [() if g is None else (transpose.watch(g),) for g in gs]
    with installed(transpose):
        pulled = gradients(tape, seeds_of(slots, gs), wanted, "linearize", sources.name)
        us = [None if u is None else dense(u) for u in pulled]
    given = tree.flatten(tuple(sources.args))[1]
    types = [x.type for x in sources.inputs]
    ends = [UNKNOWN if u is None else transpose.slot_of(u) for u in us]

    def push(*tangents: Any) -> Any:
        ts = matched("push", "tangents", "the primals", tangents, given, types)
        pushed = gradients(
            transpose, seeds_of(ends, ts), starts, "linearize", lambda i: "a cotangent"
        )
        along = [None if y is None else full_like(y, 0) if t is None else dense(t)
                 for y, t in zip(outputs, pushed, strict=True)]  # fmt: skip
        return tree.unflatten(treedef, along)

    return value, push


@hides_frames
def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The Hessian-vector product of ``f``: its Hessian times the tangents.

    It takes about three times as long as ``f``, whatever the size of the Hessian.

    Args:
        f: a function that returns a real scalar, as for `grad`.
        primals: its arguments, a tuple.
        tangents: the direction, a tuple of trees like the primals.

    Returns:
        A tuple of trees like the primals.

    Raises:
        GradientError: as `grad` and `jvp`.

    >>> ef.hvp(lambda x: (x * x * x).sum(), (ef.tensor([1.0, 2.0]),), (ef.tensor([1.0, 1.0]),))
    (Tensor([ 6., 12.], f32[2]@cpu:0),)
    """
    check_function("hvp", f)
    _check_tuples("hvp", primals=primals, tangents=tangents)
    return jvp(grad(f, tuple(range(len(primals)))), primals, tangents)[1]


def _check_tuples(what: str, **given: Any) -> None:
    for name, values in given.items():
        if not isinstance(values, (tuple, list)):
            raise GradientError(
                f"{what}: {name} must be a tuple",
                given=described(values),
                hint=f"write ef.{what}(f, (x,), (t,))",
            )


def _outputs(value: Any) -> tuple[list[Tensor | None], tree.TreeDef]:
    """The leaves of a result, with None in place of leaves that are not tensors."""
    leaves, treedef = tree.flatten(value)
    return [tensor_of(y) if isinstance(y, AbstractArray) else None for y in leaves], treedef


def _tangent(y: Tensor | None, t: Any) -> Tensor | None:
    if y is None:
        return None
    return handle_of(t) if type(t) is Tensor else full_like(y, 0)


def matched(
    what: str, noun: str, whose: str, given: Any, treedef: tree.TreeDef,
    types: Sequence[TensorSpec | None],
) -> list[Tensor | None]:  # fmt: skip
    """The leaves of a tree of cotangents or tangents, checked; None without derivatives.

    Args:
        what: the transform, for messages.
        noun: the contents of the tree, for messages.
        whose: the tree whose structure it must have, for messages.
        given: the tree.
        treedef: the structure that it must have.
        types: the types that its leaves must have, None for leaves that are not tensors.

    Raises:
        GradientError: the structure, a shape or a dtype does not fit.
    """
    leaves, given_tree = tree.flatten(given)
    if given_tree != treedef:
        raise GradientError(
            f"{what}: the {noun} do not have the structure of {whose}",
            given=tree.show(given_tree),
            expected=tree.show(treedef),
        )
    return [
        None if type_ is None or not type_.dtype.is_inexact else _fitted(what, noun, leaf, type_)
        for leaf, type_ in zip(leaves, types, strict=True)
    ]


def _fitted(what: str, noun: str, leaf: Any, type_: TensorSpec) -> Tensor:
    number = isinstance(leaf, (int, float, complex)) and not isinstance(leaf, AbstractArray)
    x = as_tensor(leaf, type_.dtype, type_.device) if number else tensor_of(leaf)
    x = to_home(x, type_.device)
    fitted = fit(x, type_)
    if fitted is None:
        raise GradientError(
            f"{what}: one of the {noun} does not fit",
            given=str(x.type),
            expected=str(type_),
            hint="it has the shape of that value, such as ef.ones_like(x)",
        )
    return handle_of(fitted)
