"""Sources: instructions in the user's own code.

A source is kept as (code object, instruction offset), never as a frame: a frame would keep every
local variable of the user alive. It costs one walk up the stack, and its file name and line are
computed only when they are read.
"""

from __future__ import annotations

import dis
import linecache
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import Any, Final, final

#: packages that are not the user's code; threads of eagerflow begin in the last one
FRAMEWORK: Final = ("eagerflow", "eagerflow_kernels", "eagerflow_widgets", "threading")
#: modules with public functions
_WITH_FUNCTIONS: Final = ("eagerflow.control.", "eagerflow.ops.", "eagerflow.nn.")
_EXAMPLES: Final = "eagerflow.demo"  # written as users write
_LIBRARY: Final = os.path.dirname(os.__file__) + os.sep  # Python's standard library
_INSTALLED: Final = os.path.join(_LIBRARY, "site-packages")
_OPTIMIZED: Final = 1  # the flag of code whose variables are in slots
_STORES: Final = frozenset({"STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF"})
#: characters of a source line in a message
_WIDTH: Final = 100
_CACHE_LIMIT: Final = 10_000  # every run of a notebook cell has a file name of its own

#: file name of a code object -> whether it belongs to eagerflow; for a module that runs nodes of
#: graphs, the name of the local variable that holds the source of the node
_by_file: dict[str, bool | str] = {}
#: the files of libraries, whose lines are of little use to the user
_libraries: set[str] = set()


@final
@dataclass(frozen=True, slots=True)
class Source:
    """An instruction of the user's code.

    Attributes:
        code: the code object that was running.
        offset: the byte offset of the instruction in ``code``.

    >>> from eagerflow.extending import capture
    >>> source = capture()
    >>> source.line, source.text
    (1, 'source = capture()')
    """

    code: CodeType
    offset: int

    @property
    def file(self) -> str:
        """The file name, or what Python shows in its place (``<stdin>``, a notebook cell)."""
        return self.code.co_filename

    @property
    def line(self) -> int:
        """The line number, counted from 1 (0 if the code object has none)."""
        for start, end, line in self.code.co_lines():
            if start <= self.offset < end:
                return line or 0
        return self.code.co_firstlineno

    @property
    def function(self) -> str:
        """The qualified name of the function that was running."""
        return self.code.co_qualname

    @property
    def text(self) -> str:
        """The source line itself, stripped; empty if the source is not available."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        where = f"{cell_name(self.file)}:{self.line}"
        if self.code.co_name != "<module>":
            where += f" in {self.function}"
        text = self._excerpt()
        return f"{where}: {text}" if text else where

    def _excerpt(self) -> str:
        """The source line, cut around the expression if it is long."""
        line = linecache.getline(self.file, self.line)
        text = line.strip()
        if len(text) <= _WIDTH:
            return text
        *_, start, end = next(islice(self.code.co_positions(), self.offset // 2, None), (None,) * 4)
        if start is None or end is None:
            return f"{text[:_WIDTH]}…"
        raw = line.encode()  # columns count bytes
        first = len(raw[:start].decode(errors="ignore")) - (len(line) - len(line.lstrip()))
        length = len(raw[start:end].decode(errors="ignore"))
        left = max(min(first - max(_WIDTH - length, 0) // 2, len(text) - _WIDTH), 0)
        right = left + _WIDTH
        return f"{'…' * (left > 0)}{text[left:right].strip()}{'…' * (right < len(text))}"


def capture(depth: int = 1) -> Source | None:
    """The innermost instruction of the user, or None if there is none.

    It is not in eagerflow, and in a library that does not use eagerflow only as a last resort.

    Args:
        depth: the number of frames above the caller to start at.

    >>> from eagerflow.extending import capture
    >>> class Setting:
    ...     def __init__(self, value):
    ...         self.value, self.source = value, capture(2)
    >>> setting = Setting(0)
    >>> setting.source.text
    'setting = Setting(0)'
    """
    code, offset = position(depth + 1)
    return None if code is None else Source(code, offset)


def position(depth: int = 1) -> tuple[CodeType | None, int]:
    """As `capture`, but the bare arguments of `Source`: for calls at each op."""
    frame: FrameType | None = sys._getframe(depth)
    known = _by_file
    library: tuple[CodeType | None, int] = None, 0  # the fallback if there is no user's frame
    while frame is not None:
        code = frame.f_code
        internal = known.get(code.co_filename)
        if internal is None:
            internal = _classify(frame)
        if internal is not True:
            if not internal:
                if code.co_filename not in _libraries:
                    return code, frame.f_lasti
                if library[0] is None:
                    library = code, frame.f_lasti
            elif internal in code.co_varnames:  # reading f_locals keeps variables alive
                source = frame.f_locals.get(internal)
                if type(source) is Source:
                    return source.code, source.offset
                if type(source) is tuple and source[0] is not None:
                    return source  # a code object and an offset
        frame = frame.f_back
    return library


def replayed() -> tuple[str, Source | None] | None:
    """The name and the line of the op whose gradient is being computed, None outside of gradients.

    It is read from the frame that applies the rule, so running programs pay nothing for it.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_framework_frame(frame):
        name = frame.f_globals.get("GRADIENT_OF")
        if name is not None and {name, "code", "offset"} <= {*frame.f_code.co_varnames}:
            known = variables_of(frame)
            op, code, offset = known[name], known["code"], known["offset"]
            called = op if type(op) is str else str(op.name)
            return called, None if code is None else Source(code, offset)
        frame = frame.f_back
    return None


