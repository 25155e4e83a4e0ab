"""The shape of the code base, as a table: of this checkout, or of another by the same rules.

Run: ``python -m tests.bench.structure [--tree DIR] [--json FILE] [--verbose] [--timing]``.
The modules in ``tests/bench/measures`` define what each row counts.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.bench.harness import arguments
from tests.bench.measures.arrangement import folders, internals, size, ways
from tests.bench.measures.checkout import Checkout
from tests.bench.measures.frames import frames
from tests.bench.measures.op_tables import op_tables
from tests.bench.measures.wording import wording
from tests.source_tree import ROOT

Row = tuple[str, object, str]

_ROUNDS: Final = 7
#: modules that the smallest run measures
_SMALLEST: Final = ("eagerflow.runtime", "eagerflow.core.op")
_SHOWN: Final = 100  # characters of one line of the details
_TABLES: Final = {
    "ops": "tables of names of ops, outside of `ops/` and kernels",
    "numbers": "tables of arithmetic among Python numbers (`python_…`)",
    "structure": "tables of kinds of nodes that give graphs their structure",
    "inside": "collections of names of ops inside functions",
}


def measured(checkout: Checkout, *, timing: bool) -> dict[str, Any]:
    """All figures, in the form of JSON."""
    figures = {
        "code lines": size(checkout),
        "op tables": op_tables(checkout),
        "ways": ways(checkout),
        "words": wording(checkout),
        "frames": frames(checkout),
        "folders": folders(checkout),
        "internals": internals(checkout),
    }
    return {**figures, "import": import_time(checkout)} if timing else figures


def import_time(checkout: Checkout) -> dict[str, float]:
    """Milliseconds of a fresh process that imports NumPy, and eagerflow above that."""
    programs = ("import numpy", "import eagerflow")
    times: dict[str, list[float]] = {code: [] for code in programs}
    for code in programs:
        checkout.run(f"{code}; print(0)")  # fills the caches of byte code and of the file system
    for _ in range(_ROUNDS):
        for code in programs:
            start = time.perf_counter()
            checkout.run(f"{code}; print(0)")
            times[code].append((time.perf_counter() - start) * 1e3)
    numpy, ours = (statistics.median(times[code]) for code in programs)
    return {"numpy": numpy, "above": ours - numpy}


def rows(figures: dict[str, Any]) -> Iterator[Row]:
    """The rows of the table: what is counted, the number, and a short note."""
    lines = figures["code lines"]
    yield "code lines, without docstrings, comments and blank lines", lines["total"], ""
    for package, count in lines["packages"].items():
        yield f"… `{package}`", count, ""
    yield from _op_rows(figures["op tables"])
    runners = figures["ways"]
    yield "ways to run a graph", len(runners["ways"]), ", ".join(runners["ways"])
    yield "… kinds of objects and functions that do", len(runners["by"]), ""
    yield "… lines that make one of a whole graph", len(runners["made"]), ""
    for name, row in runners["by"].items():
        yield f"… lines that make or call `{name}`", len(row["calls"]), row["way"]
    yield from _word_rows(figures["words"])
    for name, row in figures["frames"].items():
        more = f"{row['functions']} functions, {row['calls']} calls"
        more += f"; loaded on the way: {', '.join(row['loaded'])}" if row["loaded"] else ""
        yield f"files with a frame: {name}", len(row["files"]), more
    arranged = figures["folders"]
    yield "import cycles among modules", len(arranged["cycles"]), ""
    yield "files of `eagerflow/`", arranged["files"], f"in {arranged['folders']} folders"
    crowded = ", ".join(f"`{f}` {n}" for f, n in arranged["crowded"].items())
    yield "most files in one folder", arranged["most"], f"20 or more: {crowded or 'none'}"
    for package, names in figures["internals"].items():
        note = f"of {names['imported']} imported from other packages"
        yield f"names that are not public, imported by `{package}`", len(names["not public"]), note
    if "import" in figures:
        above = f"{figures['import']['above']:.0f} ms"
        yield "`import eagerflow` above `import numpy`", above, f"median of {_ROUNDS}"


def _op_rows(tables: dict[str, Any]) -> Iterator[Row]:
    for kind, text in _TABLES.items():
        files = {t["place"].partition(":")[0] for t in tables[kind]}
        yield text, len(tables[kind]), f"in {len(files)} files"
    unknown = sorted({key for t in tables["ops"] for key in t["unknown"]})
    yield "… keys of these tables that name no op", len(unknown), ", ".join(unknown)
    yield "comparisons of a node's op with one name", len(tables["single"]), "registered ops only"


def _word_rows(words: dict[str, Any]) -> Iterator[Row]:
    yield "terms that the glossary defines twice", len(words["twice"]), ", ".join(words["twice"])
    for name, places in words["counts"].items():
        yield f"… {name}", sum(places.values()), f"in {len(places)} files"
    named = ", ".join(f"`{f}`" for f in words["files"])
    yield "files whose names do not say what is in them", len(words["files"]), named


def details(figures: dict[str, Any]) -> Iterator[str]:
    """The constituents of the numbers, in Markdown."""
    for kind, text in _TABLES.items():
        yield f"\n#### {text}\n"
        for table in figures["op tables"][kind]:
            unknown = f"; no ops: {', '.join(table['unknown'])}" if table["unknown"] else ""
            yield f"- `{table['place']}` `{table['name']}`: {', '.join(table['keys'])}{unknown}"
    yield "\n#### places that make or call what runs a graph\n"
    for name, row in figures["ways"]["by"].items():
        yield f"- `{name}` (`{row['module']}`): {', '.join(row['calls']) or 'none'}"
    yield "\n#### terms defined twice\n"
    for term, places in figures["words"]["twice"].items():
        yield f"- {term}"
        yield from (f"  - {place[:_SHOWN]} …" for place in places)
    yield "\n#### home-made words, by file\n"
    for name, places in figures["words"]["counts"].items():
        yield f"- {name}: {', '.join(f'`{file}` {n}' for file, n in places.items()) or 'none'}"
    for name, row in figures["frames"].items():
        yield f"\n#### files with a frame: {name}\n"
        yield ", ".join(f"`{file}`" for file in row["files"])
    yield "\n#### names that are not public\n"
    for package, names in figures["internals"].items():
        yield f"- `{package}`: {', '.join(names['not public']) or 'none'}"
    for cycle in figures["folders"]["cycles"]:
        yield f"\nimport cycle: {', '.join(cycle)}"


def main() -> None:
    """Measure a checkout and print a table."""
    parser = arguments("Shape of the code base")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout (default: this one)")
    parser.add_argument("--verbose", action="store_true", help="list what is counted, too")
    parser.add_argument("--timing", action="store_true", help="measure the import, too")
    options = parser.parse_args()
    checkout = Checkout(options.tree)
    if options.smallest:
        checkout.modules = {m.name: m for m in checkout.of(*_SMALLEST)}
        checkout.tests = []
    figures = measured(checkout, timing=options.timing)
    print("### Shape of the code base\n\n| what | number | |\n|---|---|---|")
    for what, number, note in rows(figures):
        print(f"| {what} | {number} | {note} |")
    if options.verbose:
        print("\n".join(details(figures)))
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
