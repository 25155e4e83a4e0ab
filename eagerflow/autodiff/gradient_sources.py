"""The sources of gradients: the arguments of a function, or a tree of variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, ValuesView
from itertools import islice
from typing import Any, final

from eagerflow.autodiff.backward import Cotangent, dense, full_like
from eagerflow.autodiff.tape import Tape
from eagerflow.core import tree
from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.op import functions
from eagerflow.core.tensor import AbstractArray, Tensor, handle_of
from eagerflow.core.to_tensor import tensor_of
from eagerflow.errors import DTypeError, GradientError, TensorValueError
from eagerflow.ops.rules.promotion import cast


def check_inexact(what: str, name: str, x: AbstractArray) -> None:
    """Refuse to differentiate by an integer array.

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


def _inputs_of(what: str, name: str, argument: Any) -> tuple[list[Tensor], tree.TreeDef | None]:
    """The leaves of an argument as tensors in new handles, and its structure; None for a tensor.

    Raises:
        GradientError: a leaf is not an array, or has an integer dtype.
    """
    leaves, treedef = ([argument], None) if type(argument) is Tensor else tree.flatten(argument)
    inputs = []
    for i, leaf in enumerate(leaves):
        try:
            x = leaf if type(leaf) is Tensor else tensor_of(leaf)
        except (DTypeError, TensorValueError):
            raise GradientError(
                f"{what}: {name}{_paths(treedef)[i]} is not an array",
                given=type(leaf).__name__,
                hint="pass values that are not differentiated as other arguments",
            ) from None
        if not x.dtype.is_inexact:
            check_inexact(what, name + _paths(treedef)[i], x)
        inputs.append(handle_of(x))
    return inputs, treedef


def _paths(treedef: tree.TreeDef | None) -> list[str]:
    return [""] if treedef is None else tree.paths(treedef)


def _unflatten(treedef: tree.TreeDef | None, leaves: Iterator[Any]) -> Any:
    if treedef is None:
        return next(leaves)
    return tree.unflatten(treedef, islice(leaves, treedef.num_leaves))


@final
class Arguments:
    """The arguments of a function, with those that gradients are taken by.

    Arguments are passed by value: the function gets tensors of its own, and an update in place
    does not reach the caller's tensor.

    Args:
        what: the transform, for messages.
        argnums: the positional arguments to differentiate by.
        args: all positional arguments.

    Attributes:
        args: the arguments to call the function with.
        inputs: the leaves of the arguments that gradients are taken by.
        variables: empty.
    """

    def __init__(self, what: str, argnums: int | Sequence[int], args: Sequence[Any]) -> None:
        self.args = list(args)
        self.inputs: list[Tensor] = []
        self.variables: tuple[Any, ...] = ()
        self._one = isinstance(argnums, int)
        self._argnums = _argnums(what, argnums, len(args))
        self._defs = []
        for i in self._argnums:
            inputs, treedef = _inputs_of(what, f"argument {i}", args[i])
            self.inputs += inputs
            self._defs.append(treedef)
            self.args[i] = _unflatten(treedef, iter(inputs))

    def with_inputs(self, inputs: Sequence[Tensor]) -> list[Any]:
        """The arguments with other tensors in place of `inputs`."""
        args, rest = [*self.args], iter(inputs)
        for i, treedef in zip(self._argnums, self._defs, strict=True):
            args[i] = _unflatten(treedef, rest)
        return args

    def watch(self, tape: Tape) -> list[Sequence[int]]:
        """Watch the inputs, before the function runs; returns the slots of each."""
        return [(tape.watch(x),) for x in self.inputs]

    def name(self, index: int) -> str:
        """The name of an input in messages."""
        positions = zip(self._argnums, self._defs, strict=True)
        return [f"argument {i}{path}" for i, d in positions for path in _paths(d)][index]

    def tree(self, leaves: Sequence[Any]) -> Any:
        """The leaves, one for each input, in the structure of the arguments."""
        rest = iter(leaves)
        trees = [_unflatten(d, rest) for d in self._defs]
        return trees[0] if self._one else tuple(trees)

    def gradient(self, cotangents: Sequence[Cotangent | None]) -> Any:
        """The gradients as dense tensors in the structure of the arguments."""
        return self.tree(finished(cotangents, self.inputs))


def _instead_of(leaf: Any) -> str:
    """The remedy for a leaf of ``wrt`` that is no variable."""
    if hasattr(leaf, "trainable"):
        return "of a module: model.trainable"
    if isinstance(leaf, ValuesView) and all(map(is_variable, leaf)):
        return "an iterator or a view is no tree: wrt=list(variables)"
    return "use argnums for the arguments of the function"


@final
class VariableTree:
    """A tree of variables that gradients are taken by, with the interface of `Arguments`.

    Args:
        what: the transform, for messages.
        wrt: the tree.
        args: the arguments to call the function with, unchanged.
    """

    def __init__(self, what: str, wrt: Any, args: Sequence[Any]) -> None:
        self.args = list(args)
        self.variables, self._def = tree.flatten(wrt)
        for i, variable in enumerate(self.variables):
            if not is_variable(variable):
                raise GradientError(
                    f"{what}: wrt takes variables",
                    given=f"{type(variable).__name__} in wrt{tree.paths(self._def)[i]}",
                    hint=_instead_of(variable),
                )
            if not variable.dtype.is_inexact:
                check_inexact(what, self.name(i), variable)

    def watch(self, tape: Tape) -> list[Sequence[int]]:
        """The slots of each variable; the tape, made for these variables, adds one at each read."""
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
    """Gradients ready for return: of the dtype of their source, each in a handle of its own.

    Gradients by tensors are dense, gradients by variables may be `IndexedSlices`.

    Args:
        cotangents: the cotangents, or None.
        likes: the sources.
        zeros: whether to replace None by zeros.
    """
    taken: set[int] = set()
    result: list[Cotangent | None] = []
    for g, like in zip(cotangents, likes, strict=True):
        if g is None and zeros:
            g = full_like(like, 0)
        if g is None or (type(g) is IndexedSlices and is_variable(like)):
            result.append(g)
            continue
        # a real source may get a complex cotangent, of which the real part counts
        g = cast(dense(g), like.dtype)
        if g._mark is not None:  # an outer tape must be able to distinguish the values
            if id(g._data) in taken:
                g = functions["copy"](g)
            taken.add(id(g._data))
        result.append(handle_of(g))
    return result


def _argnums(what: str, argnums: int | Sequence[int], count: int) -> tuple[int, ...]:
    """``argnums`` counted from the front."""
    given = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    positions = []
    for i in given:
        if not isinstance(i, int) or not -count <= i < count:
            raise GradientError(
                f"{what}: there is no positional argument {i!r}",
                given=f"{count} positional arguments",
                hint="arguments passed by keyword are not differentiated by"
                if count
                else f"by variables: ef.{what}(f, wrt=net.trainable)()",
            )
        positions.append(i % count)
    if len(set(positions)) != len(positions):
        raise GradientError(f"{what}: argnums names an argument twice", given=str(argnums))
    return tuple(positions)
