"""Settings of the process, of a block and of a thread; refused changes change nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_info

import eagerflow as ef
from eagerflow import errors, settings
from eagerflow.settings import Settings, current


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """Restores the settings after a test, as `ef.config` calls are permanent."""
    yield
    ef.config(**{name: getattr(Settings(), name) for name in Settings.__dataclass_fields__})


@pytest.fixture
def changes() -> Iterator[list[tuple[Settings, Settings]]]:
    """The arguments of the hook calls."""
    seen: list[tuple[Settings, Settings]] = []

    def hook(old: Settings, new: Settings) -> None:
        seen.append((old, new))

    settings.on_change(hook)
    yield seen
    settings._hooks.remove(hook)


class Other:
    """Runs functions in another thread, one after the other."""

    def __init__(self) -> None:
        self.result: object = None

    def do(self, function) -> object:
        thread = threading.Thread(target=lambda: setattr(self, "result", function()))
        thread.start()
        thread.join()
        return self.result


def test_a_call_is_for_good_and_for_all_threads() -> None:
    ef.config(cpu_devices=3, check_nan=True)
    assert current().cpu_devices == 3
    assert Other().do(current) == current() == Settings(cpu_devices=3, check_nan=True)


def test_a_block_ends() -> None:
    with ef.config(cpu_devices=3, verify=True) as block:
        assert current() == Settings(cpu_devices=3, verify=True)
        assert repr(block) == "ef.config(cpu_devices=3, verify=True)"
    assert current() == Settings()


def test_a_block_ends_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), ef.config(verify=True, cpu_devices=2):
        raise ZeroDivisionError
    assert current() == Settings()


def test_blocks_nest_and_restore_only_what_they_set() -> None:
    with ef.config(cpu_devices=2, verify=True):
        with ef.config(cpu_devices=4):
            ef.config(threads=2)
            assert current() == Settings(cpu_devices=4, verify=True, threads=2)
        assert current() == Settings(cpu_devices=2, verify=True, threads=2)
    assert current() == Settings(threads=2)


def test_a_call_within_a_block_outlives_it() -> None:
    with ef.config(cpu_devices=2):
        ef.config(cpu_devices=5)
        assert current().cpu_devices == 2
    assert current().cpu_devices == 5


def test_one_block_may_be_entered_again() -> None:
    block = ef.config(cpu_devices=2, verify=True)
    for _ in range(2):
        with block:
            with block:
                assert current().cpu_devices == 2
            assert current().verify
        assert current() == Settings()


def test_flags_of_a_block_are_for_its_thread() -> None:
    with ef.config(check_nan=True, cpu_devices=2):
        assert Other().do(current) == Settings(cpu_devices=2)
    ef.config(check_nan=True)
    with ef.config(check_nan=False):
        assert not current().check_nan
        assert Other().do(current).check_nan
    assert current().check_nan


def test_blocks_of_two_threads_may_end_in_any_order() -> None:
    inside, leave, left = (threading.Event() for _ in range(3))

    def other() -> None:
        with ef.config(cpu_devices=7, verify=True):
            inside.set()
            leave.wait(10)
        left.set()

    thread = threading.Thread(target=other)
    with ef.config(cpu_devices=3):
        thread.start()
        inside.wait(10)
        assert current() == Settings(cpu_devices=7)  # the block that began last wins
    assert current() == Settings(cpu_devices=7)
    leave.set()
    thread.join()
    assert left.is_set()
    assert current() == Settings()


def test_hooks_hear_of_each_change_once(changes) -> None:
    with ef.config(cpu_devices=2, check_nan=True):
        with ef.config(check_nan=False):
            pass
        with ef.config(cpu_devices=2):
            pass
    before, after = Settings(), Settings(cpu_devices=2, check_nan=True)
    assert changes == [(before, after), (after, before)]


def test_a_refused_change_changes_nothing(changes) -> None:
    def refuse(old: Settings, new: Settings) -> None:
        raise errors.DeviceError("no")

    settings.on_change(refuse)
    try:
        with pytest.raises(errors.DeviceError):
            ef.config(cpu_devices=2)
    finally:
        settings._hooks.remove(refuse)
    assert current() == Settings()
    assert changes == [
        (Settings(), Settings(cpu_devices=2)),
        (Settings(cpu_devices=2), Settings()),  # restored
    ]


@pytest.mark.parametrize(
    ("changes_made", "words"),
    [
        ({"cpu_device": 2}, "no setting cpu_device"),
        ({"cpu_devices": 0}, "cpu_devices cannot be 0"),
        ({"cpu_devices": None}, "cpu_devices cannot be None"),
        ({"cpu_devices": True}, "cpu_devices cannot be True"),
        ({"threads": 1.5}, "threads cannot be 1.5"),
        ({"threads": -1}, "int of at least 1 or None"),
        ({"check_nan": 1}, "check_nan cannot be 1"),
        ({"verify": None, "cpu_devices": 2}, "True or False"),
    ],
)
def test_wrong_settings_are_named(changes_made, words) -> None:
    with pytest.raises(errors.SettingError, match=words) as caught:
        ef.config(**changes_made)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, TypeError)
    assert current() == Settings()


@pytest.mark.parametrize("first", [0, 1])
def test_calls_that_become_blocks_in_whatever_order(first: int) -> None:
    """As made by two threads: each block restores its own changes, and leaves the other's."""
    blocks = [ef.config(verify=True, cpu_devices=2), ef.config(verify=True, threads=1)]
    assert current().cpu_devices == 2
    with blocks[first], blocks[1 - first]:
        assert (current().verify, current().cpu_devices, current().threads) == (True, 2, 1)
    assert current() == Settings()


def test_many_threads_change_settings_at_once() -> None:
    def work(i: int) -> None:
        for _ in range(50):
            with ef.config(verify=i % 2 == 0, cpu_devices=i + 1):
                assert current().verify is (i % 2 == 0)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert current() == Settings()


def blas_threads() -> set[int]:
    return {p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"}


def test_threads_of_linear_algebra() -> None:
    before = blas_threads()
    with ef.config(threads=2):
        assert blas_threads() == {2}
        with ef.config(threads=1):
            assert blas_threads() == {1}
        assert blas_threads() == {2}
    assert blas_threads() == before
