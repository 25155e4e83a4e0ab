"""Placeholders: texts of values that only a graph knows.

``str(x)`` and ``f"{x:.2f}"`` of a symbolic tensor, number or size give a *placeholder*, a unique
text such as ``«#7 f32[]@cpu:0 #7»``. The node that uses the text when the graph runs (a message of
an exception, a line that is printed) takes the value as an input and formats it then.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final, NoReturn, final
from weakref import WeakValueDictionary

from eagerflow.errors import TraceError
from eagerflow.source import is_framework_frame

_OPEN: Final = "«"
_CLOSE: Final = "»"
_WHOLE: Final = re.compile(f"({_OPEN}[^{_OPEN}{_CLOSE}]*{_CLOSE})")
#: an end of a placeholder with its number, or with the first digits of the number
_CUT: Final = re.compile(f"{_OPEN}#(?P<first>[0-9]*)$|(?P<whole>{_OPEN}#[0-9]+ |#[0-9]+{_CLOSE})")
_numbers: Final = count(1)


@final
class Placeholder(str):
    """A stand-in for a text that is known when the graph runs.

    Attributes:
        value: the value that it shows, a tree of tensors and numbers.
        kind: the kind of value, for display.
        spell: makes the text, once the value is known.
        kept: keeps placeholders alive as long as the trace.
    """

    __slots__ = ("__weakref__", "kept", "kind", "spell", "value")

    value: Any
    kind: str
    spell: Callable[[Any], str]
    kept: list[Placeholder]

    def __str__(self) -> str:
        return self

    def __format__(self, spec: str) -> str:
        return self._spelled(lambda text: format(text, spec)) if spec else self

    def __repr__(self) -> str:
        # user code wants the repr of the final text; eagerflow shows the placeholder itself
        return super().__repr__() if _of_framework() else self._spelled(repr)

    def __bool__(self) -> bool:
        return True if _of_framework() else self.refuse()

    def __add__(self, other: Any) -> Any:
        return joined((self, other)) if isinstance(other, str) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return joined((other, self)) if isinstance(other, str) else NotImplemented

    def _spelled(self, change: Callable[[str], str]) -> Placeholder:
        """The placeholder of a text derived from this one by ``change``."""
        spell = self.spell
        return placeholder(self.value, self.kind, lambda value: change(spell(value)), self.kept)

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse an operation that needs the text itself."""
        raise TraceError(
            "a text that shows a value is used, and only the graph knows the value",
            given=f"the text of {self.kind}",
            expected="a message of an exception or an assertion, print() or ef.print()",
            hint="decide with tensors (x > 0, ef.isnan(x)), or use ef.py_call to run Python code "
            "on the value in each step",
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return str.__eq__(self, other) if _of_framework() else self.refuse()

    def __ne__(self, other: object) -> bool:
        if self is other:
            return False
        return str.__ne__(self, other) if _of_framework() else self.refuse()

    def __hash__(self) -> int:
        return str.__hash__(self) if _of_framework() else self.refuse()


def _of_framework() -> bool:
    """Whether the method that asks was called by code of eagerflow."""
    return is_framework_frame(sys._getframe(2))


def _refuse_methods() -> None:
    kept = {"join", "maketrans", *vars(object), *vars(Placeholder)}
    # the methods that `int()` and `float()` look up first, and `pathlib.Path(...) / text`
    more = {"__float__", "__int__", "__index__", "__complex__", "__rtruediv__"}
    for name in more | vars(str).keys() - kept:
        setattr(Placeholder, name, Placeholder.refuse)


_refuse_methods()

#: the placeholders of running traces, by their texts
_known: Final[WeakValueDictionary[str, Placeholder]] = WeakValueDictionary()


def placeholder(
    value: Any, kind: str, spell: Callable[[Any], str], kept: list[Placeholder]
) -> Placeholder:
    """A new placeholder for a text that shows a value.

    Args:
        value: a tree of symbolic tensors and numbers, and other objects.
        kind: the kind of value, for display.
        spell: makes the text, given the tree with known values.
        kept: the list of the trace that keeps its placeholders alive.
    """
    kind = kind.replace(_OPEN, "").replace(_CLOSE, "")
    number = next(_numbers)
    text = f"{_OPEN}#{number} {kind} #{number}{_CLOSE}"
    stand_in = Placeholder(text)
    stand_in.value, stand_in.kind, stand_in.spell, stand_in.kept = value, kind, spell, kept
    kept.append(stand_in)
    _known[text] = stand_in
    return stand_in


def has_placeholder(text: str) -> bool:
    """Whether a text shows a value that only the graph knows."""
    return text_parts(text) is not None


def holds_placeholder(x: Any) -> bool:
    """Whether ``x`` is a string that contains a placeholder."""
    return isinstance(x, str) and has_placeholder(x)


def text_parts(text: str) -> Sequence[str | Placeholder] | None:
    """The pieces of a text and the placeholders between them; None if there are none.

    Raises:
        TraceError: it holds a fragment of a placeholder, which stands for nothing.
    """
    plain = "".join([text])  # a plain string: a placeholder refuses its methods
    if _OPEN not in plain and _CLOSE not in plain:
        return None
    parts: list[Any] = [_known.get(part, part) for part in _WHOLE.split(plain)]
    rest = [part for part in parts if type(part) is str]
    if any(map(_is_cut, rest)):
        raise TraceError(
            "a text that shows a value was cut or changed, and only the graph knows the value",
            given=repr(plain),
            hint="use the text as it is, and give widths and digits in the format: f'{x:>8.2f}'",
        )
    return parts if len(rest) < len(parts) else None


def joined(texts: Sequence[str]) -> str:
    """The concatenation of texts; a placeholder if one of them contains a placeholder."""
    whole = "".join(texts)
    parts = text_parts(whole)
    if parts is None:
        return whole
    shown = [part for part in parts if isinstance(part, Placeholder)]
    kind = "".join([p.kind if isinstance(p, Placeholder) else p for p in parts])
    # kept by graphs, so it must not hold the values of the trace
    pieces = [p.spell if isinstance(p, Placeholder) else p for p in parts]

    def spell(values: Sequence[Any]) -> str:
        rest = iter(values)
        return "".join([p if isinstance(p, str) else p(next(rest)) for p in pieces])

    return placeholder([one.value for one in shown], kind, spell, shown[0].kept)


def _is_cut(text: str) -> bool:
    """Whether a text holds an end of a placeholder of a running trace.

    An end is recognised by its number: texts of users may contain the same marks.
    """
    numbers = [known[2 : known.index(" ")] for known in list(_known)]
    return any(
        any(n.startswith(cut["first"]) for n in numbers) if cut["whole"] is None
        else cut["whole"].strip(f"{_OPEN}# {_CLOSE}") in numbers
        for cut in _CUT.finditer(text)
    )  # fmt: skip
