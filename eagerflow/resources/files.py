"""The files of this process, as a resource: what reads them comes after what wrote before."""

from __future__ import annotations

from typing import Final, final


@final
class FileSystem:
    """Stands for all files in graphs, which keep reads and writes of one resource in order.

    Attributes:
        name: in graphs.
    """

    __slots__ = ("__weakref__", "name")

    def __init__(self) -> None:
        self.name = "files"

    def __repr__(self) -> str:
        return "the files"


FILES: Final = FileSystem()
