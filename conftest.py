"""What all tests and doctests share. It must be imported before NumPy is."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any

# one thread of linear algebra for each test process: repeatable sums, and no crowded cores
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import pytest  # noqa: E402 - the environment comes first

import eagerflow as ef  # noqa: E402
from eagerflow.tracing.symbols import living  # noqa: E402
from tests import doctests  # noqa: E402

# the library that computes, "native" where this machine can unless this says "portable"
ef.config(kernels=os.environ.get("EAGERFLOW_TEST_KERNELS", "auto"))

pytest_plugins = ["tests.exploring"]
doctests.install()


@pytest.fixture(autouse=True, scope="session")
def _doctest_names(doctest_namespace: dict[str, object]) -> None:
    """``ef`` is all that an example in a docstring may use without importing it."""
    doctest_namespace["ef"] = ef


def held_of_traces() -> list[Any]:
    """What is held of traces that have ended; it is told once."""
    for generation in (1, 2):  # of what holds only itself, most is young
        if living():
            gc.collect(generation)
    held = living()
    for x in held:
        x.tracer.whole.handed_out.clear()
    return held


@pytest.fixture(autouse=True)
def _no_symbol_is_left() -> Iterator[None]:
    """A test or an example leaves no symbol behind."""
    yield
    assert not held_of_traces(), "tensors or numbers of ended traces are held"


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """What is made of tens of thousands of tests stays: nothing of it is garbage."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def pytest_report_teststatus(report: pytest.TestReport, config: pytest.Config) -> object:
    """With ``-q``, tests that pass print nothing: there are thousands."""
    if report.passed and report.when == "call" and config.option.verbose < 0:
        return "passed", "", ""
    return None
