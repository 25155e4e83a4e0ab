"""Errors of generated code: those that eager code would raise, with the line of the node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FrameType, TracebackType
from typing import Any

from eagerflow.core.kernel_lookup import explain
from eagerflow.core.op import Op, get_op
from eagerflow.error_messages import iteration_note, note_place
from eagerflow.errors import CancelledError, EagerflowError, relocate, strip
from eagerflow.graph.edit import in_sizes
from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import is_number
from eagerflow.graph.text.printer import node_note
from eagerflow.runtime.generated.instructions import Instruction, Instructions
from eagerflow.runtime.generated.program_code import Code
from eagerflow.runtime.generated.written_before_failure import Written
from eagerflow.source import is_framework_frame
from eagerflow.types import TensorSpec, TensorType

Frames = Sequence[FrameType]


def failure(code: Code, error: Exception) -> Exception:
    """The error to raise in place of an error of a run of ``code``."""
    program = code.program
    traces = _generated(error.__traceback__, code)
    if not traces:
        return error
    trace = traces[-1]
    index = code.lines[trace.tb_lineno]
    line = program.all[index] if index >= 0 else None
    if line is None or line.node is None or line.axis is not None:
        return error
    frames = [t.tb_frame for t in reversed(traces)]
    if isinstance(error, CancelledError):  # stopped after this instruction, which is done
        return _with_notes(error, code, index, frames, done=True)
    by_user = isinstance(error, EagerflowError) and (_from_user(trace.tb_next) or _is_placed(error))
    explained = _explained(program, line, line.node, trace.tb_frame.f_locals, error)
    if explained is not error:
        explained.__context__ = None  # it would keep the values of the step alive
    if not by_user:
        relocate(explained, line.node.source)
    return _with_notes(explained, code, index, frames)


def note_written(code: Code, error: KeyboardInterrupt) -> None:
    """Note in a KeyboardInterrupt what the interrupted run has written, or may have written."""
    traces = _generated(error.__traceback__, code)
    index = code.lines[traces[-1].tb_lineno] if traces else -1
    if index < 0:
        return
    over = {
        loop.index: 0 if looping.attrs.get("reverse") else iteration
        for loop, looping, iteration in code.loops(index, [t.tb_frame for t in reversed(traces)])
    }
    written = Written.before(code.program, index, over)
    node = code.program.all[index].single
    written.may_include(None if node is None else Written.by([node]))
    written.note(error)


def _generated(trace: TracebackType | None, code: Code) -> list[TracebackType]:
    """The frames of generated code in a traceback, the innermost last."""
    traces = []
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == code.file:
            traces.append(trace)
        trace = trace.tb_next
    return traces


def _from_user(trace: TracebackType | None) -> bool:
    """Whether user code called by a node raised: then the error has its line already."""
    while trace is not None:
        if not is_framework_frame(trace.tb_frame):
            return True
        trace = trace.tb_next
    return False


def _is_placed(error: BaseException) -> bool:
    """Whether a graph called by a node has noted already which of its nodes failed."""
    return any(note.startswith("  node: ") for note in getattr(error, "__notes__", ()))


def _explained(
    program: Instructions, line: Instruction, node: Node, values: Mapping[str, Any],
    error: Exception,
) -> Exception:  # fmt: skip
    """The error to raise in place of an error of an instruction.

    Args:
        program: the instructions.
        line: the instruction that failed.
        node: its node.
        values: the local variables of the generated code.
        error: the error that it raised.
    """
    if line.blocks or is_number(node.op):
        return strip(error)
    sizes = {name: values[f"r{r}"] for name, r in line.sizes.items()}
    try:
        attrs = {k: in_sizes(v, sizes) for k, v in node.attrs.items()}
    except (EagerflowError, ZeroDivisionError) as size_error:  # as when user code computes it
        return strip(size_error)
    specs = tuple([_spec_of(program, r, values) for r in line.inputs])
    op = get_op(node.op)
    return _reworded(explain(op, specs, attrs, error), op)


def _spec_of(program: Instructions, register: int, values: Mapping[str, Any]) -> TensorSpec:
    kind, device = program.kinds[register], program.devices[register]
    assert isinstance(kind, TensorType)
    data = program.constants.get(register, values.get(f"r{register}"))
    if data is None:  # in a chain, where shapes are known and variables have other names
        return kind.on(device)
    return kind.like(shape=tuple(data.shape)).on(device)


def _reworded(error: Exception, op: Op) -> Exception:
    """``error`` in the name of the function that users call."""
    if op.errors_as is not None and isinstance(error, EagerflowError):
        begin = f"{op.errors_as}: " if op.errors_as else ""
        error.reword(begin + error.wrong.removeprefix(f"{op.name}: "))
    return error


def _with_notes(
    error: Exception, code: Code, index: int, frames: Frames, *, done: bool = False
) -> Exception:
    node = code.program.all[index].node
    assert node is not None
    note_place(error, node_note(node))
    if not isinstance(error, EagerflowError) and node.source is not None:
        error.add_note(f"  at: {node.source}")
    over: dict[int, int] = {}  # for each loop around it
    for loop, looping, iteration in code.loops(index, frames):
        note_place(error, iteration_note(looping.op, iteration, looping.source))
        over[loop.index] = 0 if looping.attrs.get("reverse") else iteration
    Written.before(code.program, index, over, done=done).note(error)
    return error
