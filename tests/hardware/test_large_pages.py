"""Objects of a process move into large pages, where the system has them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from eagerflow.hardware import large_pages
from eagerflow.hardware.large_pages import use_large_pages

#: fills some memory with objects, and moves it; prints the bytes in large pages before and after,
#: and the number of large pages. It says so first if the system refuses even fresh memory
_PROGRAM = """
import ctypes, mmap
from eagerflow.hardware.large_pages import use_large_pages

LARGE = 2 << 20

def in_large_pages():
    with open("/proc/self/smaps_rollup") as file:
        (line,) = [line for line in file if line.startswith("AnonHugePages:")]
    return int(line.split()[1]) << 10

fresh = mmap.mmap(-1, 4 * LARGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
fresh[:] = bytes(len(fresh))
at = ctypes.addressof(ctypes.c_char.from_buffer(fresh))
libc = ctypes.CDLL(None)
libc.madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
if libc.madvise(-(-at // LARGE) * LARGE, LARGE, 25):
    print("refused")
else:
    objects = [[i] for i in range(300_000)]
    before = in_large_pages()
    moved = use_large_pages()
    assert objects == [[i] for i in range(300_000)]
    print(before, in_large_pages(), moved)
"""

_MAPS = """\
558a00000000-558a00100000 rw-p 00000000 00:00 0                          [heap]
558b00100000-558b00700000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000400000 rw-p 00000000 00:00 0 
7f0000400000-7f0000a00000 r--p 00000000 00:00 0 
7f0001000000-7f0001800000 rw-p 00000000 08:01 1234                       /usr/lib/libpython3.so
7f0002000000-7f0002800000 rw-s 00000000 00:01 99                         /memfd:slab (deleted)
7ffd00000000-7ffd00800000 rw-p 00000000 00:00 0                          [stack]
"""  # noqa: W291 - lines of ranges without a name end with a space


@pytest.mark.skipif(sys.platform != "linux", reason="large pages are those of Linux")
def test_objects_move_into_large_pages() -> None:
    told = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=120, check=True
    ).stdout.split()
    if told == ["refused"]:
        pytest.skip("this system has no large pages, or does not let processes ask for them")
    before, after, moved = map(int, told)
    assert after - before >= 10 << 20  # the lists alone have 20 MB
    assert moved << 21 <= after


def test_whole_large_pages_of_own_memory_move() -> None:
    """Not those of files, of shared memory, of the stack, or that may only be read."""
    assert list(large_pages._whole(_MAPS)) == [
        0x558B00200000, 0x558B00400000, 0x7F0000000000, 0x7F0000200000,
    ]  # fmt: skip


def test_other_systems_have_no_such_list(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(large_pages, "_MAPS", tmp_path / "maps")
    assert use_large_pages() == 0


def test_what_the_system_refuses_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Refusing:
        """A C library whose system knows no such advice."""

        def __init__(self) -> None:
            self.madvise = lambda *_: -1

    (tmp_path / "maps").write_text(_MAPS)
    monkeypatch.setattr(large_pages, "_MAPS", tmp_path / "maps")
    monkeypatch.setattr(large_pages, "_libc", Refusing())
    assert use_large_pages() == 0
