"""Readers: their records, waiting, records given back, and damaged files."""

from __future__ import annotations

import gc
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow import errors
from eagerflow.resources.queue_kinds import FifoStore
from eagerflow.resources.queue_state import QueueState
from eagerflow.resources.reader import LineFormat, ReaderState, RecordFormat
from tests.exploring import examples
from tests.messages import says
from tests.ops.io.conftest import MakeFile
from tests.recorded import recorded
from tests.resources.queues.modes import Call, Waiting, until
from tests.resources.queues.test_interrupts import _ctrl_c, interrupted  # noqa: F401 - a fixture


def names(*paths: str, close: bool = True) -> ef.Queue:
    """A queue of the names of files."""
    files = ef.Queue(None, "bytes[]")
    for path in paths:
        files.enqueue(os.fsencode(path))
    if close:
        files.close()
    return files


def values(*tensors: ef.Tensor) -> tuple[Any, ...]:
    return tuple([x.tolist() for x in tensors])


# --- the records ------------------------------------------------------------------------------


def test_lines(call: Call, make_file: MakeFile) -> None:
    first = make_file("a.txt", b"one\ntwo\r\n\n")
    second = make_file("b.txt", b"last, without an end")
    reader = ef.io.TextLineReader(names(first, make_file("none.txt", b""), second))
    assert values(*call(reader.read)) == (f"{first}:1".encode(), b"one")
    keys, lines = call(lambda: reader.read_up_to(10))
    assert keys.tolist() == [f"{first}:2".encode(), f"{first}:3".encode(), f"{second}:1".encode()]
    assert lines.tolist() == [b"two", b"", b"last, without an end"]
    assert reader.count == 4
    assert repr(reader) == "TextLineReader(4 read)"
    for method in (reader.read, lambda: reader.read_up_to(2)):
        with pytest.raises(errors.QueueClosedError, match="all files are read"):
            call(method)


def test_lines_that_are_left_out_count(call: Call, make_file: MakeFile) -> None:
    paths = [make_file("a.csv", b"x,y\n1,2\n"), make_file("b.csv", b"x,y\n3,4\n")]
    reader = ef.io.TextLineReader(names(*paths), skip_lines=1)
    keys, lines = call(lambda: reader.read_up_to(5))
    assert keys.tolist() == [f"{path}:2".encode() for path in paths]
    assert lines.tolist() == [b"1,2", b"3,4"]


def test_records(call: Call, make_records: MakeFile) -> None:
    path = make_records("a.records", b"one", b"", b"t\0o\0")
    reader = ef.io.RecordReader(names(path), name="examples")
    assert values(*call(lambda: reader.read_up_to(3))) == (
        [f"{path}:{i}".encode() for i in range(3)],
        [b"one", b"", b"t\0o\0"],
    )
    assert repr(reader) == "RecordReader('examples', 3 read)"


def test_records_of_one_length(call: Call, make_file: MakeFile) -> None:
    path = make_file("a.bin", b"HEAD" + bytes(range(6)) + b"FOOT")
    reader = ef.io.FixedLengthReader(names(path), 3, header=4, footer=4)
    assert call(lambda: reader.read_up_to(9))[1].tolist() == [bytes([0, 1, 2]), bytes([3, 4, 5])]


def test_whole_files(call: Call, make_file: MakeFile) -> None:
    paths = [make_file("a", b"content\n"), make_file("b", b"")]
    reader = ef.io.WholeFileReader(names(*paths))
    for path, content in zip(paths, (b"content\n", b""), strict=True):
        assert values(*call(reader.read)) == (path.encode(), content)
    with pytest.raises(errors.QueueClosedError):
        call(reader.read)


def test_names_are_those_of_the_file_system(call: Call, tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"\xff\xfe no utf-8")
    with open(path, "wb") as file:
        file.write(b"found")
    reader = ef.io.WholeFileReader(names(os.fsdecode(path)))
    assert values(*call(reader.read)) == (path, b"found")


def test_nothing_is_read_for_nobody(call: Call, make_file: MakeFile) -> None:
    files = names(make_file("a", b"1\n"), close=False)
    reader = ef.io.TextLineReader(files)
    keys, lines = call(lambda: reader.read_up_to(0))
    assert keys.shape == lines.shape == (0,)
    assert lines.dtype == "bytes"
    assert int(files.size()) == 1


def test_reset_goes_on_with_the_next_file(call: Call, make_file: MakeFile) -> None:
    reader = ef.io.TextLineReader(
        names(make_file("a", b"1\n2\n"), make_file("b", b"3\n"))
    )  # fmt: skip
    assert call(reader.read)[1].tolist() == b"1"
    call(reader.reset)
    assert call(reader.read)[1].tolist() == b"3"


