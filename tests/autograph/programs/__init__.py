"""The programs that a converter has to cope with, each with calls and their results.

A program takes Python numbers and lists as well as tensors: plain Python, eager and traced runs
have to agree.
"""

from __future__ import annotations

from tests.autograph.programs import branches, expressions, functions, loops, statements
from tests.autograph.programs.program import Program

__all__ = ["PROGRAMS"]

PROGRAMS: list[Program] = [
    *branches.PROGRAMS,
    *loops.PROGRAMS,
    *expressions.PROGRAMS,
    *functions.PROGRAMS,
    *statements.PROGRAMS,
]
