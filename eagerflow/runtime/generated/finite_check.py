"""Search for the op that first makes a NaN or an infinity, for ``ef.config(check_nan=True)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, final

from eagerflow.core.monitors import (
    all_finite,
    is_finite_number,
    is_looked_at,
    not_finite,
)
from eagerflow.core.op import get_op
from eagerflow.core.op_records.non_finite_remedies import note_gradient
from eagerflow.errors import NonFiniteError
from eagerflow.hardware import Device
from eagerflow.runtime.generated.instructions import Instructions
from eagerflow.types import LIST, TensorType


class _Watched(NamedTuple):
    """The values of an instruction that may be NaN or infinite, by position, with their devices.

    Attributes:
        inputs: of the op.
        outputs: of the op; none if the program itself may ask for such values.
    """

    inputs: Sequence[tuple[int, Device]]
    outputs: Sequence[tuple[int, Device]]


@final
class FiniteCheck:
    """Checks the results of a program's ops.

    Args:
        program: the instructions.
    """

    __slots__ = ("_program", "_watched")

    def __init__(self, program: Instructions) -> None:
        self._program = program
        self._watched: dict[int, _Watched] = {}

    def check(self, index: int, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Raise if an op made values that are not finite from finite operands.

        Args:
            index: of its instruction.
            inputs: its operands.
            outputs: its results.

        Raises:
            NonFiniteError: a result is not finite, and all operands are.
        """
        watched = self._watched.get(index) or self._watch(index)
        for i, device in watched.outputs:
            if not all_finite(outputs[i], device):
                break
        else:
            return
        if all(all_finite(inputs[i], device) for i, device in watched.inputs):
            given = [(inputs[i], device) for i, device in watched.inputs]
            made = [(outputs[i], device) for i, device in watched.outputs]
            raise self._error(index, inputs, given, made)

    def _watch(self, index: int) -> _Watched:
        line = self._program.all[index]
        assert line.node is not None
        asked = not line.inputs or not all(map(is_finite_number, line.node.attrs.values()))
        outputs = [] if asked else self._inexact(line.outputs)
        watched = self._watched[index] = _Watched(self._inexact(line.inputs), outputs)
        return watched

    def _inexact(self, registers: Sequence[int]) -> list[tuple[int, Device]]:
        places = []
        for i, register in enumerate(registers):
            kind, device = self._program.kinds[register], self._program.devices[register]
            if device is None or not is_looked_at(device) or not isinstance(kind, TensorType):
                continue
            if kind.dtype.is_inexact and kind.dtype is not LIST:
                places.append((i, device))
        return places

    def _error(
        self,
        index: int,
        inputs: Sequence[Any],
        given: Sequence[tuple[Any, Device]],
        made: Sequence[tuple[Any, Device]],
    ) -> NonFiniteError:
        line = self._program.all[index]
        node = line.node
        assert node is not None
        specs = []
        for register, x in zip(line.inputs, inputs, strict=True):
            kind = self._program.kinds[register]
            assert isinstance(kind, TensorType)
            specs.append(kind.like(shape=tuple(x.shape)).on(self._program.devices[register]))
        error = not_finite(get_op(node.op), specs, node.attrs, given, made)
        if node.forward is not None:
            note_gradient(error, get_op(node.forward.op), node.forward.source)
        return error
