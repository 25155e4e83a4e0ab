"""Writes CuPy's signatures to a file: functions with parameters, ufuncs with dtypes, methods.

Run with CuPy installed (``pip install cupy-cuda12x``; it needs no GPU to be imported)::

    python tools/cupy_signatures.py tests/kernels/cuda/cupy_signatures.json

`tests/kernels/cuda` runs the table of ops under a namespace of exactly these signatures. With CuPy
installed, a test there compares the file with the result of this module.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

SPACES = ("", "linalg", "fft", "lib.stride_tricks")
#: bfloat16, which CuPy has where ml_dtypes is installed, and which the backend refuses
LEFT_OUT = "E"


def parameters(function: Any) -> list[str] | None:
    """The parameters as texts: a name, ``name=`` with a default, ``*name``, ``**name``, ``*``.

    Compiled functions and methods have them in the first line of their documentation.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return _documented(function)
    texts = []
    keyword_only = False
    for one in signature.parameters.values():
        if one.name == "self":
            continue
        if one.kind is one.VAR_POSITIONAL:
            texts.append(f"*{one.name}")
            keyword_only = True
        elif one.kind is one.VAR_KEYWORD:
            texts.append(f"**{one.name}")
        else:
            if one.kind is one.KEYWORD_ONLY and not keyword_only:
                texts.append("*")
                keyword_only = True
            texts.append(one.name + ("" if one.default is one.empty else "="))
    return texts


def _documented(function: Any) -> list[str] | None:
    match = re.match(r"[\w.]+\((.*?)\)(?: ->.*)?$", (function.__doc__ or "").partition("\n")[0])
    if match is None:
        return None
    texts = []
    for part in match[1].split(", "):
        name = part.partition("=")[0].split(" ")[-1]
        if name and name not in ("self", "/"):
            texts.append(name + ("=" if "=" in part else ""))
    return texts


def signatures(cupy: ModuleType) -> dict[str, Any]:
    """All signatures, as data for JSON."""
    functions: dict[str, Any] = {}
    ufuncs: dict[str, Any] = {}
    values: list[str] = []
    for space in SPACES:
        module: Any = cupy
        for part in filter(None, space.split(".")):
            module = getattr(module, part)
        for name in sorted(n for n in dir(module) if not n.startswith("_")):
            member = getattr(module, name)
            full = f"{space}.{name}" if space else name
            if isinstance(member, cupy.ufunc):
                types = [loop for loop in member.types if LEFT_OUT not in loop]
                ufuncs[full] = {"in": member.nin, "types": types}
            elif isinstance(member, type) or not callable(member):
                values.append(full)
            elif not isinstance(member, ModuleType):
                functions[full] = parameters(member)
    methods = {
        name: parameters(getattr(cupy.ndarray, name)) if callable(getattr(cupy.ndarray, name))
        else None
        for name in dir(cupy.ndarray) if not name.startswith("_")
    }  # fmt: skip
    operators = [
        name for name in dir(cupy.ndarray) if name.startswith("__") and name.endswith("__")
    ]
    return {
        "version": cupy.__version__, "functions": functions, "ufuncs": ufuncs,
        "values": values, "methods": methods, "operators": operators,
        "ufunc methods": {n: parameters(getattr(cupy.ufunc, n))
                          for n in ("at", "reduce", "accumulate", "reduceat", "outer")},
    }  # fmt: skip


def main() -> None:
    """Write the file that the command line names."""
    import cupy  # noqa: PLC0415 - not in the development environment

    text = json.dumps(signatures(cupy), separators=(",", ":"), sort_keys=True)
    Path(sys.argv[1]).write_text(text + "\n")


if __name__ == "__main__":
    main()
