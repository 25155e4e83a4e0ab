"""The text of modules: an indented tree with the arguments of each."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any

import eagerflow as ef
from eagerflow.extending import children

_PLAIN = (bool, int, float, str, type(None))


def outline(module: Any, kind: type) -> str:
    """The text of a module and, indented below it, of the modules that it holds."""
    return "\n".join(_lines(module, kind, frozenset()))


def _lines(module: Any, kind: type, above: frozenset[int]) -> list[str]:
    name = type(module).__name__
    if id(module) in above:
        return [f"{name}(...)"]
    lines = [f"{name}({', '.join(_settings(module, kind))})"]
    parts = [
        (path, _lines(value, kind, above | {id(module)}))
        for path, value in children(module, kind)
        if isinstance(value, kind)
    ]
    functions = list(_functions(module, kind))
    if functions:
        order = list(vars(module))
        parts = sorted([*parts, *functions], key=lambda part: _place(part[0], order))
    for paths, (first, *rest) in _alike(parts):
        start = paths[0] if len(paths) == 1 else f"{paths[0]} to {paths[-1]}"
        lines += [f"  {start}: {first}", *[f"  {line}" for line in rest]]
    return lines


def _functions(module: Any, kind: type) -> Iterator[tuple[str, list[str]]]:
    """The functions in lists and tuples that a module holds, such as activations."""
    for name, value in vars(module).items():
        for i, part in enumerate(value if isinstance(value, list | tuple) else ()):
            if callable(part) and not isinstance(part, kind | type):
                yield f"{name}.{i}", [_name_of(part)]


def _name_of(function: Any) -> str:
    if isinstance(function, partial):
        return f"partial({_name_of(function.func)})"
    name: str = getattr(function, "__name__", type(function).__name__)
    return name.strip("<>")


def _place(path: str, attributes: list[str]) -> tuple[int, int]:
    """The sort key of a part: the position of its attribute, and its position in that."""
    name, _, rest = path.partition(".")
    item = rest.partition(".")[0]
    return attributes.index(name), int(item) if item.isdigit() else 0


def _alike(parts: list[tuple[str, list[str]]]) -> list[tuple[list[str], list[str]]]:
    """Groups of consecutive items of one container with equal texts."""
    groups: list[tuple[list[str], list[str]]] = []
    for path, lines in parts:
        owner, _, item = path.rpartition(".")
        last = groups[-1] if groups else None
        if last is not None and last[1] == lines and item.isdigit():
            before, _, number = last[0][-1].rpartition(".")
            if before == owner and number.isdigit() and int(number) + 1 == int(item):
                last[0].append(path)
                continue
        groups.append(([path], lines))
    return groups


def _settings(module: Any, kind: type) -> list[str]:
    """The arguments of a module, as far as attributes of these names show them.

    Defaults are left out; if nothing remains, the variables of the module are shown. Arguments
    without a default have their names, except those of eagerflow's layers, which are well known.
    """
    ours = type(module).__module__.partition(".")[0] == "eagerflow"
    parameters = inspect.signature(type(module).__init__).parameters.values()
    settings = []
    for parameter in parameters:
        value = vars(module).get(parameter.name, parameter.default)
        if isinstance(parameter.default, bool) and not isinstance(value, bool):
            value = value is not None  # bias=True makes a variable of this name
        if not _is_plain(value) or _same(value, parameter.default):
            continue
        known = ours and parameter.default is inspect.Parameter.empty
        settings.append(repr(value) if known else f"{parameter.name}={value!r}")
    if settings:
        return settings
    return [
        f"{n}: {short_type(v)}" for n, v in children(module, kind) if isinstance(v, ef.Variable)
    ]


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN)


def short_type(x: ef.Tensor | ef.Variable) -> str:
    """The text of a type without the device."""
    return str(x.type).partition("@")[0]
