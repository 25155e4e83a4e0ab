"""What a function reads from outside: the places, the code that reads them, and what is in doubt.

`collect` starts at the function and takes whatever its code can reach by name: the global names
and cells that it reads, the attributes of those objects if their name occurs in reachable code,
the items of containers, and the code of functions, methods and properties found on the way, until
nothing is added. Library code is not entered.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType
from typing import Any, Final, NamedTuple, final

from eagerflow.capture.bytecode import Load
from eagerflow.capture.paths import Place, Root
from eagerflow.source import Source

__all__ = ["Finding", "Read", "Reads"]


class Read(NamedTuple):
    """One place, with what is there when the function is traced and what a trace relies on.

    Attributes:
        place: the place. For ``"absent"`` that of a name to which nothing is bound.
        kind: ``"tensor"``, ``"number"`` (may differ from call to call), ``"array"`` (of NumPy, and
            read by eagerflow alone), or how it is guarded: see `eagerflow.capture.guards`.
        value: what is there; for ``"alias"`` the place or root that holds the same object, for
            ``"unshadowed"`` the names that the instance itself does not have.
    """

    place: Place
    kind: str
    value: Any


class Finding(NamedTuple):
    """Something that a trace cannot follow.

    Attributes:
        kind: ``"impure"`` (a call that runs while tracing only, or gives what is frozen then) or
            ``"unwatched"`` (a change that would not be seen).
        what: in the user's words.
        why: what happens.
        hint: what to do.
        source: the line.
    """

    kind: str
    what: str
    why: str
    hint: str
    source: Source | None

    def __str__(self) -> str:
        where = f" at {self.source}" if self.source is not None else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.what} {self.why}{hint}{where}"


class Holder(NamedTuple):
    """A reachable object that has attributes or items.

    Attributes:
        place: where it was found first.
        value: the object.
    """

    place: Place | Root
    value: Any


class Site(NamedTuple):
    """A reachable code object and the function that it belongs to.

    Attributes:
        code: the code.
        function: whose global names and cells it uses.
        place: of the function.
    """

    code: CodeType
    function: Any
    place: Place | Root


@final
class Reads:
    """What `collect` gives. It holds the user's objects: keep it only while tracing.

    Attributes:
        root: where paths from the function begin.
        reads: the places, owners before what they own.
        findings: what a trace cannot follow.
        sites: the reachable code of the user.
        objects: reachable objects with attributes: instances, modules, functions.
        classes: reachable classes of the user.
        containers: reachable lists, dicts, sets and deques.
    """

    def __init__(self, root: Root) -> None:
        self.root = root
        self.reads: list[Read] = []
        self.findings: list[Finding] = []
        self.sites: list[Site] = []
        self.objects: list[Holder] = []
        self.classes: list[Holder] = []
        self.containers: list[Holder] = []
        self.loads: dict[tuple[str, str], list[tuple[CodeType, Load]]] = {}

    def add(self, place: Place | Root, kind: str, value: Any) -> None:
        """Note what is in a place; nothing is to be noted of a root."""
        if isinstance(place, Place):
            self.reads.append(Read(place, kind, value))

    def of_kind(self, *kinds: str) -> list[Read]:
        """The places of these kinds."""
        return [r for r in self.reads if r.kind in kinds]

    @property
    def tensors(self) -> list[Read]:
        """The places with tensors, each tensor once."""
        return self.of_kind("tensor")

    @property
    def numbers(self) -> list[Read]:
        """The places with Python numbers in which a trace can put symbolic ones."""
        return self.of_kind("number")

    @property
    def arrays(self) -> list[Read]:
        """The places with NumPy arrays that eagerflow alone looks into."""
        return self.of_kind("array")

    def place_of(self, value: Any) -> Place | None:
        """The place of an object that is there by identity, None if there is none."""
        for read in self.reads:
            if read.value is value and read.kind not in _NOT_HELD:
                return read.place
        return None

    def line_of(self, kind: str, name: str) -> Source | None:
        """The first line that reads a name."""
        for code, load in self.loads.get((kind, name), ()):
            return Source(code, load.offset)
        return None

    def loads_of(self, place: Place) -> Iterator[tuple[CodeType, Load]]:
        """Where the code reads the name of a place, and perhaps this place."""
        how = "attribute" if place.how in ("dict", "base") else place.how
        name = place.key[1] if place.how == "base" else place.key
        if how == "cell":
            name = place.text
        if isinstance(name, str):
            yield from self.loads.get((how, name), ())


_NOT_HELD: Final = frozenset({"alias", "unshadowed", "absent", "number", "value"})
