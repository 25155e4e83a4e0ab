"""Recipes of queues, accumulators and barriers as messages and back."""

from __future__ import annotations

from typing import Any

from eagerflow.cluster.protocol.message_heads import TypeHead
from eagerflow.cluster.protocol.messages import MakeResource
from eagerflow.dims import Dim
from eagerflow.errors import ProtocolError
from eagerflow.resources.containers import ResourceName
from eagerflow.resources.resources_at_tasks import ResourceRecipe
from eagerflow.types import BYTES, DTYPES, TensorType


def write_recipe(recipe: ResourceRecipe, place: ResourceName, device: str) -> MakeResource:
    """The message that makes a resource.

    Args:
        recipe: the constructor arguments.
        place: its container, and its name there.
        device: its device, one of the task's.

    >>> from eagerflow.cluster.protocol.recipes import write_recipe
    >>> from eagerflow.resources.containers import ResourceName
    >>> from eagerflow.resources.resources_at_tasks import ResourceRecipe
    >>> recipe = ResourceRecipe("fifo", (ef.types.TensorType(ef.types.INT64, (ef.Dim("n"),)),), 10)
    >>> write_recipe(recipe, ResourceName("ps:0", 0, "shared", "numbers"), "cpu:0").types
    (TypeHead(dtype='int64', shape=('n',)),)
    """
    types = tuple(
        [TypeHead(kind.dtype.name, tuple(map(_size, kind.shape))) for kind in recipe.types]
    )
    return MakeResource(
        0, place.container, place.name, recipe.kind, types, device, recipe.capacity or 0,
        recipe.least, recipe.seed,
    )  # fmt: skip


def read_recipe(message: MakeResource) -> ResourceRecipe:
    """The constructor arguments in a message.

    Raises:
        ProtocolError: there is no such dtype.
        DimError: the name of a size is none.
        TensorValueError: no resource is made of these arguments.
    """
    types = tuple(map(_type, message.types))
    recipe = ResourceRecipe(
        message.kind, types, message.capacity or None, message.least, message.seed
    )  # fmt: skip
    recipe.check()
    return recipe


def _size(size: Any) -> int | str:
    return size if type(size) is int else str(size)


def _type(head: TypeHead) -> TensorType:
    dtype = BYTES if head.dtype == BYTES.name else DTYPES.get(head.dtype)
    if dtype is None:
        raise ProtocolError("an element has a part of no dtype", given=repr(head.dtype))
    shape: Any = tuple([Dim(size) if isinstance(size, str) else size for size in head.shape])
    return TensorType(dtype, shape)
