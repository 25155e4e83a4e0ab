"""The names and keyword arguments of eagerflow that hints mention: all of them are there."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import reduce
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import hints
from eagerflow.settings import Settings
from tests.each import check_each

_PATH = re.compile(r"\bef((?:\.[a-zA-Z_]\w*)+)(\()?")


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value.replace("{name}", "max")
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)


def _all_texts() -> list[str]:
    modules = [
        importlib.import_module(f"eagerflow.hints.{info.name}")
        for info in pkgutil.iter_modules(hints.__path__)
    ]
    values = [v for module in modules for n, v in vars(module).items() if n.strip("_").isupper()]
    values += [
        value for table in (hints.ATTRIBUTES, hints.MODULE_NAMES) for value in table.values()
    ]
    return sorted({text for value in values for text in _texts(value) if "ef." in text})


def _call_at(text: str, start: int) -> ast.Call | None:
    """The call that begins there, if it is one of Python."""
    for end in (i for i, char in enumerate(text) if char == ")" and i > start):
        try:
            parsed = ast.parse(text[start : end + 1], mode="eval").body
        except SyntaxError:
            continue
        return parsed if isinstance(parsed, ast.Call) else None
    return None


def _keywords(function: Any) -> set[str] | None:
    """The keyword arguments that a function takes; None if it takes any."""
    if function is ef.config:
        return {field.name for field in fields(Settings)}
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY}


def missing(text: str) -> list[str]:
    """The names and keyword arguments in a hint that eagerflow does not have."""
    wrong = []
    for match in _PATH.finditer(text):
        path = match[1][1:].split(".")
        try:
            function = reduce(getattr, path, ef)
        except AttributeError:
            wrong.append(match[0])
            continue
        call = _call_at(text, match.start()) if match[2] else None
        if call is None:
            # keywords in a text that is no expression: ef.config(kernels=)
            named = re.findall(r"(\w+)=[,)]", text[match.end() :].partition(")")[0] + ")")
            given = set(named) if match[2] else set()
        else:
            if not ast.unparse(call.func).endswith(path[-1]):
                continue  # a method of the result
            given = {k.arg for k in call.keywords if k.arg is not None}
        known = _keywords(function) if given else None
        if known is not None:
            wrong += [f"{match[0]}{name}=" for name in sorted(given - known)]
    return wrong


def test_hints_name_what_is_there() -> None:
    texts = _all_texts()
    assert len(texts) > 300
    check_each(texts, _names_what_is_there)


def _names_what_is_there(text: str) -> None:
    assert missing(text) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("ef.config(deterministic=True)", ["ef.config(deterministic="]),
        ("with ef.config(kernel=): ...", ["ef.config(kernel="]),
        ("use ef.summ(x), or ef.sum(x, dim=0)", ["ef.summ(", "ef.sum(dim="]),
        ("ef.optim.SGD(net.trainable, lr=0.1)", []),
    ],
)
def test_what_is_not_there_is_found(text: str, wrong: list[str]) -> None:
    assert missing(text) == wrong


def test_there_are_many() -> None:
    assert len(_all_texts()) > 200