def test_settings_are_checked(make_file: MakeFile) -> None:
    files = names()
    for wrong in (
        lambda: ef.io.TextLineReader(files, skip_lines=-1),
        lambda: ef.io.FixedLengthReader(files, 0),
        lambda: ef.io.FixedLengthReader(files, 4, header=-1),
        lambda: ef.io.TextLineReader(files).read_up_to(-1),
        lambda: ef.io.TextLineReader(files).read(timeout=-1),
    ):
        with pytest.raises(errors.TensorValueError):
            wrong()
    for queue in (ef.Queue(3, "f32[]"), ef.Queue(3, "bytes[2]"), ef.Queue(3, ["bytes[]"] * 2)):
        with pytest.raises(errors.DTypeError, match="not one of names of files"):
            ef.io.RecordReader(queue)


# --- waiting ----------------------------------------------------------------------------------


def test_reading_waits_for_a_file(call: Call, make_file: MakeFile) -> None:
    files = names(close=False)
    reader = ef.io.TextLineReader(files)
    waiting = Waiting(lambda: call(reader.read), reader, 0)
    files.enqueue(make_file("empty", b"").encode())
    until(lambda: not int(files.size()))
    assert waiting.waits
    files.enqueue(make_file("a", b"there\n").encode())
    assert waiting.result()[1].tolist() == b"there"


def test_closing_ends_who_waits(call: Call) -> None:
    files = names(close=False)
    reader = ef.io.TextLineReader(files)
    waiting = Waiting(lambda: call(reader.read), reader, 0)
    files.close()
    with pytest.raises(errors.QueueClosedError, match="read: all files are read"):
        waiting.result()


def test_who_does_not_wait_any_more_takes_no_file(call: Call, make_file: MakeFile) -> None:
    files = names(close=False)
    reader, other = ef.io.TextLineReader(files), ef.io.TextLineReader(files)
    with pytest.raises(errors.WaitTimeoutError, match="read: it still waits"):
        call(lambda: reader.read(timeout=0.01))
    assert files.resource.waiting(1) == 0
    files.enqueue(make_file("a", b"1\n").encode())
    assert call(other.read)[1].tolist() == b"1"


def test_what_was_read_by_then_comes_back(call: Call, make_file: MakeFile) -> None:
    files = names(make_file("a", b"1\n2\n3\n"), close=False)
    reader = ef.io.TextLineReader(files)
    with pytest.raises(errors.WaitTimeoutError):
        call(lambda: reader.read_up_to(5, timeout=0.01))
    assert reader.count == 0
    files.close()
    assert [call(reader.read)[1].tolist() for _ in range(2)] == [b"1", b"2"]
    assert call(lambda: reader.read_up_to(5))[1].tolist() == [b"3"]


def test_many_empty_files_take_no_deeper_stack(make_file: MakeFile) -> None:
    files = names(*[make_file("empty", b"")] * 3000, make_file("last", b"1\n"))
    assert ef.io.TextLineReader(files).read()[1].tolist() == b"1"


@pytest.mark.parametrize("traced", [False, True])
def test_each_record_is_given_once(traced: bool, make_records: MakeFile) -> None:
    paths = [make_records(f"{k}", *[b"%d" % (100 * k + i) for i in range(50)]) for k in range(4)]
    files = names(close=False)
    reader = ef.io.RecordReader(files)
    out = ef.Queue(None, "bytes[]")

    def read() -> None:
        out.enqueue(reader.read()[1])

    runners = [ef.spawn(ef.trace(read) if traced else read) for _ in range(3)]
    for path in paths:
        files.enqueue(path.encode())
    files.close()
    for runner in runners:
        runner.join()
    counts = Counter(out.dequeue_many(200).tolist())
    assert counts == Counter(b"%d" % (100 * k + i) for k in range(4) for i in range(50))
    assert reader.count == 200


def test_runners_that_wait_hold_no_thread(make_file: MakeFile) -> None:
    files = names(close=False)
    reader = ef.io.TextLineReader(files)
    out = ef.Queue(None, "bytes[]")

    @ef.trace
    def read() -> None:
        out.enqueue(reader.read()[1])

    runners = [ef.spawn(read) for _ in range(100)]
    until(lambda: reader.resource.waiting(0) == 100)
    assert threading.active_count() < 30
    files.enqueue(make_file("a", b"x\n" * 250).encode())
    files.close()
    for runner in runners:
        runner.join()
    assert int(out.size()) == 250


# --- events -----------------------------------------------------------------------------------


