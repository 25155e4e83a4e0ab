"""Images of machine code: bytes that run at any address, and the offsets of functions.

All references within an image are relative, and it has no external references. So there is nothing
to link when a program runs: the bytes are mapped, and functions are called.

A file of an image has a line of text for each function, with the offset of its code and its head
(``64 exp_f32(f32) -> f32``), an empty line, and the code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

#: parts of an image begin at multiples of it: the widest alignment of constants
ALIGNMENT: Final = 64


@final
@dataclass(frozen=True, slots=True)
class Image:
    """Machine code that runs at any address.

    Attributes:
        code: instructions and constants.
        entries: the functions, with their offsets.
        alignment: of its address; mappings begin at pages, which suffice.
    """

    code: bytes
    entries: dict[str, int]
    alignment: int = ALIGNMENT

    @staticmethod
    def joined(images: Iterable[Image]) -> Image:
        """Join several images into one; their functions must have different names."""
        code, entries, alignment = bytearray(), dict[str, int](), ALIGNMENT
        for image in images:
            alignment = max(alignment, image.alignment)
            code.extend(bytes(-len(code) % image.alignment))
            twice = entries.keys() & image.entries.keys()
            if twice:
                raise ValueError(f"two functions are called {min(twice)}")
            entries |= {name: len(code) + at for name, at in image.entries.items()}
            code += image.code
        return Image(bytes(code), entries, alignment)

    def packed(self, heads: Iterable[str] | None = None) -> bytes:
        """The bytes of a file of the image.

        Args:
            heads: the heads of its functions, with their arrays; only names if None.
        """
        written = self.entries if heads is None else heads
        lines = [f"{self.entries[head.partition('(')[0]]} {head}\n" for head in written]
        return b"".join([*(line.encode() for line in lines), b"\n", self.code])

    @staticmethod
    def unpacked(data: bytes) -> tuple[Image, dict[str, str]]:
        """Parse the result of `packed`; returns the head of each function, too.

        Raises:
            ValueError: the data is no file of an image.
        """
        text, separator, code = data.partition(b"\n\n")
        if not separator:
            raise ValueError("this is no image of machine code")
        entries, heads = dict[str, int](), dict[str, str]()
        for line in text.decode().splitlines():
            offset, _, head = line.partition(" ")
            name = head.partition("(")[0]
            entries[name], heads[name] = int(offset), head
        return Image(code, entries), heads
