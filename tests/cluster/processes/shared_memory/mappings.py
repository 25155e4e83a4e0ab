"""The slabs that a process has mapped."""

from __future__ import annotations

from pathlib import Path


def maps() -> int:
    """The number of slabs that this process has mapped, at either end."""
    return Path("/proc/self/maps").read_text().count("memfd:eagerflow ")
