"""Stand-ins for Python lists in loops of the graph, and for lists of unknown length."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import signature
from typing import Any, Final, NoReturn, final
from weakref import WeakKeyDictionary, WeakSet

from eagerflow.autograph.conversion.convert import replacements
from eagerflow.autograph.conversion.source_code import line_text
from eagerflow.autograph.tracking.blocks import is_reached, tracer_here
from eagerflow.capture.access_paths import Location
from eagerflow.capture.snapshot import AbstractStandIn, Reachable
from eagerflow.control.tensor_array import TensorArray
from eagerflow.core import tree
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.core.to_tensor import tensor_of
from eagerflow.dims import Dim
from eagerflow.errors import TraceError
from eagerflow.ops.shape.joining import concat, stack
from eagerflow.ops.shape.reshape_and_transpose import moveaxis
from eagerflow.source import users_variables
from eagerflow.tracing.tracer import Tracer
from eagerflow.types import TensorSpec

_ARRAY: Final = "array"
#: by trace, the ids of lists that existed before it: only others get a length of the graph
outside_lists: Final[WeakKeyDictionary[Tracer, frozenset[int]]] = WeakKeyDictionary()
#: the traces in which a list got a length of the graph
grown_in: Final[WeakSet[Tracer]] = WeakSet()


def note_lists(tracer: Tracer, containers: Iterable[Any]) -> None:
    """Note the lists among containers that existed before a trace."""
    ids = {id(x) for x in containers if type(x) is list}
    if ids:
        outside_lists[tracer] = outside_lists.get(tracer, frozenset()) | ids


def is_outside(owner: list[Any]) -> bool:
    """Whether a list existed before the trace under way."""
    return id(owner) in outside_lists.get(tracer_here().root, ())


@final
class NeedsArray(BaseException):
    """Signal that the length of a list may differ in each run of the graph.

    Args:
        owner: the list.
        text: its name.
        like: an element, or its type.
    """

    def __init__(self, owner: list[Any], text: str, like: Any) -> None:
        super().__init__()
        self.owner = owner
        self.text = text
        self.like = like

    def satisfied(
        self, functions: Sequence[Callable[..., Any]]
    ) -> list[tuple[Location, list[Any]]]:
        """Put a `Grown` in place of the list; return the locations that held it, with the list.

        Args:
            functions: the user's code, which can reach the list.

        Raises:
            NeedsArray: a block around reaches the list, and has to replace it.
            TraceError: an element is no tensor or number.
        """
        if is_reached(self.owner):
            raise self
        like = self.like
        if not isinstance(like, TensorSpec):
            for x in (like, *self.owner):
                _check_item(self.text, x)
            like = tensor_of(like).type
        return [(location, self.owner) for location in grow(functions, self.owner, like)]


@final
class Appended(AbstractStandIn, list[Any]):
    """A list to which each iteration of a loop appends the same number of elements.

    Args:
        owner: the list that it stands for.
        text: the name of that list.
    """

    def __init__(self, owner: list[Any], text: str) -> None:
        super().__init__()
        self.owner = owner
        self.held = {}
        self._text = text
        self._tracer = tracer_here()

    def append(self, item: Any) -> None:
        if tracer_here() is not self._tracer:  # under a condition, or in another loop
            raise NeedsArray(self.owner, self._text, item)
        super().append(item)

    def extend(self, items: Iterable[Any]) -> None:
        for item in items:
            self.append(item)

    def taken(self) -> list[Any]:
        """The appended values.

        Raises:
            TraceError: a value is no tensor, so that the graph cannot stack it.
        """
        items = [list.__getitem__(self, i) for i in range(list.__len__(self))]
        for x in tree.flatten(items)[0]:
            if not isinstance(x, AbstractArray):
                raise _no_tensor(self._text, x)
        return items

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TraceError(
            f"{self._text or 'a list'} is read in a loop of the graph that appends to it",
            given="a list of another length in each iteration",
            expected="append() and extend() alone",
            hint="keep values for the next iteration in a variable of their own, or iterate over "
            "range(n) with an int, which unrolls the loop",
        )

    __len__ = __getitem__ = __iter__ = __bool__ = __contains__ = __eq__ = __add__ = _refuse
    __setitem__ = __delitem__ = __reversed__ = __mul__ = __rmul__ = __lt__ = __gt__ = _refuse
    pop = remove = insert = clear = sort = reverse = index = count = copy = _refuse


@final
class Grown(AbstractStandIn, list[Any]):
    """A list whose length only the graph knows.

    Args:
        array: its items.
        rows: its items, stacked, if known already.
    """

    def __init__(self, array: TensorArray, rows: Tensor | None = None) -> None:
        super().__init__()
        self.held = {_ARRAY: array}
        self._rows = (array, rows)

    @property
    def array(self) -> TensorArray:
        """All items, as a `TensorArray`."""
        array: TensorArray = self.held[_ARRAY]
        return array

    @property
    def length(self) -> Any:
        """The number of items: an int that only the graph knows, weak as the result of `len`."""
        array, rows = self._rows
        if rows is not None and array is self.array:
            return rows.shape[0]
        return tracer_here().item(self.array.size())

    @property
    def rows(self) -> Tensor:
        """All items, as the rows of a tensor."""
        array, rows = self._rows
        return rows if rows is not None and array is self.array else self.array.stack()

    def append(self, item: Any) -> None:
        _check_item("", item)
        self.held[_ARRAY] = self.array.write(self.array.size(), item)

    def extend(self, items: Iterable[Any]) -> None:
        for item in items:
            self.append(item)

    def __getitem__(self, i: Any) -> Any:
        return self.rows[i]

    @property
    def items(self) -> list[Any]:
        """The items of a list whose length is known in the call that traces: static from then on.

        Raises:
            TraceError: the length depends on data.
        """
        rows = self.rows
        length: Any = rows.shape[0]
        if type(length) is Dim and not tracer_here().sizes.knows(length):
            self._refuse()
        return [rows[i] for i in range(length)]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __add__(self, other: Any) -> Any:
        return self.items + other

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TraceError(
            "a list whose length only the graph knows is used like a list of Python",
            given=f"{self.rows.type}, if it is stacked",
            expected="ef.stack(xs), xs[i], len(xs), xs.append(x), `for x in xs`, sum(xs), max(xs)",
            hint="continue with x = ef.stack(xs), and x.shape[0] for its length",
        )

    __bool__ = __contains__ = __eq__ = __reversed__ = __mul__ = __rmul__ = __lt__ = __gt__ = _refuse
    __setitem__ = __delitem__ = pop = remove = insert = clear = sort = reverse = index = _refuse
    count = copy = _refuse


def grow(
    functions: Sequence[Callable[..., Any]], owner: list[Any], like: TensorSpec,
    rows: Tensor | None = None,
) -> list[Location]:  # fmt: skip
    """Put a `Grown` in place of a list; return the locations that hold it.

    Args:
        functions: the user's code, which can reach the list.
        owner: the list.
        like: the type of its elements.
        rows: the appended values.

    Raises:
        TraceError: other code holds the list as well.
    """
    line = line_text(functions[0].__code__, functions[0].__code__.co_firstlineno)
    held = list(Reachable(functions).holders(owner))
    text = held[0].text if held else "a list"
    if is_outside(owner):
        raise _from_outside(text, "outside of the traced function", line)
    array = TensorArray(0, like, dynamic=True)
    if rows is not None:
        rows = concat([stack(owner), rows]) if owner else rows
        array = array.unstack(rows)
    else:
        for i, item in enumerate(owner):
            array = array.write(i, item)
    grown = Grown(array, rows)
    grown_in.add(tracer_here().root)
    for location in held:
        location.set(grown)
    try:
        _check_frames(owner, text, line)
    except TraceError:
        for location in held:
            location.set(owner)
        raise
    return held


def _check_frames(owner: list[Any], text: str, line: str) -> None:
    """Refuse a list that a local variable of another running function holds."""
    for frame, known in users_variables():
        if any(x is owner for x in known.values()):
            raise _from_outside(text, f"in {frame.f_code.co_qualname}", line)


def _from_outside(text: str, where: str, line: str) -> TraceError:
    return TraceError(
        f"{text} gets a length that depends on data, and is held elsewhere as well",
        given=f"a list that is made {where}",
        hint="make the list in the traced function, and return the appended items: ef.stack(list); "
        "the other holder of the list can append them after the call",
        source=line,
    )


def as_lists(value: Any, what: str, hint: str, source: Any = None) -> Any:
    """A tree that leaves the trace, with Python's lists in place of lists made by graph loops.

    Args:
        value: the tree.
        what: the message if a list has a length that depends on data.
        hint: the advice in that case.
        source: a line for that error.

    Raises:
        TraceError: a list has such a length.
    """
    if not any(type(x) is Grown for x in tree.leaves(value)):
        return value
    try:
        return tree.map(lambda x: x.items if type(x) is Grown else x, value)
    except TraceError as error:
        raise TraceError(what, given=error.given, hint=hint, source=source) from None


def one_each(values: list[Any], text: str) -> Tensor:
    """The one tensor that each iteration appends to a list of unknown length.

    Raises:
        TraceError: an iteration appends no tensor, or more than one value.
    """
    if len(values) == 1 and isinstance(values[0], AbstractArray):
        return tensor_of(values[0])
    raise TraceError(
        f"{text or 'a list'} is appended to in a loop whose iterations the graph counts",
        given=f"{len(values)} times in an iteration, {', '.join(type(v).__name__ for v in values)}",
        expected="one tensor in each iteration",
        hint="append to several lists, or one tensor that holds all",
    )


def _check_item(text: str, x: Any) -> None:
    if not isinstance(x, (AbstractArray, bool, int, float, complex)):
        raise _no_tensor(text, x)


def _no_tensor(text: str, x: Any) -> TraceError:
    return TraceError(
        f"{text or 'a list'} gets something other than tensors in a loop of the graph",
        given=type(x).__name__,
        hint="iterate over range(n) with an int, which unrolls the loop",
    )


def _stack(arrays: Any, /, *args: Any, **kwargs: Any) -> Tensor:
    """`stack`, also of a list of unknown length."""
    try:
        axis = signature(stack).bind(arrays, *args, **kwargs).arguments.get("axis", 0)
    except TypeError:  # raised again, with the name of the function
        return stack((), *args, **kwargs)
    if type(arrays) is not Grown:
        return stack(arrays, axis)
    return moveaxis(arrays.rows, 0, axis) if axis else arrays.rows


def _len(x: Any, /) -> Any:
    """`len`, also of a list of unknown length; of a tensor the size, as ``x.shape[0]``."""
    if isinstance(x, AbstractArray) and x.shape:
        return x.shape[0]
    return x.length if type(x) is Grown else builtins.len(x)


replacements[stack] = _stack
replacements[builtins.len] = _len
