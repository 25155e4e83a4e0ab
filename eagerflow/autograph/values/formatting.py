"""Texts in converted code: f-strings, `%`, `str` and `repr` of values that only the graph knows."""

from __future__ import annotations

import builtins
import io
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from eagerflow.autograph.conversion.convert import operator, replacements, wrappers
from eagerflow.autograph.tracking.blocks import tracer_here
from eagerflow.control.subgraphs import own_handles
from eagerflow.core import interpreter, tree
from eagerflow.core.abstract_symbols import AbstractNumber, AbstractSymbol
from eagerflow.core.placeholders import holds_placeholder, joined
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.dims import Dim, spelled
from eagerflow.dims.number_stand_ins import AbstractAsked
from eagerflow.errors import TraceError

#: modules whose functions take paths
_OF_PATHS: Final = ("os", "posix", "nt", "posixpath", "ntpath", "genericpath", "pathlib",
                    "pathlib._local", "glob", "shutil")  # fmt: skip
_SPELLINGS: Final[dict[str, Callable[[Any], str]]] = {"": str, "r": repr, "a": ascii}


@operator
def text(made: str) -> str:
    """An f-string: a placeholder if it shows values that only the graph knows."""
    return joined((made,))


@operator
def shown(value: Any, conversion: str) -> Any:
    """The text of a value in an f-string.

    Args:
        value: the value.
        conversion: ``"r"``, ``"s"`` or ``"a"`` as after the exclamation mark, or empty.
    """
    if conversion == "s":
        return _str(value)
    within = any(x is not value and _is_unknown(x) for x in tree.leaves(value))
    if conversion or within:
        return _spelled(value, _SPELLINGS[conversion])
    return value  # tensors and numbers have texts of their own


@operator
def percent(pattern: Any, values: Any) -> Any:
    """``pattern % values`` for a text."""
    return _spelled((pattern, values), lambda both: both[0] % both[1])


def is_symbolic(x: Any) -> bool:
    """Whether a tree holds values of a trace: tensors, numbers, or texts that show them."""
    leaves = tree.leaves(x)
    return any(issubclass(type(leaf), AbstractAsked) or _is_unknown(leaf) for leaf in leaves)


def _is_unknown(x: Any) -> bool:
    """Whether only the graph knows a value."""
    if type(x) is Tensor:
        return isinstance(x._data, AbstractSymbol)
    if type(x) is Dim:
        return not tracer_here().sizes.knows(x)
    return x.varies if issubclass(type(x), AbstractNumber) else holds_placeholder(x)


def _spelled(x: Any, spell: Callable[[Any], str]) -> str:
    """The text of a tree; a placeholder if only the graph knows its contents."""
    if not interpreter.is_traced():
        return spell(x)
    leaves = tree.leaves(x)
    if any(map(_is_unknown, leaves)):
        kind = "".join([str(x.type)]) if type(x) is Tensor else type(x).__name__
        return tracer_here().text(own_handles(x), kind, spell)
    return spelled(spell, x)


def _str(*args: Any, **options: Any) -> str:
    plain = len(args) == 1 and not options and not isinstance(args[0], AbstractArray)
    return _spelled(args[0], str) if plain else str(*args, **options)


def _formatted(function: Any) -> Callable[..., str]:
    """``pattern.format`` or ``pattern.format_map`` of a text."""
    name = function.__name__

    def format(*args: Any, **kwargs: Any) -> str:
        everything = function.__self__, args, kwargs
        return _spelled(everything, lambda known: getattr(known[0], name)(*known[1], **known[2]))

    return format


def _without_texts(function: Any, wrong: str, hint: str) -> Callable[..., Any]:
    """A function of Python that reads texts at once, so that placeholders in them are refused."""

    def call(*args: Any, **kwargs: Any) -> Any:
        text = next((x for x in tree.leaves((args, kwargs)) if holds_placeholder(x)), None)
        if text is not None:
            raise TraceError(
                f"{wrong}, and only the graph knows the value",
                given=f"{function.__name__}() of {''.join([text])!r}",
                hint=hint,
            )
        return function(*args, **kwargs)

    return call


#: for `int`, `float` and `complex`
_number: Final = partial(
    _without_texts, wrong="a text that shows a value is converted to a number",
    hint="compute with the value itself, or use ef.py_call",
)  # fmt: skip
#: for functions of paths
_with_paths: Final = partial(
    _without_texts, wrong="a path shows a value",
    hint="do it in a function that ef.py_call calls with the value in each step",
)  # fmt: skip


replacements.update({
    str: _str, builtins.repr: lambda x, /: _spelled(x, repr),
    builtins.ascii: lambda x, /: _spelled(x, ascii), io.open: _with_paths(io.open),
})  # fmt: skip
replacements.update((kind, _number(kind)) for kind in (int, float, complex))
wrappers.update(dict.fromkeys(_OF_PATHS, _with_paths))
wrappers.update({(str, name): _formatted for name in ("format", "format_map")})