def function_called() -> str | None:
    """The public function of eagerflow that the user's line has called; None if there is none.

    It is the outermost one under way, as public functions call others.
    """
    frame: FrameType | None = sys._getframe(1)
    name, called, module = None, "_", ""
    while frame is not None and is_framework_frame(frame):
        called, module = frame.f_code.co_name, str(frame.f_globals.get("__name__"))
        if called in frame.f_globals.get("__all__", ()):
            name = called
        frame = frame.f_back
    if name is None and called[0] not in "_<" and module.startswith(_WITH_FUNCTIONS):
        return called  # of a module whose public names another one lists
    return name


def source_of_thread(ident: int) -> Source | None:
    """The user's instruction that a thread is at, neither in eagerflow nor in Python's library."""
    frame = sys._current_frames().get(ident)
    while frame is not None:
        file = frame.f_code.co_filename
        library = file.startswith(_LIBRARY) and not file.startswith(_INSTALLED)
        if not library and not is_framework_frame(frame):
            return Source(frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return None


def warn(text: str, category: type[Warning], call: CodeType | None = None) -> None:
    """Warn at the user's line: the innermost one that is not of eagerflow.

    Args:
        text: the message.
        category: its class.
        call: code of eagerflow that is reentered through user code; then the line is that of its
            outermost call.

    >>> import warnings
    >>> from eagerflow.extending import warn
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("this was passed over", ef.errors.CheckpointWarning)
    >>> str(caught[0].message)
    'this was passed over'
    """
    frame, level = sys._getframe(), 1
    last = _depth_of(call) if call is not None else 0
    while frame.f_back is not None and (level <= last or is_framework_frame(frame)):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def _depth_of(call: CodeType) -> int:
    """The number of frames from the caller up to the outermost frame of some code."""
    frame: FrameType | None = sys._getframe(1)
    level = depth = 0
    while frame is not None:
        level += 1
        if frame.f_code is call:
            depth = level
        frame = frame.f_back
    return depth


def is_framework_frame(frame: FrameType) -> bool:
    """Whether ``frame`` runs code of eagerflow."""
    known = _by_file.get(frame.f_code.co_filename)
    return bool(_classify(frame) if known is None else known)


def is_library_frame(frame: FrameType) -> bool:
    """Whether ``frame`` runs code of Python's library, or of a package without eagerflow."""
    if frame.f_code.co_filename not in _by_file:
        _classify(frame)
    return frame.f_code.co_filename in _libraries


def is_framework_code(code: CodeType) -> bool:
    """Whether ``code``, of a captured source, is of eagerflow."""
    return bool(_by_file.get(code.co_filename))


def variables_of(frame: FrameType) -> dict[str, Any]:
    """The variables of a frame, read such that the frame does not keep their values alive."""
    known = frame.f_locals
    variables = dict(known)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & _OPTIMIZED:
        known.clear()  # a copy, which lives as long as the frame; from 3.13 on there is none
    return variables


def users_variables() -> Iterator[tuple[FrameType, dict[str, Any]]]:
    """The frames of the user's running functions, the innermost first, with their variables."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_framework_frame(frame):
            yield frame, variables_of(frame)
        frame = frame.f_back


def assignment_of(x: Any) -> tuple[str, Source] | None:
    """The user's name for an object, and the line that assigned it; None if no frame has a name.

    It costs running programs nothing. An argument is looked for in the frame that passed it.
    """
    for frame, variables in users_variables():
        for name in [name for name, value in variables.items() if value is x]:
            offset = _stored(frame.f_code, name, frame.f_lasti)
            if offset is not None:
                return name, Source(frame.f_code, offset)
    return None


def _stored(code: CodeType, name: str, now: int) -> int | None:
    """The offset of the last store of a name before ``now``; in a loop, perhaps behind it."""
    last = None
    for before, after in pairwise(dis.get_instructions(code)):
        if after.opname not in _STORES or after.argval != name or before.argrepr.endswith("="):
            continue  # `+=` and other in-place operators keep the object
        if last is None or after.offset < now:
            last = after.offset
    return last


def _classify(frame: FrameType) -> bool | str:
    if len(_by_file) > _CACHE_LIMIT:
        _by_file.clear()
        _libraries.clear()
    name = frame.f_code.co_filename
    if name.startswith("<doctest"):
        internal: bool | str = False
    else:
        module = str(frame.f_globals.get("__name__", ""))
        internal = module.partition(".")[0] in FRAMEWORK or name.startswith("<frozen ")
        internal = internal and not module.startswith(_EXAMPLES)
        if internal:
            internal = str(frame.f_globals.get("REPLAYS", "")) or True
    if not internal and _is_library(name, frame.f_globals):
        _libraries.add(name)
    if name != "<string>":  # the file name of code of our dataclasses, and of users' `exec`
        _by_file[name] = internal
    return internal


def _is_library(file: str, names: Mapping[str, Any]) -> bool:
    """Whether a file is of Python's library, or of a package that does not use eagerflow."""
    if "site-packages" not in file and "dist-packages" not in file:
        return file.startswith(_LIBRARY)
    modules = [
        value.__name__ if type(value) is ModuleType else getattr(value, "__module__", None)
        for value in list(names.values())
    ]
    return not any(type(m) is str and m.partition(".")[0] in FRAMEWORK[:3] for m in modules)


def cell_name(file: str) -> str:
    """``Cell In[3]`` for a notebook cell whose number IPython knows, else the file name."""
    if "ipykernel_" not in file and not file.startswith("<ipython-input-"):
        return file
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    names = getattr(getattr(shell, "compile", None), "_filename_map", {})
    number = names.get(file)
    return f"Cell In[{number}]" if number is not None else file


def user_line(error: BaseException) -> Source | None:
    """The innermost line of the user's code that an exception has passed.

    As for `capture`, a line of a library without eagerflow is a last resort.
    """
    trace = _users_last(error)
    return None if trace is None else Source(trace.tb_frame.f_code, trace.tb_lasti)


def users_frame(error: BaseException) -> FrameType | None:
    """The innermost frame of the user's that an exception has passed."""
    trace = _users_last(error)
    return None if trace is None else trace.tb_frame


def _users_last(error: BaseException) -> TracebackType | None:
    last = library = None
    for trace in entries_of(error.__traceback__):
        if is_library_frame(trace.tb_frame):
            library = trace
        elif not is_framework_frame(trace.tb_frame):
            last = trace
    return last or library


def entries_of(trace: TracebackType | None) -> Iterator[TracebackType]:
    """The entries of a traceback, from the outermost frame on."""
    while trace is not None:
        yield trace
        trace = trace.tb_next
