"""What installed packages add to eagerflow: the entry points by which they say so.

Python's own search for them takes 20 ms, most of it to load what reads metadata, and most people
have no such package. So the files in which one would announce itself are looked through first.
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
    """Whether Python's own search may find something; False only where it surely does not."""
    if any(f is not PathFinder and hasattr(f, "find_distributions") for f in sys.meta_path):
        return True
    headings = [f"[{group}]".encode() for group in groups]
    try:
        return any(heading in text for text in _texts() for heading in headings)
    except NotADirectoryError:  # an archive, which only Python's search can read
        return True


def _texts() -> Iterator[bytes]:
    """What installed packages say of their entry points."""
    for folder in sys.path:
        if not isinstance(folder, str):  # Python's own search passes it by
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
                except OSError:  # it has none
                    continue
                yield text
