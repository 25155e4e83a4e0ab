"""The linker of object files into images: sections one after the other, references resolved.

The objects are ELF files of x86-64 or AArch64 without external references. Only relative references
can be resolved before the address of the code is known; other references are an error.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, final

from eagerflow_kernels.native.machine_code import ALIGNMENT, Image

_X86_64, _AARCH64 = 62, 183
#: the unit of addresses in instructions of AArch64, whatever the page size of the system
_PAGE: Final = 4096
_SYMBOLS, _RELOCATIONS = 2, 4  # SHT_SYMTAB, SHT_RELA
_ALLOCATED, _WRITABLE = 2, 1  # SHF_ALLOC, SHF_WRITE
_GLOBAL, _FUNCTION = 1, 2  # STB_GLOBAL, STT_FUNC


@final
class LinkError(ValueError):
    """An object with a reference to an undefined symbol, or of an unknown kind."""


class _Section(NamedTuple):
    """A section header of ELF, without unused fields."""

    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


class _Symbol(NamedTuple):
    name: str
    info: int
    section: int
    value: int


@final
@dataclass(frozen=True, slots=True)
class _Object:
    """An object file.

    Attributes:
        data: its bytes.
        machine: the number of its architecture.
        sections: the headers of its sections.
    """

    data: bytes
    machine: int
    sections: list[_Section]

    @staticmethod
    def read(data: bytes) -> _Object:
        if data[:6] != b"\x7fELF\x02\x01":
            raise LinkError("this is no little-endian ELF file of 64 bits")
        (machine,) = struct.unpack_from("<H", data, 18)
        (start,) = struct.unpack_from("<Q", data, 40)
        size, count = struct.unpack_from("<HH", data, 58)
        sections = []
        for i in range(count):
            _, kind, flags, _, offset, length, link, info, alignment, _ = struct.unpack_from(
                "<IIQQQQIIQQ", data, start + i * size
            )
            sections.append(_Section(kind, flags, offset, length, link, info, alignment))
        return _Object(data, machine, sections)

    def symbols(self) -> list[_Symbol]:
        (table,) = [s for s in self.sections if s.kind == _SYMBOLS]
        names = self.sections[table.link]
        result = []
        for at in range(table.offset, table.offset + table.size, 24):
            name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", self.data, at)
            first = names.offset + name
            text = self.data[first : self.data.index(b"\0", first)].decode()
            result.append(_Symbol(text, info, section, value))
        return result

    def relocations(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Section, offset, kind, symbol and addend of each relocation."""
        for section in self.sections:
            if section.kind == _RELOCATIONS:
                for at in range(section.offset, section.offset + section.size, 24):
                    offset, info, addend = struct.unpack_from("<QQq", self.data, at)
                    yield section.info, offset, info & 0xFFFFFFFF, info >> 32, addend


def link(data: bytes) -> Image:
    """The image of an object file.

    Args:
        data: the object file that LLVM wrote.

    Raises:
        LinkError: it has an external or unknown reference, or writable data.
    """
    of = _Object.read(data)
    places: dict[int, int] = {}
    code = bytearray()
    for i, section in enumerate(of.sections):
        if section.flags & _ALLOCATED and section.size:
            if section.flags & _WRITABLE:
                raise LinkError("machine code has data that is written to")
            code.extend(bytes(-len(code) % max(section.alignment, ALIGNMENT)))
            places[i] = len(code)
            code += data[section.offset : section.offset + section.size]
    symbols = of.symbols()
    for place, offset, kind, number, addend in of.relocations():
        if place not in places:
            continue
        symbol = symbols[number]
        if symbol.section not in places:
            raise LinkError(f"machine code refers to {symbol.name!r}, which it does not define")
        fill = _FILLED.get((of.machine, kind))
        if fill is None:
            raise LinkError(f"a reference of kind {kind} to {symbol.name!r} is not known")
        target = places[symbol.section] + symbol.value + addend
        fill(code, places[place] + offset, target)
    entries = {
        s.name: places[s.section] + s.value
        for s in symbols
        if s.info >> 4 == _GLOBAL and s.info & 15 == _FUNCTION and s.section in places
    }
    return Image(bytes(code), entries, _PAGE if of.machine == _AARCH64 else ALIGNMENT)


# --- references: `at` is the offset of a reference, `target` the offset that it refers to ---

_Fill = Callable[[bytearray, int, int], None]


def _relative(code: bytearray, at: int, target: int) -> None:
    """Resolve a reference to the 32-bit difference of target and place."""
    struct.pack_into("<i", code, at, target - at)


def _bits(code: bytearray, at: int, value: int, low: int, count: int) -> None:
    """Put bits of a value into an instruction, whose bits there are 0."""
    (word,) = struct.unpack_from("<I", code, at)
    struct.pack_into("<I", code, at, word | (value & (1 << count) - 1) << low)


def _page(code: bytearray, at: int, target: int) -> None:
    """Resolve a reference of ADRP: the number of pages to the target."""
    pages = target // _PAGE - at // _PAGE
    _bits(code, at, pages, 29, 2)
    _bits(code, at, pages >> 2, 5, 19)


def _in_page(shift: int) -> _Fill:
    """References of ADD and LDR: the offset within a page, in units of the loaded size."""

    def fill(code: bytearray, at: int, target: int) -> None:
        _bits(code, at, target % _PAGE >> shift, 10, 12)

    return fill


def _branch(code: bytearray, at: int, target: int) -> None:
    """Resolve a reference of B or BL: the number of instructions to the target."""
    _bits(code, at, (target - at) >> 2, 0, 26)


_FILLED: Final[dict[tuple[int, int], _Fill]] = {
    (_X86_64, 2): _relative,  # R_X86_64_PC32
    (_X86_64, 4): _relative,  # R_X86_64_PLT32
    (_AARCH64, 261): _relative,  # R_AARCH64_PREL32
    (_AARCH64, 275): _page,  # R_AARCH64_ADR_PREL_PG_HI21
    (_AARCH64, 277): _in_page(0),  # R_AARCH64_ADD_ABS_LO12_NC
    (_AARCH64, 278): _in_page(0),  # R_AARCH64_LDST8_ABS_LO12_NC
    (_AARCH64, 284): _in_page(1),  # R_AARCH64_LDST16_ABS_LO12_NC
    (_AARCH64, 285): _in_page(2),  # R_AARCH64_LDST32_ABS_LO12_NC
    (_AARCH64, 286): _in_page(3),  # R_AARCH64_LDST64_ABS_LO12_NC
    (_AARCH64, 299): _in_page(4),  # R_AARCH64_LDST128_ABS_LO12_NC
    (_AARCH64, 282): _branch,  # R_AARCH64_JUMP26
    (_AARCH64, 283): _branch,  # R_AARCH64_CALL26
}
