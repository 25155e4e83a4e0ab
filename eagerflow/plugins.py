"""The entry points by which installed packages extend eagerflow.

Python's own search for them takes 20 ms, most of it to load the reader of metadata, and most users
have no such package. So the files that would declare an entry point are searched first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def entry_points(*groups: str) -> list[EntryPoint]:
    """The entry points of some groups, such as ``"eagerflow.ops"``, group by group."""
    if not _may_have(groups):
        return []
    from importlib import metadata  # noqa: PLC0415 - 15 ms, to be paid only where there are plug-ins

    return [point for group in groups for point in metadata.entry_points(group=group)]


def _may_have(groups: tuple[str, ...]) -> bool:
    """Whether Python's own search may find an entry point; False only if it certainly does not."""
    if any(f is not PathFinder and hasattr(f, "find_distributions") for f in sys.meta_path):
        return True
    headings = [f"[{group}]".encode() for group in groups]
    try:
        return any(heading in text for text in _texts() for heading in headings)
    except NotADirectoryError:  # an archive, which only Python's search can read
        return True


def _texts() -> Iterator[bytes]:
    """The contents of the files ``entry_points.txt`` of installed packages."""
    for folder in sys.path:
        if not isinstance(folder, str):  # ignored by Python's own search, too
            continue
        if folder.endswith((".egg", ".egg-link")):
            raise NotADirectoryError(folder)
        try:
            names = os.listdir(folder or os.curdir)
        except (FileNotFoundError, PermissionError):
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                try:
                    with open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
                        text = file.read()
                except OSError:  # the package has no entry points
                    continue
                yield text
