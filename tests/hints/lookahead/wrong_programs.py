"""Programs with an error, and what is told of their other lines."""

from __future__ import annotations

import linecache

from eagerflow.hints.lookahead.rest_of_source import rest_of_source
from eagerflow.source import users_frame


def error_of(source: str, file: str) -> Exception:
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    try:
        exec(compile(source, file, "exec"), {"__name__": "__main__"})
    except Exception as error:
        return error
    raise AssertionError(f"{file} ran")


def rest_of(source: str, file: str = "<cell>") -> str | None:
    error = error_of(source, file)
    return rest_of_source(error, users_frame(error))
