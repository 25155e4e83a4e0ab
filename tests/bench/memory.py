"""Peak memory of contenders, each in a process of its own."""

from __future__ import annotations

from collections.abc import Iterable

from tests.bench.harness import Contender, Contest, answer

_PEAKS = """
import ctypes, gc, json, pathlib, re
def status(name):
    text = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(re.search(name + r":\\s+(\\d+)", text).group(1))
{importing}
begin = status("VmRSS")
namespace = {{}}
exec({setup!r}, namespace)
statement = compile({statement!r}, "statement", "exec")
for _ in range(5):
    exec(statement, namespace)
whole = status("VmHWM") - begin
gc.collect()
ctypes.CDLL(None).malloc_trim(0)  # freed memory that the library keeps would hide that of a call
pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak is that from here on
warm = status("VmRSS")
for _ in range(5):
    exec(statement, namespace)
print(json.dumps([whole, status("VmHWM") - warm]))
"""


def peaks(contender: Contender) -> tuple[int, int]:
    """The peak memory of a process after its imports, and that of a warm call besides the data.

    The first includes data, state, compiled code and the compiler; the second what a call takes
    for its results and in between.
    """
    lines = contender.setup.splitlines()
    importing = [line for line in lines if line.startswith(("import ", "from "))]
    text = _PEAKS.format(
        importing="\n".join(importing), setup=contender.setup, statement=contender.statement
    )
    whole, call = answer(text)
    return whole, call


def report(contests: Iterable[Contest]) -> None:
    """Print a table of the peak memory of each contender."""
    print("\n| work | who | peak of the process | of a call |\n|---|---|---|---|")
    for contest in contests:
        for contender in contest.contenders:
            whole, call = peaks(contender)
            cells = contest.name, contender.name, *(f"{x / 2**20:.1f} MiB" for x in (whole, call))
            print(f"| {' | '.join(cells)} |", flush=True)
