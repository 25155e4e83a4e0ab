"""Stages that read text files by lines, and record files; and the writer of record files."""

from __future__ import annotations

import glob
import os
from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, Final, TypeAlias, final

import eagerflow as ef
from eagerflow.data.base.stage import AbstractCursor, AbstractStage
from eagerflow.data.base.user_calls import OnError, skips
from eagerflow.errors import RecordError, TensorValueError, relocate
from eagerflow.extending import capture, replaced
from eagerflow_kernels.records import framed, read_record

#: a file, several of them, or a pattern such as ``"train-*.txt"``
Paths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def files(method: str, paths: Paths, suffix: str | None = None) -> list[str]:
    """The files of ``paths``; matches of patterns and folders in the order of names.

    Args:
        method: the caller's name, for messages.
        paths: the files.
        suffix: the end of the names of files in a folder that stands for them; None to refuse
            folders.

    Raises:
        FileNotFoundError: there is no such file.
        TensorValueError: there is no path at all, or a folder.
    """
    names: list[str] = []
    for path in _each(method, paths):
        matches = [path] if os.path.exists(path) else sorted(glob.glob(path))
        if not matches:
            raise FileNotFoundError(f"{method}: there is no file {path!r}")
        for match in matches:
            names += _files_of(method, match, suffix) if os.path.isdir(match) else [match]
    if not names:
        raise TensorValueError(f"{method}: there is no file", given=repr(paths))
    return names


def _each(method: str, paths: Paths) -> list[str]:
    given: Any = [paths] if isinstance(paths, str | os.PathLike) else paths
    several = isinstance(given, Iterable) and not isinstance(given, bytes)
    names = list(given) if several else [given]
    for name in names:
        if not isinstance(name, str | os.PathLike):
            raise TensorValueError(
                f"{method}: the argument is not a path",
                given=f"a {type(name).__name__}: {name!r}",
                expected="a file, several of them, or a pattern",
            )
    return [os.fspath(name) for name in names]


def _files_of(method: str, folder: str, suffix: str | None) -> list[str]:
    if suffix is None:
        raise TensorValueError(
            f"{method}: the path is that of a folder",
            given=repr(folder),
            expected="files",
            hint=f"a pattern names the files in it: {os.path.join(folder, '*')!r}",
        )
    names = sorted(glob.glob(os.path.join(glob.escape(folder), f"*{suffix}")))
    if not names:
        raise FileNotFoundError(f"{method}: there is no file *{suffix} in the folder {folder!r}")
    return names


#: by suffix the first bytes of compressed files, and the module that reads them
_COMPRESSED: Final = {
    ".gz": (b"\x1f\x8b", "gzip"),
    ".bz2": (b"BZh", "bz2"),
    ".xz": (b"\xfd7zXZ\x00", "lzma"),
}


def _check_plain(method: str, paths: list[str]) -> None:
    """Refuse compressed files, in which a position is no byte offset.

    Raises:
        TensorValueError: a file is compressed.
    """
    for path in paths:
        begin, module = _COMPRESSED.get(os.path.splitext(path)[1], (b"", ""))
        if module:
            with open(path, "rb") as file:
                compressed = file.read(len(begin)) == begin
            if compressed:
                lines = f'(line.rstrip("\\n") for line in {module}.open({path!r}, "rt"))'
                raise TensorValueError(
                    f"{method}: this file is compressed",
                    given=repr(path),
                    hint=f"Dataset.from_iterable(lambda: {lines}) reads its lines"
                    if method == "from_lines"
                    else "decompress it first",
                )


class _AbstractFiles(AbstractStage):
    """A stage of files that are read from first to last byte, one after the other."""

    def __init__(self, method: str, paths: Paths, on_error: OnError, as_tensors: bool) -> None:
        self.source = capture()  # the reader may be a thread, without a line of the user
        self._method = method
        self.paths = files(method, paths)
        self._on_error = on_error
        self._tensors = as_tensors
        _check_plain(method, self.paths)

    @property
    def length(self) -> None:
        return None

    def cursor(self, epoch: int) -> AbstractCursor:
        return _FilesCursor(self)

    def __str__(self) -> str:
        more = f", … {len(self.paths)} files" if len(self.paths) > 1 else ""
        return f"{self._method}({os.path.basename(self.paths[0])!r}{more})"

    @abstractmethod
    def read(self, file: IO[bytes], path: str, number: int) -> tuple[Any, int]:
        """The next element of a file, and its number, at least ``number``; EOFError at the end."""


