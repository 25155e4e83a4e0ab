"""Assumptions of a trace about the parts of an object that the function walked over.

The walk (`eagerflow.capture.modules.walk`) is library code for traces: its reads are not guarded.
Its callers note the result here, and the trace checks at each call whether a walk would find the
same. A fast check (`_probe`), generated as the code of guards is, finds in most calls that the
object holds the very same parts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, final
from weakref import ref

from eagerflow.capture.access_paths import AccessPath, Root, contents
from eagerflow.capture.equality import ATOMS, same_value
from eagerflow.capture.guards.guard_kinds import Guard, GuardWriter
from eagerflow.capture.modules.walk import walk
from eagerflow.capture.reads import Read, Reads
from eagerflow.ops.state.variables import Variable
from eagerflow.tracing.tracer import current_tracer
from eagerflow.types import DType

#: statement about a part, to follow its path, by name and value of a flag
_Words: TypeAlias = Mapping[tuple[str, Any], str]
_NO_WORDS: Final[_Words] = {}
#: types of plain values, which are compared
_PLAIN: Final = ATOMS | {range, slice, DType}


def note_walk(
    root: object,
    kind: type,
    flags: Iterable[str] = (),
    *,
    words: _Words = _NO_WORDS,
    gives_parts: bool = False,
) -> None:
    """Note, in the trace that is being made, if any, that the parts of an object were asked for.

    The trace is used as long as a walk finds the same parts and variables, with the same flags.
    Explanations of a new trace name the parts and flags that are new, gone or changed.

    Args:
        root: where the walk begins; see `walk`.
        kind: the class of parts.
        flags: attributes of the parts that are compared as well.
        words: wording of explanations for a flag, by its name and value, such as
            ``{("frozen", True): "is frozen now"}``.
        gives_parts: whether the caller gets the parts and may look at them: then the attributes
            that the traced function reads of them are compared, too.

    >>> from eagerflow.extending import note_walk, walk
    >>> class Block:
    ...     def size(self):
    ...         note_walk(self, Block)
    ...         return sum(v.size for _, v, _ in walk(self, Block) if v is not self)
    >>> block = Block()
    >>> block.weight = ef.Variable([1.0, 2.0])
    >>> scaled = ef.trace(lambda x: x / block.size())
    >>> scaled(6.0), len(scaled.traces)
    (3.0, 1)
    >>> block.bias = ef.Variable(0.0)
    >>> scaled(6.0), len(scaled.traces)
    (2.0, 2)
    """
    noted = _structures()
    if noted is not None:
        noted.walked(root, kind, tuple(flags), words, gives_parts=gives_parts)


def note_set(part: object, flag: str) -> None:
    """Note, as `note_walk` does, that a flag of a part is set, whatever it was before.

    Args:
        part: an object of the class of parts.
        flag: the name of an attribute.

    >>> from eagerflow.extending import note_set
    >>> layer = ef.nn.Linear(2, 3)
    >>> note_set(layer, "training")  # outside of traces there is nothing to note
    >>> layer.training = False
    """
    noted = _structures()
    if noted is not None:
        noted.own[id(part), flag] = part


def _structures() -> Structures | None:
    """The structures noted for the trace that is being made; None outside of traces."""
    tracer = current_tracer()
    if tracer is None:
        return None
    structures: Structures | None = tracer.whole.structures
    if structures is None:
        structures = tracer.whole.structures = Structures()
    return structures


class _Part(NamedTuple):
    """A part or variable.

    Attributes:
        path: from the root of the walk.
        value: a weak reference to the part or variable.
        flags: values of the flags that are compared, by name.
    """

    path: str
    value: ref[Any]
    flags: dict[str, Any]


@final
class Structures:
    """The results of all walks in one trace, which must be the same at each call.

    The user's objects are held until `settle` is called, and weakly from then on.

    Attributes:
        own: the parts whose flags the function has set itself, until it has run.
    """

    def __init__(self) -> None:
        self._structures: dict[int, _Structure] = {}
        self.own: dict[tuple[int, str], Any] = {}

    def walked(
        self, root: Any, kind: type, flags: tuple[str, ...], words: _Words, *, gives_parts: bool
    ) -> None:
        """Note a walk, and whether its caller gets the parts."""
        structure = self._structures.get(id(root))
        if structure is None:
            structure = self._structures[id(root)] = _Structure(root, kind)
        structure.note(flags, words, gives_parts, self.own)

    def settle(self, reads: Reads) -> None:
        """End the noting, after the function has run and its side effects are undone."""
        for structure in self._structures.values():
            structure.settle(reads, self.own)
        self.own.clear()

    def holds(self) -> bool:
        """Whether all walks would find the same. Never raises."""
        return all(map(_Structure.holds, self._structures.values()))

    def differences(self) -> list[str]:
        """Descriptions of all changes; empty if there are none. Never raises."""
        return [text for one in self._structures.values() for text in one.differences()]


@final
class _Structure:
    """The parts and variables of one object, by path."""

    def __init__(self, root: Any, kind: type) -> None:
        self._root = ref(root)
        self._strong: Any = root  # until `settle`
        self._kind = kind
        self._name = type(root).__name__
        self._parts = [_Part(path, ref(value), {}) for path, value, _ in walk(root, kind)]
        self._words: dict[tuple[str, Any], str] = {}
        self._gives_parts = False
        #: whether the function itself changes the parts, so that no later call finds the same
        self._changes = False
        self._probe: Callable[[], Any] = _unknown

    # --- while the function runs ---

    def note(
        self, flags: Iterable[str], words: _Words, gives_parts: bool,
        own: Container[tuple[int, str]],
    ) -> None:  # fmt: skip
        """Compare these flags from now on, but for flags that the function itself has set."""
        self._words.update(words)
        self._gives_parts |= gives_parts
        if not self._same_parts():
            self._changes = True
            return
        for part in self._parts:
            value = part.value()
            for flag in flags if isinstance(value, self._kind) else ():
                if (id(value), flag) not in own:
                    part.flags.setdefault(flag, _flag(value, flag))

    def settle(self, reads: Reads, own: Container[tuple[int, str]]) -> None:
        """Compare with the parts after the function ran, and let go of the object."""
        for part in self._parts:
            value = part.value()
            for flag, was in part.flags.items():
                if (id(value), flag) not in own and not same_value(_flag(value, flag), was):
                    self._changes = True
        self._changes = self._changes or not self._same_parts()
        self._name = _text(self._strong, reads) or self._name
        if self._gives_parts:
            self._add_unseen(reads)
        self._strong = None

    def _add_unseen(self, reads: Reads) -> None:
        """Compare the plain attributes, too, that code reads of parts without guards."""
        names = {name for how, name in reads.loads if how == "attribute"}
        seen = {id(holder.value) for holder in reads.objects}
        for part in self._parts:
            value = part.value()
            if isinstance(value, self._kind) and id(value) not in seen:
                own = vars(value)
                atoms = {n: own[n] for n in names & own.keys() if type(own[n]) in _PLAIN}
                part.flags.update({n: x for n, x in atoms.items() if n not in part.flags})

    # --- at each call ---

    def holds(self) -> bool:
        """Whether a walk would find the same. Never raises."""
        try:
            return self._probe() is not None or self._holds_exactly()
        except Exception:  # of the user's own containers and keys
            return False

    def _holds_exactly(self) -> bool:
        """Whether a walk finds the same; if so, the next check is the fast one."""
        root = self._root()
        if self._changes or root is None:  # guards require the object itself
            return not self._changes
        flags = frozenset(flag for part in self._parts for flag in part.flags)
        look = _probe(root, self._kind, flags)
        if not self._same_parts() or any(map(_other_flags, self._parts)):
            return False
        self._probe = look
        return True

    def _same_parts(self) -> bool:
        parts = list(walk(self._root(), self._kind))
        return len(parts) == len(self._parts) and all(
            path == part.path and value is part.value()
            for part, (path, value, _) in zip(self._parts, parts, strict=True)
        )

    def differences(self) -> list[str]:
        """Descriptions of the changes; of nested equal ones the outermost only."""
        if self._changes:
            return [f"{self._name}: the function itself changes its parts, and walks over them"]
        root = self._root()
        if root is None:
            return []
        try:
            differences = dict(self._differences({p: v for p, v, _ in walk(root, self._kind)}))
        except Exception as error:
            return [f"{self._name}: it cannot be inspected, {type(error).__name__}"]
        if not differences and not self._same_parts():
            return [f"{self._name}: its parts have another order"]
        return [
            f"{self._at(path)} {what}"
            for path, what in differences.items()
            if not any(differences.get(above) == what for above in _above(path))
        ]

    def _differences(self, now: dict[str, Any]) -> Iterator[tuple[str, str]]:
        before = {part.path: part for part in self._parts}
        for path, value in now.items():
            if path not in before:
                yield path, "is new"
            elif before[path].value() is not value:
                yield path, "is another object"
            else:
                for flag, was in before[path].flags.items():
                    is_now = _flag(value, flag)
                    if not same_value(is_now, was):
                        yield (
                            path,
                            self._words.get(
                                (flag, is_now), f"has another {flag}: was {was!r}, now {is_now!r}"
                            ),
                        )
        for path in before:
            if path not in now:
                yield path, "is gone"

    def _at(self, path: str) -> str:
        return f"{self._name}.{path}" if path else self._name


def _unknown() -> None:
    """The probe of a structure that was not checked yet."""


def _text(value: Any, reads: Reads) -> str:
    """The name of an object in messages; empty if it is unknown."""
    paths = [holder.path for holder in reads.objects if holder.value is value]
    return paths[0].text if paths else ""


def _flag(value: Any, name: str) -> Any:
    return getattr(value, name, None)


def _other_flags(part: _Part) -> bool:
    """Whether a flag is not what it was."""
    value = part.value()
    return any(not same_value(_flag(value, flag), was) for flag, was in part.flags.items())


def _above(path: str) -> Iterator[str]:
    """The paths of the owners of a part, up to the root of the walk."""
    while path:
        path = path.rpartition(".")[0]
        yield path


# --- the fast check -------------------------------------------------------------------------


def _probe(root: Any, kind: type, flags: frozenset[str]) -> Callable[[], Any]:
    """A function that returns None if a part may have changed, so that a full walk is needed.

    It keeps no part alive. Values that the walk does not enter, such as a count, may be replaced.

    Args:
        root: where the walk begins.
        kind: the class of parts.
        flags: names of attributes of parts that are compared, whatever their values.
    """
    parts = _Parts(kind, flags)
    parts.visit(Root(root, weak=True), root)
    while parts.pending:
        parts.visit(*parts.pending.popleft())
    return GuardWriter().write(parts.guards, ())


@final
class _Parts:
    """The guards of parts, each of which is visited once."""

    def __init__(self, kind: type, flags: frozenset[str]) -> None:
        self.guards: list[Guard] = []
        self.pending: deque[tuple[AccessPath, Any]] = deque()
        self._kind = kind
        self._flags = flags
        self._seen: set[int] = set()

    def visit(self, path: AccessPath | Root, value: Any) -> None:
        part = isinstance(value, self._kind)
        if part or isinstance(value, Variable):
            self._guard(path, "identity", value)
        if id(value) in self._seen or isinstance(value, Variable):
            return
        self._seen.add(id(value))
        if part:
            entries = AccessPath(path, "attribute", "__dict__", "")
            self._guard(entries, "keys", vars(value))
            self._add(entries, "item", vars(value).items(), self._flags)
        elif isinstance(value, dict):
            self._guard(path, "keys", value)
            self._add(path, "item", contents(value).items())
        elif isinstance(value, (list, tuple)):
            self._guard(path, "length", value)
            self._add(path, "item", enumerate(contents(value)))
        else:
            self._guard(path, "type", value)
            names = value.__dataclass_fields__
            self._add(path, "attribute", [(name, getattr(value, name, None)) for name in names])

    def _add(
        self, path: AccessPath | Root, how: str, items: Iterable[tuple[Any, Any]],
        flags: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        for key, value in items:
            entry = AccessPath(path, how, key, "")
            if self._is_walked(value):
                self.pending.append((entry, value))
            elif key in flags:
                self._guard(entry, "value" if type(value) in _PLAIN else "identity", value)
            else:
                self._guard(entry, "unless", (value, self._is_walked))

    def _guard(self, path: AccessPath | Root, kind: str, value: Any) -> None:
        if isinstance(path, AccessPath):
            self.guards.append(Guard(Read(path, kind, value)))

    def _is_walked(self, value: Any) -> bool:
        """Whether the walk yields or enters a value."""
        return isinstance(value, (self._kind, Variable, dict, list, tuple)) or (
            hasattr(type(value), "__dataclass_fields__")
        )