def test_each_record_is_an_event(call: Call, make_file: MakeFile) -> None:
    reader = ef.io.TextLineReader(
        names(make_file("a", b"one\nthree\n"), make_file("b", b"x\n")), name="words"
    )
    call(reader.read)  # without an instrument
    with recorded() as recorder:
        call(lambda: reader.read_up_to(5))
    told = recorder.of("element", "words")
    assert [event.nbytes for event in told] == [5, 1]
    assert {event.device for event in told} == {"cpu:0"}
    assert all(event.seconds > 0 for event in told)
    assert reader.resource._noted == []


def test_what_comes_back_is_told_once(call: Call, make_file: MakeFile) -> None:
    files = names(make_file("a", b"1\n2\n"), close=False)
    reader = ef.io.TextLineReader(files, name="back")
    with recorded() as recorder:
        with pytest.raises(errors.WaitTimeoutError):
            call(lambda: reader.read_up_to(3, timeout=0.01))
        call(lambda: reader.read_up_to(2))
    assert len(recorder.of("element", "back")) == 2


def test_a_record_that_is_left_out_is_an_event(call: Call, make_records: MakeFile) -> None:
    path = Path(make_records("a.records", b"one", b"two"))
    data = bytearray(path.read_bytes())
    data[data.index(b"one")] ^= 1
    path.write_bytes(data)
    reader = ef.io.RecordReader(names(str(path)), skip_damaged=True, name="careless")
    with recorded() as recorder:
        assert call(reader.read)[1].tolist() == b"two"
    (skip,) = recorder.of("skip", "careless")
    assert skip.error.startswith(f"record 0 of {path} is damaged")
    assert [event.nbytes for event in recorder.of("element", "careless")] == [3]


def test_who_hears_of_a_record_may_read(make_file: MakeFile) -> None:
    reader = ef.io.TextLineReader(names(make_file("a", b"1\n2\n3\n")))
    heard: list[bytes] = []

    class Greedy:
        kinds = frozenset({ef.events.ElementEvent})

        def begin(self, event: ef.events.AbstractEvent) -> None:
            raise AssertionError("only the end of a record is told")

        def end(self, event: ef.events.AbstractEvent) -> None:
            ef.events.remove_instrument(self)
            heard.append(reader.read()[1].item())

    ef.events.add_instrument(Greedy())
    assert reader.read()[1].item() == b"1"
    assert heard == [b"2"]


# --- damaged files ----------------------------------------------------------------------------


def test_a_damaged_record_is_named_and_the_next_one_comes(
    call: Call, make_records: MakeFile
) -> None:
    path = Path(make_records("a.records", b"one", b"two", b"three"))
    data = bytearray(path.read_bytes())
    data[data.index(b"two")] ^= 1
    path.write_bytes(data)
    reader = ef.io.RecordReader(names(str(path)))
    with pytest.raises(errors.RecordError, match=rf"record 1 of {path} is damaged") as caught:
        call(lambda: reader.read_up_to(3))
    assert "test_readers.py" in str(caught.value)
    assert call(lambda: reader.read_up_to(3))[1].tolist() == [b"one", b"three"]
    careless = ef.io.RecordReader(names(str(path)), skip_damaged=True)
    assert call(lambda: careless.read_up_to(3))[1].tolist() == [b"one", b"three"]
    assert careless.skipped == 1


def test_a_torn_record(call: Call, make_records: MakeFile) -> None:
    path = Path(make_records("a.records", b"one", b"two"))
    path.write_bytes(path.read_bytes()[:-3])
    reader = ef.io.RecordReader(names(str(path)))
    assert call(reader.read)[1].tolist() == b"one"
    with pytest.raises(errors.RecordError, match=r"record 1 of .* is torn"):
        call(reader.read)
    with pytest.raises(errors.QueueClosedError):
        call(reader.read)


def test_a_last_record_that_is_too_short(call: Call, make_file: MakeFile) -> None:
    path = make_file("a.bin", b"abcde")
    reader = ef.io.FixedLengthReader(names(path), 2)
    with pytest.raises(errors.RecordError, match=r"record 2 of .* has 1 bytes of 2"):
        call(lambda: reader.read_up_to(9))
    assert call(lambda: reader.read_up_to(9))[1].tolist() == [b"ab", b"cd"]


def test_a_file_that_is_not_there(call: Call, make_file: MakeFile) -> None:
    reader = ef.io.TextLineReader(names("/no/such/file", make_file("a", b"1\n")))
    with pytest.raises(OSError, check=says("/no/such/file")) as caught:
        call(reader.read)
    assert isinstance(caught.value, errors.FileError)
    assert call(reader.read)[1].tolist() == b"1"


