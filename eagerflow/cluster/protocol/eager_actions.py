"""The eager actions that an `Eager` message carries: ops, values, and what is freed."""

from __future__ import annotations

from typing import Annotated, final

from msgspec import Meta

from eagerflow.cluster.protocol.message_heads import (
    AbstractRecord,
    Arrays,
    Handles,
    Head,
    Places,
    Serial,
    Word,
)


@final
class DefineOp(AbstractRecord, tag="define", frozen=True):
    """Keep an op with its attributes. Frames: the text of a graph of one node, then its arrays.

    Attributes:
        template: the number by which calls will name it.
        arrays: as for `Register`.
        resources: as for `Register`.
    """

    template: Serial
    arrays: Arrays
    resources: Places


@final
class IssueOp(AbstractRecord, tag="op", frozen=True):
    """Run an op.

    Attributes:
        template: the number of the op's template.
        stream: its stream: after a failure, later ops of the stream do not run until the client has
            been told.
        inputs: the handles of its inputs.
        first: the handle of its first output; the other outputs have the numbers behind it.
        count: number of its outputs; 0 if that is not known, and then asked for by a `Fetch`.
    """

    template: Serial
    stream: Serial
    inputs: Handles
    first: Serial
    count: Annotated[int, Meta(ge=0, le=10_000)] = 1


@final
class PutValue(AbstractRecord, tag="put", frozen=True):
    """Hold a value. Frames: its elements.

    Attributes:
        handle: its handle.
        value: the value.
        device: its device, one of the task's.
    """

    handle: Serial
    value: Head
    device: Word


@final
class FreeHandles(AbstractRecord, tag="free", frozen=True):
    """Free values."""

    handles: Handles


@final
class DropResource(AbstractRecord, tag="drop", frozen=True):
    """Drop a variable or another resource of the session, and the templates that name it.

    Attributes:
        name: the name of the resource; empty if it is in a container that stays.
        templates: the numbers of the templates.
    """

    name: Word
    templates: Handles


Action = DefineOp | IssueOp | PutValue | FreeHandles | DropResource
