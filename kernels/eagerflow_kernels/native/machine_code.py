"""Machine code as an image: bytes that run at any address, and where each function begins.

All references within an image are relative, and it has none to anything else. So there is nothing
to link when a program runs: the bytes are mapped, and functions are called.

On disk an image is lines of text, a number and the head of a function each
(``64 exp_f32(f32) -> f32``), an empty line, and the code. The number is an offset into the code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

#: parts of an image begin at multiples of it, the widest that constants need
ALIGNMENT: Final = 64


@final
@dataclass(frozen=True, slots=True)
class Image:
    """Machine code that runs wherever it is mapped.

    Attributes:
        code: instructions and constants.
        entries: the functions, with their offsets.
        alignment: of the address where it begins; mappings are at pages, which are enough.
    """

    code: bytes
    entries: dict[str, int]
    alignment: int = ALIGNMENT

    @staticmethod
    def joined(images: Iterable[Image]) -> Image:
        """Several as one; no two may have a function of the same name."""
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
        """As it lies on disk.

        Args:
            heads: the names of its functions as they are to be written, with their arrays.
        """
        written = self.entries if heads is None else heads
        lines = [f"{self.entries[head.partition('(')[0]]} {head}\n" for head in written]
        return b"".join([*(line.encode() for line in lines), b"\n", self.code])

    @staticmethod
    def unpacked(data: bytes) -> tuple[Image, dict[str, str]]:
        """What `packed` gave; of each function the text after its name, too.

        Raises:
            ValueError: it is something else.
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
