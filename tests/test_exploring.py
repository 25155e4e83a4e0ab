"""Property tests: which examples they run, and how failing calls of a slow run are kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from tests.exploring import decorator, with_example

ROOT = Path(__file__).parents[1]

FOUND = """
import pytest
from hypothesis import given, strategies as st


@pytest.mark.parametrize("limit", [7000])
@given(st.integers(0, 10**9), st.lists(st.just("a")))
def test_small(limit: int, x: int, letters: list[str]) -> None:
    assert x < limit


@given(st.data())
def test_drawn(data) -> None:
    assert data.draw(st.integers()) < 100
"""


def test_a_run_repeats_itself() -> None:
    assert settings.get_profile("default").derandomize
    slow = settings.get_profile("slow")
    assert not slow.derandomize
    assert slow.max_examples > settings.get_profile("default").max_examples


def test_what_a_slow_run_finds_is_an_explicit_example_of_every_later_run(tmp_path) -> None:
    file = tmp_path / "test_found.py"
    file.write_text(FOUND)

    def run(profile: str, *options: str) -> str:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:nbval", "-p", "tests.exploring"]
        environment = {**os.environ, "HYPOTHESIS_PROFILE": profile, "PYTHONPATH": str(ROOT)}
        process = subprocess.run(
            [*command, *options, "-p", "no:cacheprovider", file], cwd=tmp_path, env=environment,
            text=True, capture_output=True, check=False,
        )  # fmt: skip
        assert process.returncode == 1, process.stdout + process.stderr
        return process.stdout

    output = run("slow", "-n", "1")
    assert f"kept as an explicit example of test_small in {file}" in output
    assert "keep this as a test, by hand" in output
    kept = file.read_text()
    assert "from hypothesis import example, given, strategies as st\n" in kept
    assert "@example(x=7000, letters=[])\ndef test_small(limit: int," in kept
    assert kept.count("@example") == 1
    assert "Failing explicit" in run("default", "-k", "small")


NAMES = {"np": np, "array": np.array}


@pytest.mark.parametrize(
    ("call", "given", "line"),
    [
        ("test(x=1, y='a')", ["x", "y"], "@example(x=1, y='a')"),
        (
            "test(\n    name='of a fixture',\n    x=[(1, True)],\n)",
            ["x"],
            "@example(x=[(1, True)])",
        ),
        ("test(x=[nan, -inf])", ["x"], "@example(x=[float('nan'), -float('inf')])"),
        ("test(x=array([1, 2]))", ["x"], "@example(x=array([1, 2]))"),
        ("test(x=<object at 0x7f>)", ["x"], None),
        ("test(x=unknown(1))", ["x"], None),
        ("test(data=data(...))", ["data"], None),
        ("state = Machine()\nstate.rule(1)", ["x"], None),
    ],
)
def test_the_decorator_of_a_failing_call(call, given, line) -> None:
    assert decorator(call, given, NAMES) == line


def test_where_the_example_goes() -> None:
    source = "from hypothesis import Phase, given\n\nclass A:\n  @given(B)\n  def f(x): 1\n"
    kept = with_example(source, "f", "@example(x=1)")
    assert kept == (
        "from hypothesis import Phase, example, given\n\n"
        "class A:\n  @given(B)\n  @example(x=1)\n  def f(x): 1\n"
    )
    assert with_example(kept, "f", "@example(x=1)") == kept
    assert with_example(source, "g", "@example(x=1)") is None
