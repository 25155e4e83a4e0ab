"""Sources of gradients: arguments of a function, or variables. Both are trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from eagerflow.autodiff.cotangents import Cotangent, dense, full_like
from eagerflow.autodiff.tape import Tape
from eagerflow.core import tree
from eagerflow.core.convert import tensor_of
from eagerflow.core.op import functions
from eagerflow.core.slices import IndexedSlices
from eagerflow.core.tensor import AbstractArray, Tensor, handle_of
from eagerflow.errors import DTypeError, GradientError, TensorValueError
from eagerflow.ops.rules.promotion import cast

__all__ = ["Arguments", "VariableTree", "check_inexact", "finished", "is_variable"]


def check_inexact(what: str, name: str, x: AbstractArray) -> None:
    """Refuse to differentiate by integers.

    Raises:
        GradientError: the dtype is not floating or complex.
    """
    if not x.dtype.is_inexact:
        kind = "an integer dtype" if x.dtype.is_integer else "dtype bool"
        raise GradientError(
            f"{what}: {name} has {kind}",
            given=str(x.type),
            expected="a floating or complex dtype",
            hint="convert it with .astype(ef.float32)",
        )


def _inputs_of(what: str, name: str, argument: Any) -> tuple[list[Tensor], tree.TreeDef]:
    """The leaves of an argument as tensors in handles of their own.

    Raises:
        GradientError: a leaf is not an array, or has integers.
    """
    leaves, treedef = tree.flatten(argument)
    inputs = []
    for i, leaf in enumerate(leaves):
        try:
            x = tensor_of(leaf)
        except (DTypeError, TensorValueError):
            raise GradientError(
                f"{what}: {name}{tree.paths(treedef)[i]} is not an array",
                given=type(leaf).__name__,
                hint="pass what is not differentiated as another argument",
            ) from None
        if not x.dtype.is_inexact:
            check_inexact(what, name + tree.paths(treedef)[i], x)
        inputs.append(handle_of(x))
    return inputs, treedef


@final
class Arguments:
    """The arguments of a function, some of which gradients are taken by.

    These are values to the function: it gets tensors of its own, and updating one in place does
    not reach the caller's.

    Args:
        what: the transform, for messages.
        argnums: which positional arguments.
        args: all positional arguments.

    Attributes:
        args: the arguments to call the function with.
        inputs: the leaves of the arguments that gradients are taken by.
        variables: none.
    """

    def __init__(self, what: str, argnums: int | Sequence[int], args: Sequence[Any]) -> None:
        self.args = list(args)
        self.inputs: list[Tensor] = []
        self.variables: tuple[Any, ...] = ()
        self._one = isinstance(argnums, int)
        self._places = _places(what, argnums, len(args))
        self._defs = []
        for i in self._places:
            inputs, treedef = _inputs_of(what, f"argument {i}", args[i])
            self.inputs += inputs
            self._defs.append(treedef)
            self.args[i] = tree.unflatten(treedef, inputs)

    def watch(self, tape: Tape) -> list[Sequence[int]]:
        """Watch them, before the function runs; gives the slots of each."""
        return [(tape.watch(x),) for x in self.inputs]

    def name(self, index: int) -> str:
        """The name of an input in messages."""
        places = zip(self._places, self._defs, strict=True)
        return [f"argument {i}{path}" for i, d in places for path in tree.paths(d)][index]

    def tree(self, leaves: Sequence[Any]) -> Any:
        """The leaves, one for each input, in the structure of the arguments."""
        rest = iter(leaves)
        trees = [tree.unflatten(d, [next(rest) for _ in range(d.num_leaves)]) for d in self._defs]
        return trees[0] if self._one else tuple(trees)

    def gradient(self, cotangents: Sequence[Cotangent | None]) -> Any:
        """The gradients as dense tensors in the structure of the arguments."""
        return self.tree(finished(cotangents, self.inputs))


@final
class VariableTree:
    """A tree of variables that gradients are taken by; the interface is that of `Arguments`.

    Args:
        what: the transform, for messages.
        wrt: the tree.
        args: the arguments to call the function with, as they are.
    """

    def __init__(self, what: str, wrt: Any, args: Sequence[Any]) -> None:
        self.args = list(args)
        self.variables, self._def = tree.flatten(wrt)
        for i, variable in enumerate(self.variables):
            if not is_variable(variable):
                module = hasattr(variable, "trainable")
                raise GradientError(
                    f"{what}: wrt takes variables",
                    given=f"{type(variable).__name__} in wrt{tree.paths(self._def)[i]}",
                    hint="of a module: model.trainable" if module
                    else "use argnums for the arguments of the function",
                )  # fmt: skip
            if not variable.dtype.is_inexact:
                check_inexact(what, self.name(i), variable)

    def watch(self, tape: Tape) -> list[Sequence[int]]:
        """The slots of each; the tape, made for these variables, fills them in at each read."""
        return [tape.slots_of_reads(variable) for variable in self.variables]

    def name(self, index: int) -> str:
        """The name of a variable in messages."""
        return f"the variable wrt{tree.paths(self._def)[index]}"

    def gradient(self, cotangents: Sequence[Cotangent | None]) -> Any:
        """The gradients in the structure of the tree, sparse where only rows were read."""
        return tree.unflatten(self._def, finished(cotangents, self.variables))


def is_variable(x: Any) -> bool:
    """Whether ``x`` is a variable."""
    return isinstance(x, AbstractArray) and type(x) is not Tensor


def finished(
    cotangents: Sequence[Cotangent | None], likes: Sequence[AbstractArray], *, zeros: bool = True
) -> list[Cotangent | None]:
    """Gradients as they are handed out: of the dtype of their source, each a handle of its own.

    Those by tensors are dense, those by variables may be `IndexedSlices`.

    Args:
        cotangents: the cotangents, None where there are none.
        likes: the sources.
        zeros: whether zeros stand for None.
    """
    taken: set[int] = set()
    result: list[Cotangent | None] = []
    for g, like in zip(cotangents, likes, strict=True):
        if g is None and zeros:
            g = full_like(like, 0)
        if g is None or (type(g) is IndexedSlices and is_variable(like)):
            result.append(g)
            continue
        # real by complex gives a complex cotangent, of which the real part counts
        g = cast(dense(g), like.dtype)
        if g._mark is not None:  # an outer tape must be able to tell them apart
            if id(g._data) in taken:
                g = functions["copy"](g)
            taken.add(id(g._data))
        result.append(handle_of(g))
    return result


def _places(what: str, argnums: int | Sequence[int], count: int) -> tuple[int, ...]:
    """``argnums`` counted from the front."""
    given = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    places = []
    for i in given:
        if not isinstance(i, int) or not -count <= i < count:
            raise GradientError(
                f"{what}: there is no positional argument {i!r}",
                given=f"{count} positional arguments",
                hint="arguments passed by keyword are not differentiated by",
            )
        places.append(i % count)
    if len(set(places)) != len(places):
        raise GradientError(f"{what}: argnums names an argument twice", given=str(argnums))
    return tuple(places)