def test_a_folder_is_no_file(call: Call, tmp_path: Path) -> None:
    with pytest.raises(errors.FileError):
        call(ef.io.WholeFileReader(names(str(tmp_path))).read)


def test_a_reader_that_is_forgotten_closes_its_file(make_file: MakeFile) -> None:
    reader = ef.io.TextLineReader(names(make_file("a", b"1\n2\n")))
    reader.read()
    del reader
    gc.collect()  # warnings are errors, also that of a file that is not closed


# --- any order of reading, giving back and Ctrl-C ---------------------------------------------


@settings(max_examples=examples(60))
@given(
    st.lists(st.lists(st.binary(max_size=3), max_size=4), max_size=4),
    st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=12),
)
def test_nothing_is_lost_or_doubled(
    tmp_path_factory: pytest.TempPathFactory,
    contents: list[list[bytes]],
    plan: list[tuple[int, bool]],
) -> None:
    """Attempts of several sizes, some of them abandoned after they had got a record."""
    folder = tmp_path_factory.mktemp("files")
    files = QueueState(None, FifoStore())
    expected = []
    for i, records in enumerate(contents):
        path = folder / f"{i}"
        ef.data.write_records(path, records)
        files.enqueue((ef.tensor(str(path).encode()).numpy(),)).wait()
        expected += records
    files.close().wait()
    reader = ReaderState(files, RecordFormat())
    records_read: list[bytes] = []
    for count, keep in plan:
        attempt = reader.read(count, partial=True)
        attempt.begin()
        assert attempt.done
        if keep and attempt.failure is None:
            records_read += [record for _, record in attempt.value]
        else:
            attempt.abandon()
    while True:
        attempt = reader.read(1)
        attempt.begin()
        if attempt.failure is not None:
            break
        records_read += [record for _, record in attempt.value]
    assert records_read == expected
    assert reader.count == len(expected)


def test_ctrl_c_between_reading_and_noting(make_file: MakeFile) -> None:
    """The position in the file is unchanged; the line comes again."""

    class Interrupted(LineFormat):
        times = 1

        def read(self, file: Any, offset: int) -> tuple[bytes, str | None]:
            record = super().read(file, offset)
            if self.times:
                self.times -= 1
                raise KeyboardInterrupt
            return record

    files = names(make_file("a", b"1\n2\n"))
    reader = ReaderState(files.resource, Interrupted(0))
    with pytest.raises(KeyboardInterrupt):
        reader.read().wait()
    assert [reader.read().wait()[0][1] for _ in range(2)] == [b"1", b"2"]


@pytest.fixture(params=[False, True], ids=["unheard", "heard"])
def _heard(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs a test with and without an instrument that hears of events."""
    with recorded() if request.param else nullcontext():
        yield


# between opening a file and noting it: the file is closed by garbage collection
_FORGOTTEN = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@_FORGOTTEN
@pytest.mark.usefixtures("_ctrl_c", "_heard")
def test_ctrl_c_anywhere_loses_nothing(make_file: MakeFile) -> None:
    """Lines and names of files are still in their places, or were given to a reader."""
    paths = [make_file("a", b"1\n2\n"), make_file("none", b""), make_file("b", b"3\n4\n5\n")]
    ended = 0
    for after in range(1, 1000):
        files = names(*paths, close=False)
        reader = ef.io.TextLineReader(files)
        attempt = reader.resource.read(3)
        taken: list[bytes] = []
        try:
            taken += [line for _, line in interrupted(attempt.wait, after)]
            ended += 1
        except KeyboardInterrupt:
            pass
        files.close()
        while len(taken) < 5:
            taken.append(reader.read(timeout=10)[1].item())
        assert sorted(taken) == [b"1", b"2", b"3", b"4", b"5"], after
        if ended > 3:
            return
    pytest.fail("it never came to the end")


@_FORGOTTEN
@pytest.mark.usefixtures("_ctrl_c", "_heard")
def test_ctrl_c_anywhere_of_a_producer_of_names(make_file: MakeFile) -> None:
    """A producer that puts a name in reads on behalf of the waiting reader."""
    path = make_file("a", b"1\n2\n").encode()
    ended = 0
    for after in range(1, 1000):
        files = ef.Queue(4, "bytes[]")
        reader = ef.io.TextLineReader(files)
        waiting = Waiting(lambda r=reader: r.read_up_to(2), reader, 0)
        until(lambda f=files: f.resource.waiting(1) == 1)
        try:
            interrupted(lambda f=files: f.enqueue(path), after)
            ended += 1
        except KeyboardInterrupt:
            files.enqueue(path)
        assert waiting.result()[1].tolist() == [b"1", b"2"], after
        if ended > 3:
            return
    pytest.fail("it never came to the end")
