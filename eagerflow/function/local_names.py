"""`LocalNames`: the values of a graph by the names of the local variables that hold them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Any, final

from eagerflow.core.tensor import Tensor
from eagerflow.graph.ir import Value
from eagerflow.tracing.arrays import TracedArray
from eagerflow.tracing.numbers import TracedNumber
from eagerflow.tracing.symbols import Symbol
from eagerflow.tracing.tracer import Tracer


@final
class LocalNames:
    """Notes what the local variables of ``function`` hold when it returns, within the block.

    It does nothing while a debugger or a coverage tool has set a trace function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        plain = getattr(function, "__func__", function)
        self._code: CodeType | None = getattr(plain, "__code__", None)
        self._last: dict[str, Any] = {}
        self._installed = False

    def __enter__(self) -> None:
        if self._code is not None and sys.gettrace() is None:
            self._installed = True
            sys.settrace(self._call)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._installed:
            sys.settrace(None)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is not self._code:
            return None
        frame.f_trace_lines = False
        return self._return

    def _return(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "return":
            self._last.update(frame.f_locals)
        return self._return

    def values(self, tracer: Tracer) -> dict[str, Value]:
        """The values of the graph that local variables are bound to; forgets all others."""
        values = {}
        for name, x in self._last.items():
            x = x.tensor if type(x) is TracedArray else x
            if type(x) is Tensor and type(x._data) is Symbol and x._data.tracer is tracer:
                values[name] = x._data.value
            elif type(x) is TracedNumber and x.tracer is tracer:
                values[name] = x.value
        self._last.clear()
        return values
