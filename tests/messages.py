"""What errors say, beside the line of the user that they end with."""

from __future__ import annotations

import re
from collections.abc import Callable


def says(text: str) -> Callable[[BaseException], bool]:
    """For ``check=`` of `pytest.raises`: whether an error says it before the user's line.

    That line may be the line of the test which has the text, and then ``match=`` cannot fail.
    """
    return lambda error: re.search(text, str(error).partition("\n  at: ")[0]) is not None
