"""Rates of the machine, kept in a file that is read only if it is whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import eagerflow as ef
from eagerflow.core.op_records.cost_formulas import Cost
from eagerflow.placement.automatic import rates as rates_module
from eagerflow.placement.automatic.rates import LinkRates, MachineRates, Rates, load, store

FOUND = MachineRates(
    {"cpu": Rates(1e10, 2e9, 3e10, 1e-6)}, {"cpu>cpu": LinkRates(1e-6)}, 2e-5, 3e-6, measured=True
)


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "rates.json"
    store(FOUND, file)
    assert load(file) == FOUND


@pytest.mark.parametrize(
    "change",
    [
        {"version": 0}, {"kinds": 3}, {"send": "fast"}, {"send": -1.0}, {"region": float("nan")},
        {"kinds": {"cpu": {"bytes": 0.0}}}, {"links": {"cpu>cpu": {"seconds": None}}},
    ],
)  # fmt: skip
def test_a_damaged_file_counts_as_none(tmp_path: Path, change: dict[str, object]) -> None:
    file = tmp_path / "rates.json"
    store(FOUND, file)
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    assert load(file) == MachineRates()
    file.write_text(file.read_text()[:-20])
    assert load(file) == MachineRates()


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store(FOUND, tmp_path / "file" / "rates.json")
    assert load(tmp_path / "file" / "rates.json") == MachineRates()


def test_it_is_where_the_setting_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGERFLOW_CACHE", str(tmp_path))
    assert rates_module.cache_file().parent == tmp_path
    rates = ef.placement.measure(["cpu:0", "async:0"])
    assert load() == rates
    assert rates.measured
    assert {*rates.links} == {"cpu>async", "async>cpu"}
    assert ef.placement.measure(["cpu:0"]).kinds.keys() == {"cpu", "async"}


def test_they_print_as_text() -> None:
    text = str(FOUND)
    assert text.splitlines()[:2] == [
        "kind  GB/s  Gop/s  Gop/s in products  a call",
        "cpu     10      2                 30    1 us",
    ]
    assert "a value that is sent takes the host 3" in text
    assert str(MachineRates()).startswith("not measured")


def test_the_function_is_listed_where_it_is() -> None:
    assert "measure" in dir(ef.placement)


def test_seconds_follow_bytes_or_operations() -> None:
    rates = FOUND.of("cpu")
    assert rates.seconds(Cost(bytes=1e10)) == 1.0
    assert rates.seconds(Cost(flops=2e9, matrix=3e10)) == 2.0
    assert rates.seconds(Cost(matrix=6e10), threads=2) == 1.0
    assert FOUND.link("cpu", "cpu").of(10**9) == 1e-6
    assert FOUND.link("cpu", "gpu").of(8 * 10**9) == pytest.approx(1.0, rel=0.01)
