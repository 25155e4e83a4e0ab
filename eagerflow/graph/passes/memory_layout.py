"""Memory layouts of the results of kernels, inferred without running them.

Passes keep results the same bit for bit, and the order of additions in sums, matrix products and
so on depends on the memory layout. A pass that replaces an array by another one, or writes a result
into the memory of another array, must know that the two have the same layout.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, final

from eagerflow.core.op import find_op
from eagerflow.graph.ir import Node, Value
from eagerflow.graph.passes.rewrite import Form
from eagerflow.hardware import Device
from eagerflow.types import TensorType, same_shape

if TYPE_CHECKING:
    from eagerflow.core.op_records.op_facts import Order


@final
class MemoryLayout(IntEnum):
    """The layout of an array's elements in memory, as far as known."""

    UNKNOWN = 0
    DENSE = 1  # next to each other, in some order of the axes
    ROWS = 2  # next to each other, those along the last axis first


def on_cpu(value: Value) -> bool:
    """Whether ``value`` is a tensor on a CPU of this process, or not placed yet."""
    if not isinstance(value.type, TensorType):
        return False
    device = value.device
    return device is None or (type(device) is Device and device.backend.kind == "cpu")


def has_one_axis(value: Value) -> bool:
    """Whether at most one axis may be longer than 1, so that ``value`` has no order of axes."""
    return sum(d != 1 for d in map(_known, value.type.shape)) <= 1


def is_flat(value: Value) -> bool:
    """Whether ``value`` has at most one element, so that it has one possible layout."""
    return all(_known(d) == 1 for d in value.type.shape)


def _known(size: Any) -> int:
    return size if type(size) is int else -1


def is_fresh(node: Node) -> bool:
    """Whether the kernel always returns a fresh array and keeps none of its inputs."""
    op = find_op(node.op)
    return op is not None and op.storage == "fresh"


@final
class Memory:
    """The layouts of the values of one graph; `see` the nodes in order."""

    def __init__(self) -> None:
        self.layouts: dict[Value, MemoryLayout] = {}
        #: for results of ufuncs: the value whose order of axes they have
        self._kin: dict[Value, Value] = {}
        #: for some values not in rows: for each axis its position in the order of the axes
        self._orders: dict[Value, tuple[int, ...]] = {}
        self._spread: set[Value] = set()  # one element, repeated by strides of zero

    def layout(self, value: Value) -> MemoryLayout:
        """The layout of ``value``."""
        return (
            MemoryLayout.ROWS if is_flat(value) else self.layouts.get(value, MemoryLayout.UNKNOWN)
        )

    def see(self, form: Form, outputs: tuple[Value, ...]) -> None:
        """Note the layout of the output of the next node."""
        if len(outputs) == 1 and on_cpu(outputs[0]):
            layout = self._layout_of(form, outputs[0])
            if layout:
                self.layouts[outputs[0]] = layout

    def _layout_of(self, form: Form, output: Value) -> MemoryLayout:
        if form.op == "constant":
            return _constant_layout(form.attrs.get("value"))
        op = find_op(form.op)
        order: Order = "unknown" if op is None else op.order
        layout = self._ordered(order, form, output)
        return MemoryLayout.ROWS if layout and has_one_axis(output) else layout

    def _ordered(self, order: Order, form: Form, output: Value) -> MemoryLayout:
        """The layout of a result of this order (see `Order`)."""
        inputs, layouts = form.inputs, self.layouts
        rows = order == "rows"
        match order:
            case "elementwise":
                rows = self._all_rows(inputs)
                if not rows:
                    self._note_kin(inputs, output)
                    return MemoryLayout.DENSE
            case "input":
                return layouts.get(inputs[0], MemoryLayout.UNKNOWN)
            case "joined":
                rows = all(layouts.get(v) == MemoryLayout.ROWS for v in inputs)
            case "reduced":
                rows = self._all_rows(inputs)
            case "product":
                rows = len(output.type.shape) <= 2 or self._all_rows(inputs)
            case "permuted":
                return self._permuted(inputs[0], output, form.attrs["axes"])
            case "last input":
                last = inputs[-1]
                return self._permuted(last, output, tuple(range(len(last.type.shape))))
            case "repeated" if is_flat(inputs[0]):
                self._spread.add(output)
            case _:
                pass
        return MemoryLayout.ROWS if rows else MemoryLayout.UNKNOWN

    def _permuted(self, value: Value, output: Value, axes: Any) -> MemoryLayout:
        """The layout of ``output``, which is ``value`` with its axes permuted."""
        layout = self.layouts.get(value, MemoryLayout.UNKNOWN)
        identity = tuple(range(len(value.type.shape)))
        order = identity if layout == MemoryLayout.ROWS else self._orders.get(value)
        if order is not None and type(axes) is tuple:
            order = self._orders[output] = tuple([order[axis] for axis in axes])
            if order == identity:
                return MemoryLayout.ROWS
        return min(layout, MemoryLayout.DENSE)

    def _all_rows(self, values: tuple[Value, ...]) -> bool:
        layouts = self.layouts
        return all(layouts.get(v) == MemoryLayout.ROWS or self._is_neutral(v) for v in values)

    def _is_neutral(self, value: Value) -> bool:
        """Whether ``value`` does not influence the order of axes of a ufunc's result."""
        return value in self._spread or has_one_axis(value)

    def _note_kin(self, inputs: tuple[Value, ...], output: Value) -> None:
        """Note the order of axes that the inputs of a ufunc agree on: its result has it."""
        large = [v for v in inputs if not self._is_neutral(v)]
        kin = {self._kin.get(v, v) for v in large}
        if len(kin) == 1 and all(same_shape(v.type.shape, output.type.shape) for v in large):
            self._kin[output] = kin.pop()

    def lies_like(self, value: Value, others: Iterable[Value]) -> bool:
        """Whether a ufunc of ``value`` and ``others`` gives an array with the layout of ``value``.

        The result must have the shape of ``value``.
        """
        layout = self.layout(value)
        if layout == MemoryLayout.UNKNOWN:
            return False
        rest = [v for v in others if not self._is_neutral(v)]
        if layout == MemoryLayout.ROWS and self._all_rows(tuple(rest)):
            return True
        kin = self._kin.get(value, value)
        return all(
            self._kin.get(v, v) is kin and same_shape(v.type.shape, value.type.shape) for v in rest
        )


def _constant_layout(value: Any) -> MemoryLayout:
    numpy = getattr(value, "numpy", None)  # a number and a reference have none
    if numpy is None or not value.device.holds_data:
        return MemoryLayout.UNKNOWN
    return MemoryLayout.ROWS if numpy().flags.c_contiguous else MemoryLayout.UNKNOWN
