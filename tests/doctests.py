"""Comparison of doctest output with a tolerance for floating-point numbers.

The last digit of ``exp(1)`` in float32 depends on the vector instructions of the CPU, so examples
that compare as text would be right on one machine and wrong on the next.
"""

from __future__ import annotations

import doctest
import math
import re

RELATIVE, ABSOLUTE = 2e-6, 1e-7  # some units in the last place of float32

_FLOAT = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d*|\.\d+|\d+(?=e))(?:e[-+]?\d+)?(?!(?!j)\w)")
_exact = doctest.OutputChecker.check_output


def close(want: str, got: str) -> bool:
    """Whether the texts agree, white space aside, in all but the last digits of floats."""
    text_want, text_got = (re.sub(r"\s+", "", _FLOAT.sub("#", text)) for text in (want, got))
    if text_want != text_got:
        return False
    numbers = zip(_FLOAT.findall(want), _FLOAT.findall(got), strict=True)
    return all(
        math.isclose(float(a), float(b), rel_tol=RELATIVE, abs_tol=ABSOLUTE) for a, b in numbers
    )


def _check(self: doctest.OutputChecker, want: str, got: str, optionflags: int) -> bool:
    return _exact(self, want, got, optionflags) or close(want, got)


def install() -> None:
    """Make all runners of doctests in this process compare like this, pytest's among them."""
    doctest.OutputChecker.check_output = _check
