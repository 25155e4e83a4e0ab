"""Queues, accumulators and barriers of tasks: stand-ins in this process, and how a task makes them.

A *stand-in* has the types, the device and the name of a resource whose elements are at a task. Ops
on it run there. A *recipe* has the constructor arguments, which a message carries to the task.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, final

from eagerflow.errors import ResourceError, TensorValueError
from eagerflow.hardware import Device
from eagerflow.resources.accumulator import AccumulatorState
from eagerflow.resources.barrier import BarrierState
from eagerflow.resources.containers import DEFAULT, ResourceName
from eagerflow.resources.kind_words import kind_name
from eagerflow.resources.queue_kinds import KINDS
from eagerflow.resources.queue_state import QueueState
from eagerflow.resources.shared_resources import join_shared
from eagerflow.source import capture
from eagerflow.types import BYTES, INT64, DType, TensorSpec, TensorType

#: begins the note of an error from a task, which names the task
TASK_NOTE: Final = "  task: "
_BYTES_BARRIER: Final = "bytes barrier"
#: classes of resources, by kind of recipe
_CLASSES: Final[dict[str, type]] = {
    **dict.fromkeys(KINDS, QueueState),
    "accumulator": AccumulatorState,
    "sparse accumulator": AccumulatorState,
    "barrier": BarrierState,
    _BYTES_BARRIER: BarrierState,
}


@final
@dataclass(frozen=True, slots=True)
class ResourceRecipe:
    """The constructor arguments of a queue, an accumulator or a barrier.

    Attributes:
        kind: a kind of queue, ``"accumulator"``, ``"sparse accumulator"``, ``"barrier"``, or
            ``"bytes barrier"`` for keys that are bytes.
        types: of the parts of an element.
        capacity: of a queue; None for any number of elements.
        least: of a shuffle queue, the number of elements that stay to choose from.
        seed: of a shuffle queue.

    >>> from eagerflow.resources.resources_at_tasks import ResourceRecipe
    >>> recipe = ResourceRecipe("shuffle", (ef.types.TensorType(ef.types.INT64, ()),), 10, least=2)
    >>> recipe.description
    'shuffle queue of i64[] for 10, of which 2 stay'
    >>> recipe.build(ef.ones(1).device, "shared")
    shuffle queue 'shared' of i64[]@cpu:0
    """

    kind: str
    types: tuple[TensorType, ...]
    capacity: int | None = None
    least: int = 0
    seed: int | None = None

    @property
    def stands_for(self) -> type:
        """The class of the resource."""
        return _CLASSES[self.kind]

    @property
    def noun(self) -> str:
        """The kind in the words of users."""
        return f"{self.kind} queue" if self.kind in KINDS else self.kind

    @property
    def description(self) -> str:
        """The kind, types and capacity in words, equal for all who may join."""
        room = "" if self.capacity is None else f" for {self.capacity}"
        least = f", of which {self.least} stay" if self.least else ""
        return f"{self.noun} of {', '.join(map(str, self.types))}{room}{least}"

    def check(self) -> None:
        """Refuse arguments of which no resource can be made.

        Raises:
            TensorValueError: the kind, the number of types, or an option makes no sense.
        """
        room = float("inf") if self.capacity is None else self.capacity
        if self.kind not in _CLASSES:
            raise TensorValueError(
                f"a task makes no {self.kind!r}", expected=", ".join(map(repr, _CLASSES))
            )
        if not self.types or room < 1 or not 0 <= self.least < room:
            raise TensorValueError(
                f"no {self.noun} is like this", given=repr(self),
                expected="types, a capacity of 1 or more, and fewer elements that stay",
            )  # fmt: skip

    def build(self, device: Device, name: str) -> Any:
        """The resource, in the process that owns it.

        Args:
            device: the device of its elements.
            name: for display.

        Raises:
            TensorValueError: as for `check`.
        """
        self.check()
        made: Any
        if self.stands_for is AccumulatorState:
            made = AccumulatorState(self.types, self.kind != "accumulator", device)
        elif self.stands_for is BarrierState:
            keys = BYTES if self.kind == _BYTES_BARRIER else INT64
            made = BarrierState(self.types, device, key_dtype=keys)
            made.ready.name = name
        else:
            store = KINDS[self.kind].store(self.least, self.seed)
            made = QueueState(self.capacity, store, self.kind, self.types, device)
        made.name = name  # not given to the constructor: a container remembers each given name
        return made


@final
class ResourceAtTask:
    """The stand-in for a resource of a task in this process.

    Args:
        recipe: the constructor arguments of the resource.
        device: its device, one of a task's.
        name: for display.
        identity: its name in a container that several processes share; by default it gets a new
            name in the container of this process.

    Attributes:
        recipe: the same.
        device: the same.
        name: the same.
        identity: its name in its container.
        made: the line that made it, None if not known.
        hold: the resource at the task, as the device's backend knows it; it is released with it.
    """

    __slots__ = ("__weakref__", "device", "hold", "identity", "made", "name", "recipe")

    def __init__(
        self, recipe: ResourceRecipe, device: Device, name: str | None,
        identity: ResourceName | None = None,
    ) -> None:  # fmt: skip
        self.recipe = recipe
        self.device = device
        self.name = name
        self.identity = identity or DEFAULT.add(self, name or kind_name(recipe.stands_for))
        self.made = capture()
        self.hold: Any = None
        self.renew()

    def renew(self) -> None:
        """Make the resource at the task, or join it, unless the current process has it.

        Raises:
            EagerflowError: the task is lost, or has something else of that name.
        """
        backend: Any = self.device.backend
        if self.hold is None or self.hold.task is not backend.task:
            self.hold = backend.hold(self)

    def __repr__(self) -> str:
        noun = self.recipe.noun
        called = noun if self.name is None else f"{noun} {self.name!r}"
        return f"{called} of {', '.join(map(str, self.specs))}"

    @property
    def stands_for(self) -> type:
        """The class of the resource."""
        return self.recipe.stands_for

    @property
    def label(self) -> str:
        """Its name among the queues that a view shows."""
        _, _, container, name = self.identity
        shared = "" if container == DEFAULT.name else f"{container}/"
        return f"{self.device.task}/{shared}{name}"

    @property
    def kind(self) -> str:
        """The kind of resource."""
        return self.recipe.kind

    @property
    def types(self) -> tuple[TensorType, ...]:
        """The types of the parts of an element."""
        return self.recipe.types

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The types with the device."""
        return tuple([kind.on(self.device) for kind in self.types])

    @property
    def room(self) -> float:
        """The capacity in elements, infinity for any number."""
        return float("inf") if self.recipe.capacity is None else self.recipe.capacity

    @property
    def sparse(self) -> bool:
        """Whether the parts of an accumulator's values are rows and their indices."""
        return self.kind == "sparse accumulator"

    @property
    def key_dtype(self) -> DType:
        """The dtype of a barrier's keys."""
        return BYTES if self.kind == _BYTES_BARRIER else INT64

    def check(self) -> None:
        """Raise if the process that held it has ended.

        Raises:
            TaskLost: it is lost.
        """
        self.hold.check(self)

    def end(self, failure: str | None = None) -> None:
        """Close it as its runners have ended, without a wait; it may be closed already.

        Args:
            failure: the failure of the producer, quoted in later errors.
        """
        self.hold.end(self, failure)


def resource_on(
    device: Device, recipe: ResourceRecipe, name: str | None, container: str | None,
    here: Callable[[], Any],
) -> Any:  # fmt: skip
    """A new resource, in this process or at a task, or one that a client of the task shares.

    Args:
        device: the device of its elements.
        recipe: the constructor arguments.
        name: for display, and for other clients.
        container: the name of a container of the task that clients share; None for a resource of
            this process's own.
        here: makes the resource in this process.

    Raises:
        ResourceError: a container without a task or a name, or something else has that name there.
    """
    if container is not None:
        what = f"{recipe.description} on {device}"
        made: ResourceAtTask = join_shared(
            device, name, container, what,
            lambda identity: ResourceAtTask(recipe, device, name, identity),
        )  # fmt: skip
        made.renew()  # the process that owned it may have been restarted
        return made
    if device.task is None:
        return here()
    if recipe.seed is not None and not 0 <= recipe.seed < 1 << 63:
        raise ResourceError("the seed of a queue at a task has at most 63 bits",
                            given=f"seed={recipe.seed}")  # fmt: skip
    return ResourceAtTask(recipe, device, name)
