"""Queues, accumulators and barriers at tasks do what they do in this process, case by case.

These are the tests of the table of `docs/queues.md`, with everything that they make at a task.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import eagerflow as ef
from tests.cluster.remote.waiting import Waiting, watching
from tests.cluster.warm import warm
from tests.resources.queues import (
    modes,
    test_accumulators,
    test_barriers,
    test_bytes,
    test_counts,
    test_elements,
    test_kinds_of_queues,
    test_waiting,
)

MODULES = (
    test_waiting, test_elements, test_kinds_of_queues, test_accumulators, test_barriers,
    test_counts, test_bytes,
)  # fmt: skip
#: tests of what a resource of this process is like: its text with its level, its memory, the
#: attempts in it, other resources, and devices that `ef.device` would lead to a task
OF_THIS_PROCESS = {
    "test_a_failed_run_of_a_graph_gives_up_its_places",
    "test_a_queue_is_shown_and_not_copied",
    "test_an_empty_list_takes_the_dtype",
    "test_another_device",
    "test_components_come_together",
    "test_dropped_values_are_shown",
    "test_elements_that_wait_do_not_change",
    "test_no_capacity_is_room_for_all",
    "test_numbers_and_lists_take_the_dtype",
    "test_one_at_a_time",
    "test_only_elements_that_wait_in_shared_memory_are_copied",
    "test_snapshots",
    "test_take_waits_until_enough_are_ready",
    "test_the_mean",
    "test_timeouts_are_dynamic_numbers",
    "test_too_little_memory_to_keep_elements_is_an_error",
}


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[ef.cluster.Cluster]:
    with ef.cluster.local({"ps": 1}) as made, watching(made):
        warm(made)
        yield made


def cases(test: Any) -> list[dict[str, Any]]:
    """The arguments of each case of a test."""
    made: list[dict[str, Any]] = [{}]
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize":
            names, rows = mark.args
            names = names.replace(" ", "").split(",") if isinstance(names, str) else names
            pairs = [zip(names, row if len(names) > 1 else (row,), strict=True) for row in rows]
            made = [one | dict(more) for more in map(list, pairs) for one in made]
    return made


def programs() -> Iterator[Any]:
    """The tests of queues that take a way to call, or nothing."""
    for module in MODULES:
        for name, test in vars(module).items():
            if not name.startswith("test_") or not callable(test) or name in OF_THIS_PROCESS:
                continue
            wanted = inspect.signature(test).parameters
            for i, values in enumerate(cases(test)):
                if set(wanted) <= {"call", *values}:
                    for mode in ("eager", "traced") if "call" in wanted else ("",):
                        yield pytest.param(module, test, values, mode, id=f"{name}-{i}-{mode}")


@pytest.mark.parametrize(("module", "test", "values", "mode"), list(programs()))
def test_a_task_does_what_this_process_does(
    module: Any, test: Callable[..., None], values: dict[str, Any], mode: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(module, "Waiting", Waiting, raising=False)
    call = {"call": modes.caller(mode, monkeypatch)} if mode else {}
    with ef.device("ps:0"):
        test(**call, **values)
