"""The table of op cases, a module per family; `ALL_CASES` is all of them."""

from __future__ import annotations

import importlib
import pkgutil

from tests.ops.case import OpCase

ALL_CASES: list[OpCase] = []
FAMILIES: dict[str, list[OpCase]] = {}
for _module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
    FAMILIES[_module] = importlib.import_module(f"{__name__}.{_module}").CASES
    ALL_CASES += FAMILIES[_module]
