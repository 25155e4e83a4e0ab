"""Rates of the devices and links of this machine, and the file that keeps them.

Rates are measured once for a machine (`eagerflow.placement.measure`) and kept in a file of JSON
below ``~/.cache/eagerflow``, or where ``EAGERFLOW_CACHE`` says. A file that is damaged, or of
another machine, counts as none. Rates that were not measured are those of a usual machine.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any, Final, final

from eagerflow.atomic_files import replaced
from eagerflow.core.op_records.cost_formulas import Cost
from eagerflow.formatting import seconds_text, table_lines

_VERSION: Final = 2  # of the file
_NUMBERS: Final = ("region", "send", "crowded_matrix", "crowded_bytes")


@final
@dataclass(frozen=True, slots=True)
class Rates:
    """The rates of a kind of device, or of one core of this machine.

    Attributes:
        bytes: bytes moved from and to memory in a second.
        flops: operations on elements in a second, in units of an addition.
        matrix: operations in products of matrices in a second.
        call: additional seconds of a kernel's call, on the host.
    """

    bytes: float = 8e9
    flops: float = 4e9
    matrix: float = 3e10
    call: float = 2e-6

    def seconds(self, cost: Cost, threads: int = 1) -> float:
        """Seconds that a kernel works on data, without its call.

        Args:
            cost: its operations and bytes.
            threads: number of threads that the libraries of linear algebra use.
        """
        matrix = cost.matrix / (self.matrix * threads)
        return max(cost.bytes / self.bytes, cost.flops / self.flops + matrix)


@final
@dataclass(frozen=True, slots=True)
class LinkRates:
    """The rates of moves from one kind of device to another.

    Attributes:
        seconds: the latency of a move of any size; 0 where devices share memory, as a move then
            costs no more than its send.
        bytes: bytes in a second; 0 where nothing is copied.
    """

    seconds: float = 5e-6
    bytes: float = 0.0

    def of(self, nbytes: int) -> float:
        """Seconds of a move of so many bytes."""
        return self.seconds + (nbytes / self.bytes if self.bytes else 0.0)


@final
@dataclass(frozen=True, slots=True)
class MachineRates:
    """The rates of a machine. Prints as text.

    Attributes:
        kinds: the rates by kind of device; for CPUs those of one core.
        links: the rates of moves by the two kinds, joined as ``"cpu>gpu"``.
        region: seconds to schedule one region.
        send: seconds of the host for a value that one partition sends to another.
        crowded_matrix: factor by which matrix products slow down while all cores work.
        crowded_bytes: the same factor for ops whose operands exceed the caches.
        measured: whether anything was measured; else all rates are those of a usual machine.
    """

    kinds: Mapping[str, Rates] = field(default_factory=dict)
    links: Mapping[str, LinkRates] = field(default_factory=dict)
    region: float = 20e-6
    send: float = 10e-6
    crowded_matrix: float = 1.1
    crowded_bytes: float = 1.5
    measured: bool = False

    def of(self, kind: str) -> Rates:
        """The rates of a kind of device."""
        return self.kinds.get(kind) or _USUAL.get(kind) or Rates()

    def link(self, source: str, target: str) -> LinkRates:
        """The rates of moves between two kinds."""
        shared = source == target == "cpu"
        usual = LinkRates(0.0) if shared else LinkRates(20e-6, 8e9)
        return self.links.get(f"{source}>{target}", usual)

    def __repr__(self) -> str:
        if not self.measured:
            return "not measured: the figures of a usual machine (ef.placement.measure())"
        cells = [["kind", "GB/s", "Gop/s", "Gop/s in products", "a call"]]
        for kind, rates in self.kinds.items():
            fast = [f"{n / 1e9:.3g}" for n in (rates.bytes, rates.flops, rates.matrix)]
            cells.append([kind, *fast, seconds_text(rates.call, precise=True)])
        moves = [["move", "GB/s", "each"]]
        for link, one in self.links.items():
            fast = [f"{one.bytes / 1e9:.3g}" if one.bytes else "shared"]
            moves.append([link.replace(">", " -> "), *fast, seconds_text(one.seconds)])
        return "\n".join([
            *table_lines(cells, left=1), *(table_lines(moves, left=1) if self.links else []),
            f"a value that is sent takes the host {seconds_text(self.send, precise=True)}",
            f"while all cores work, products take {self.crowded_matrix:.3g} times as long, "
            f"and ops on data outside of all caches {self.crowded_bytes:.3g} times",
        ])  # fmt: skip


#: usual rates of kinds that are not like a core
_USUAL: Final[Mapping[str, Rates]] = {
    "gpu": Rates(bytes=8e11, flops=5e12, matrix=2e13, call=1e-5),
    "null": Rates(),
}


# --- on disk ----------------------------------------------------------------------------------


def cache_file() -> Path:
    """The file that keeps the rates of this machine."""
    base = os.environ.get("EAGERFLOW_CACHE")
    if base is None:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        base = os.path.join(home, "eagerflow")
    return Path(base) / f"rates-{_machine()}.json"


def _machine() -> str:
    """A digest that distinguishes this machine from others that share the folder."""
    parts = [platform.node(), platform.machine(), str(os.cpu_count())]
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                parts.append(line)
                break
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


def load(file: Path | None = None) -> MachineRates:
    """The rates on disk; usual ones if there are none, or if the file is damaged."""
    try:
        return _parsed(json.loads((file or cache_file()).read_text()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return MachineRates()


def store(rates: MachineRates, file: Path | None = None) -> None:
    """Keep rates on disk. A folder that cannot be written is no error: they are measured again."""
    path = file or cache_file()
    text = json.dumps({"version": _VERSION, **asdict(rates)}, indent=1)
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replaced("measure", path) as write:
            write(text.encode())


def _parsed(record: Any) -> MachineRates:
    if record["version"] != _VERSION:
        raise ValueError("another version")
    return MachineRates(
        {str(kind): Rates(**_numbers(row, Rates)) for kind, row in record["kinds"].items()},
        {str(link): LinkRates(**_numbers(row, LinkRates)) for link, row in record["links"].items()},
        **_numbers({name: record[name] for name in _NUMBERS}, MachineRates),
        measured=bool(record["measured"]),
    )


def _numbers(row: Mapping[str, Any], of: Any) -> dict[str, float]:
    """The rates of a row; an impossible rate is an error, as the file is damaged."""
    names = {one.name for one in fields(of)}
    numbers = {name: float(number) for name, number in row.items() if name in names}
    for name, number in numbers.items():
        least = 0.0 if of is LinkRates else 1e-12
        if not isfinite(number) or number < least:
            raise ValueError(f"{name} is {number}")
    return numbers