@final
class LineStage(_AbstractFiles):
    """The lines of text files."""

    def __init__(self, paths: Paths, on_error: OnError, as_tensors: bool, encoding: str) -> None:
        super().__init__("from_lines", paths, on_error, as_tensors)
        self._encoding = encoding

    def read(self, file: IO[bytes], path: str, number: int) -> tuple[Any, int]:
        while line := file.readline():
            line = line.rstrip(b"\r\n")
            if self._tensors:
                return ef.tensor(line), number
            try:
                return line.decode(self._encoding), number
            except UnicodeDecodeError as error:
                wrong = self._undecodable(error, f"line {number + 1} of {path}")
                if not skips(self._on_error, wrong, str(self)):
                    raise wrong from error
            number += 1
        raise EOFError

    def _undecodable(self, error: UnicodeDecodeError, which: str) -> RecordError:
        return RecordError(
            f"{which} is not {self._encoding}",
            given=f"{error.object[error.start : error.end]!r} at byte {error.start} of it",
            hint='from_lines(…, encoding=…) reads other encodings, on_error="skip" leaves it out',
        )


@final
class RecordStage(_AbstractFiles):
    """The records of record files."""

    def read(self, file: IO[bytes], path: str, number: int) -> tuple[Any, int]:
        while True:
            data, error = _record(file, f"record {number} of {path}")
            if error is None:
                return ef.tensor(data) if self._tensors else data, number
            try:
                if not skips(self._on_error, relocate(error, self.source), str(self)):
                    raise error
            finally:
                del error  # its traceback leads here
            number += 1


def _record(file: IO[bytes], which: str) -> tuple[bytes, RecordError | None]:
    """The next record, and an error if it is damaged; the record after it can still be read."""
    start = file.tell()
    data, wrong = read_record(file)
    if wrong is None:
        return data, None
    hint = 'from_records(…, on_error="skip") leaves out damaged records'
    return data, RecordError(f"{which} {wrong}", given=f"bytes from {start} on", hint=hint)


@final
class _FilesCursor(AbstractCursor):
    """A cursor whose position is an offset in a file, so that a restore reads nothing."""

    def __init__(self, stage: _AbstractFiles) -> None:
        self._stage = stage
        self._open: IO[bytes] | None = None
        self._file = 0  # index in the list of files
        self._offset = 0
        self._element = 0  # number in the file

    def next(self) -> Any:
        while self._file < len(self._stage.paths):
            path = self._stage.paths[self._file]
            file = self._open or self._opened(path)
            try:
                element, self._element = self._stage.read(file, path, self._element)
                return element
            except RecordError as error:
                relocate(error, self._stage.source)
                raise
            except EOFError:
                file.close()
                self._open = None
                self._file, self._offset, self._element = self._file + 1, 0, -1
            finally:
                self._element += 1
                self._offset = 0 if self._open is None else file.tell()
        raise StopIteration

    def _opened(self, path: str) -> IO[bytes]:
        file = self._open = open(path, "rb")  # noqa: SIM115 - closed at its end, or when forgotten
        file.seek(self._offset)
        return file

    @property
    def state(self) -> dict[str, Any]:
        return {"file": self._file, "offset": self._offset, "element": self._element}

    def restore(self, state: dict[str, Any]) -> None:
        paths = self._stage.paths
        end = state["file"] >= len(paths)
        size = 0 if end else os.path.getsize(paths[state["file"]])
        if state["file"] > len(paths) or state["offset"] > size:
            raise TensorValueError(
                f"this position is behind the end of {self._stage}", given=repr(state)
            )
        self._file, self._offset = state["file"], state["offset"]
        self._element = state["element"]

    def __del__(self) -> None:
        file = getattr(self, "_open", None)
        if file is not None:
            file.close()


def write_records(path: str | os.PathLike[str], records: Iterable[bytes]) -> int:
    """Write a record file in TensorFlow's TFRecord format; returns the number of records.

    The file appears when it is complete: it is written under another name and renamed at the end.

    Args:
        path: of the file; an existing file is replaced.
        records: the records, each ``bytes``.

    Raises:
        TypeError: a record is not bytes.
        TensorValueError: ``path`` is a device, or a pipe.
        FileError: the file cannot be written, as on a full disk. It is an OSError.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "words.records")
    ...     count = ef.data.write_records(path, [b"one", b"two"])
    ...     count, list(ef.data.Dataset.from_records(path))
    (2, [b'one', b'two'])
    """
    target = Path(path)
    if target.exists() and not (target.is_file() or target.is_dir()):
        raise TensorValueError(
            "write_records: the path is not that of a file that can be replaced",
            given=f"{target}, a device or a pipe",
            expected="a name that is free, or that of a file",
        )
    count = 0
    with replaced("write_records", path) as write:
        for record in records:
            if not isinstance(record, bytes | bytearray | memoryview):
                raise TypeError(f"record {count} is a {type(record).__name__}, not bytes")
            before, behind = framed(record)
            write(before)
            write(record)
            write(behind)
            count += 1
    return count
