"""Trees as flat lists of tensors and back, for the arguments and results of a `Composite`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from eagerflow.core import tree
from eagerflow.core.tensor import AbstractArray, Tensor, handle_of
from eagerflow.core.to_tensor import tensor_of


class Packing(NamedTuple):
    """The structure and the constants of a tree, without its tensors.

    Attributes:
        treedef: its structure.
        constants: its leaves, with None in place of tensors.
        positions: the positions of the tensors among the leaves.
    """

    treedef: tree.TreeDef
    constants: Sequence[Any]
    positions: Sequence[int]

    def unpack(self, tensors: Sequence[Any]) -> Any:
        """The tree with these tensors, in new handles, or with these stand-ins for tensors."""
        leaves = list(self.constants)
        for i, x in zip(self.positions, tensors, strict=True):
            leaves[i] = handle_of(x) if type(x) is Tensor else x
        return tree.unflatten(self.treedef, leaves)


def pack(value: Any) -> tuple[list[Tensor], Packing]:
    """The tensors of a tree (for a variable, its value), and its packing."""
    leaves, treedef = tree.flatten(value)
    positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, AbstractArray)]
    tensors = [tensor_of(leaves[i]) for i in positions]
    for i in positions:
        leaves[i] = None
    return tensors, Packing(treedef, leaves, positions)
