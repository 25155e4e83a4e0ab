"""Code of the tick between chunks of a region's kernel: it counts work, and polls for an end."""

from __future__ import annotations

from typing import Final

from eagerflow_kernels.native.llvm.emitter import Emitter
from eagerflow_kernels.native.llvm.thread_pool_code import CONTROL

_TICK: Final = """\
define internal i1 @tick(ptr %control, i64 %amount) alwaysinline nounwind {{
entry:
  %done.at = getelementptr i8, ptr %control, i64 {done}
  %next.at = getelementptr i8, ptr %control, i64 {next}
  %before = load i64, ptr %done.at, align 8
  %done = add i64 %before, %amount
  store i64 %done, ptr %done.at, align 8
  %next = load i64, ptr %next.at, align 8
  %due = icmp sge i64 %done, %next
  br i1 %due, label %poll, label %on
poll:
  %poll.at = getelementptr i8, ptr %control, i64 {poll}
  %function = load ptr, ptr %poll.at, align 8
  %answer = call i64 %function(ptr %control, i64 %done)
  %ends = icmp ne i64 %answer, 0
  ret i1 %ends
on:
  ret i1 false
}}
"""


def tick_function() -> str:
    """The text of the function that `tick` calls."""
    return _TICK.format(**CONTROL)


def tick(e: Emitter, elements: str, weight: int) -> None:
    """Count elements, and return from the function if the kernel is to end.

    Args:
        e: the emitter of the function, whose last argument is the control.
        elements: their number, an i64.
        weight: the work of an element; 0 writes nothing.
    """
    if weight:
        amount = e.value(f"mul i64 {elements}, {weight}")
        e.return_if(e.value(f"call i1 @tick(ptr %control, i64 {amount})"))
