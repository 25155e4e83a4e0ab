"""`if`, `x if c else y`, `and`, `or`, `not`, comparisons and `assert` in converted code."""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, final

from eagerflow.autograph.conversion.convert import operator
from eagerflow.autograph.conversion.jumps import RESULT
from eagerflow.autograph.conversion.source_code import first_line, line_text
from eagerflow.autograph.failures.handlers import refuse_caught
from eagerflow.autograph.failures.raising import is_users, raise_in_graph
from eagerflow.autograph.flow.carry import until_known
from eagerflow.autograph.flow.identity import is_, is_not
from eagerflow.autograph.tracking.blocks import (
    Again,
    Found,
    TracedBlock,
    UserCode,
    as_test,
    attempt,
    code_of,
    note_read,
    result_or_error,
    tracer_here,
)
from eagerflow.autograph.tracking.unbound import forget_name
from eagerflow.autograph.values.in_place import is_new, is_pinned, is_shared, pin_choice
from eagerflow.autograph.values.lists import NeedsArray
from eagerflow.autograph.values.value_kinds import are_alike, kind_text, zeros_as
from eagerflow.capture.access_paths import GONE, Location
from eagerflow.capture.snapshot import cells_of, handle_location
from eagerflow.control.branches import NO_TEXT, cond
from eagerflow.core import interpreter
from eagerflow.core.tensor import Tensor
from eagerflow.errors import TraceError
from eagerflow.ops.elementwise.logic import logical_not

_SIGNS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": python.eq, "!=": python.ne, "<": python.lt, "<=": python.le, ">": python.gt,
    ">=": python.ge, "is": is_, "is not": is_not,
    "in": lambda a, b: a in b, "not in": lambda a, b: a not in b,
}  # fmt: skip
#: depth of nested branches of one function at which it is taken for an infinite recursion
_DEEP: Final = 32

#: a name, the lines that bind it in the branches (0: none does), whether it is read later
_Name = tuple[str, int, int, bool]


@operator
def if_(
    test: Any, body: Callable[[], Any], orelse: Callable[[], Any], names: Sequence[_Name]
) -> None:
    """``if test: body() else: orelse()``."""
    predicate = as_test(test)
    if predicate is None:
        (body if test else orelse)()
    else:
        Branches(predicate, (body, orelse), names).run()


@operator
def choose(test: Any, body: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """``x if c else y``."""
    predicate = as_test(test)
    if predicate is None:
        return body() if test else orelse()
    return Branches(predicate, (body, orelse), (), said="the result of `x if c else y`").run()


@operator
def and_(first: Any, *rest: Callable[[], Any]) -> Any:
    """``a and b``."""
    return _first("`and`", False, first, rest)


@operator
def or_(first: Any, *rest: Callable[[], Any]) -> Any:
    """``a or b``."""
    return _first("`or`", True, first, rest)


def _first(said: str, wanted: bool, first: Any, rest: Sequence[Callable[[], Any]]) -> Any:
    """The first operand whose truth is ``wanted``, or the last; later ones are not evaluated."""
    if not rest:
        return first

    def others() -> Any:
        return _first(said, wanted, rest[0](), rest[1:])

    predicate = as_test(first)
    if predicate is None:
        return first if bool(first) is wanted else others()
    code = code_of(rest[0])
    functions = [UserCode(code, lambda: first), UserCode(code, others)]
    ordered = functions if wanted else functions[::-1]
    return Branches(predicate, ordered, (), rest, f"the result of {said}").run()


@operator
def not_(x: Any) -> Any:
    """``not x``."""
    predicate = as_test(x)
    return (not x) if predicate is None else logical_not(predicate)


@operator
def compare(signs: Sequence[str], left: Any, second: Any, *rest: Callable[[], Any]) -> Any:
    """``a < b < c``."""
    comparison = _SIGNS[signs[0]](left, second)
    if not rest:
        return comparison
    return and_(comparison, lambda: compare(signs[1:], second, rest[0](), *rest[1:]))


@operator
def flag(x: Any) -> Any:
    """The operand ``x`` in ``x is True``; refused if it is a flag that only the graph knows."""
    if type(x) is Tensor and x.dtype.category == "bool" and x.ndim == 0 and as_test(x) is not None:
        raise TraceError(
            "`is True` and `is False` of a value that is known only when the graph runs",
            given="a bool tensor, which is neither True nor False itself",
            hint="write `if x:` or `if not x:`, or compare by ==",
        )
    return x


@operator
def going(*flags: Any) -> Any:
    """Whether none of the flags is set: no `break`, `continue` or `return` has happened."""
    return not_(or_(flags[0], *[lambda f=f: f for f in flags[1:]]))


@operator
def failed(test: Any, message: Callable[[], Any] | None = None) -> bool:
    """Whether an assertion fails now; an assertion on a tensor becomes a check in the graph."""
    predicate = as_test(test)
    if predicate is None:
        return not test

    def fails() -> None:
        raise AssertionError(*_message(message))

    code = code_of(message or fails)
    body, orelse = UserCode(code, fails), UserCode(code, lambda: None)
    Branches(logical_not(predicate), (body, orelse), (), [message or fails]).run()
    return False


def _message(message: Callable[[], Any] | None) -> tuple[Any, ...]:
    """The arguments of an `AssertionError`."""
    if message is None:
        return ()
    try:
        return (message(),)
    except TraceError as error:  # Python makes it from values that only the graph knows
        return (f"an assertion fails, whose message the graph cannot make: {error.wrong}",)


# --- on tensors ---------------------------------------------------------------------------------


@final
class Raised(BaseException):
    """Signal that a branch raises an exception.

    Args:
        branch: the number of the branch.
        error: the exception.
    """

    def __init__(self, branch: int, error: BaseException) -> None:
        super().__init__()
        self.branch = branch
        self.error = error


def _telling(branch: int, function: Callable[[], Any]) -> Any:
    """The result of the function of a branch.

    Raises:
        Raised: the user's code in it raises an exception.
    """
    result, raised = result_or_error(function, is_users)
    if raised is not None:
        raise Raised(branch, raised) from None
    return result


@final
class Branches:
    """An `if` whose branch only the graph can choose.

    Args:
        test: a bool tensor.
        functions: the branches.
        names: the names that the branches bind.
        roots: the user's code in them, by default the branches.
        said: a description of their result, for messages.
    """

    def __init__(
        self, test: Tensor, functions: Sequence[Callable[[], Any]], names: Sequence[_Name],
        roots: Sequence[Callable[..., Any]] = (), said: str = "the result of an `if`",
    ) -> None:  # fmt: skip
        self.test = test
        self.functions = functions
        self._said = said
        self._roots = roots or functions
        self.names = {name: rest for name, *rest in names}
        self._codes = list(map(code_of, functions))
        self._locations: dict[Any, Location] = {}
        self._refused: dict[Any, TraceError] = {}
        self._like: dict[Any, Any] = {}  # the value of a name in the other branch, to fill it in
        self._raw: list[dict[Any, Any]] = [{}, {}]  # the values of the locations after each branch
        self._added: list[list[Any]] = [[], []]  # the new items of dicts, in their order
        self._made: list[Any] = [None, None]  # the results of the branches
        self._texts: dict[Any, str] = {}  # the names of the locations among the outputs
        cells = cells_of(*self._roots)
        for name, (_, _, live) in self.names.items():
            if live and name in cells:
                location = Location("cell", cells[name], name, name)
                self._locations[location.identity] = location
                note_read(location)

    def run(self) -> Any:
        """Trace both branches, set the locations that they set, and return the chosen result."""
        _enter(self._codes[0])
        try:
            return until_known("an `if` on a tensor", self._roots, self._trace)
        finally:
            _active.pop()

    def _trace(self) -> Any:
        def trace() -> Any:
            with attempt():
                return cond(self.test, self._traced(0), self._traced(1))

        outputs: Any
        outputs, raised = result_or_error(trace, lambda error: isinstance(error, Raised))
        return self._check(raised) if isinstance(raised, Raised) else self._leave(outputs)

    def _traced(self, i: int) -> UserCode:
        dead = [name for name, (_, _, live) in self.names.items() if not live]

        def branch() -> Any:
            block = TracedBlock(self._roots, dead)
            run = partial(block.run, self.functions[i])
            result, self._made[i], changes = _telling(i, run)
            return self._results(i, result, changes)

        return UserCode(self._codes[i], branch, self._said)

    def _check(self, raised: Raised) -> Any:
        """Let the graph raise where one branch raises, and go on with the other branch."""
        refuse_caught(raised.error)
        functions = [UserCode(code, lambda: None) for code in self._codes]
        functions[raised.branch] = self._raising(raised.branch)
        with attempt():
            cond(self.test, *functions)
        return self.functions[1 - raised.branch]()

    def _raising(self, i: int) -> UserCode:
        """A branch that raises, as a function that lets the graph raise."""

        def fails() -> None:
            try:
                _telling(i, self.functions[i])
            except Raised as raised:
                raise_in_graph(raised.error)
                raise

        def branch() -> None:
            with suppress(Raised):
                TracedBlock(self._roots, ()).run(fails)

        return UserCode(self._codes[i], branch)

    def _results(self, i: int, result: Any, changes: Found) -> Any:
        """The outputs of a branch: its result, and the value of each location."""
        new = [key for key in changes if key not in self._locations]  # in their order
        self._locations.update((key, changes[key][0]) for key in new)
        for key in new:
            note_read(changes[key][0])
        self._added[i] = [k for k in changes if k[0] == "item" and changes[k][0].get() is GONE]
        if i == 1:
            self._check_order()
        self._raw[i], self._texts = {}, {}
        outputs: dict[str, Any] = {"": result}
        for key, location in self._locations.items():
            if key in self._refused:
                continue
            before = location.get()
            _, value, self._raw[i][key] = changes.get(key) or (
                location, _updated(before, changes), before
            )  # fmt: skip
            if value is GONE and key in self._like:  # no branch has given a result so far
                value = zeros_as(self._like[key])
            text = location.text.removeprefix("@") or "it"
            self._texts[key] = text = f"{text}#{len(outputs)}" if text in outputs else text
            outputs[text] = value
        if i == 1:
            self._compare()
            if new:
                raise Again
        return outputs

    def _check_order(self) -> None:
        """Refuse branches that put the same keys into a dict in another order."""
        common = set(self._added[0]).intersection(self._added[1])
        for key in common:
            first, second = (
                [k for k in added if k in common and k[1] == key[1]] for added in self._added
            )
            if first != second:
                lines = self._lines(None)
                texts = [
                    ", ".join(self._locations[k].text for k in keys) for keys in (first, second)
                ]
                raise TraceError(
                    "the branches of an `if` on a tensor put keys into a dict in another order",
                    given=f"{texts[0]} from {lines[0]}\n    and {texts[1]} from {lines[1]}",
                    hint="set them in one order in both, or before the `if`",
                )

    def _compare(self) -> None:
        """Refuse locations whose values after the branches cannot become values of the graph."""
        again = False
        for key, b in self._raw[1].items():
            location = self._locations[key]
            a = self._raw[0][key] if key in self._raw[0] else location.get()
            if a is GONE and b is GONE:
                continue
            if a is GONE or b is GONE:
                if location.key == RESULT:
                    if key not in self._like:
                        self._like[key], again = (b if a is GONE else a), True
                    continue
                self._refused[key], again = self._one_sided(location, a is GONE), True
            elif not are_alike(a, b):
                if location.kind == "list":
                    raise NeedsArray(location.owner, location.text, (a or b)[0])
                self._refused[key], again = self._different(location, a, b), True
            if key in self._refused and (location.kind != "cell" or location.key.startswith("@")):
                raise self._refused[key]
        if again:
            raise Again

    def _leave(self, outputs: dict[str, Any]) -> Any:
        self._pin_choices(outputs)
        for key, text in self._texts.items():
            a, b = (raw.get(key, GONE) for raw in self._raw)
            location = self._locations[key]
            value = a if a is b else outputs[text]
            if location.kind == "handle":
                interpreter.current().rebind(location.owner, outputs[text])
            elif location.get() is not value:
                location.set(value)
        for key, error in self._refused.items():
            forget_name(tracer_here(), self._locations[key], error)
        a, b = self._made
        if a is b and type(a) is Tensor and not is_new(a):
            return a
        old = [x for x in (a, b) if type(x) is Tensor and (is_pinned(x) or not is_new(x))]
        if old and type(outputs[""]) is Tensor:
            self._pin(None, old, outputs[""])
        return outputs[""]

    def _pin_choices(self, outputs: dict[str, Any]) -> None:
        """Refuse updates in place of a result that the test may make a shared tensor."""
        for key, text in self._texts.items():
            location, value = self._locations[key], outputs[text]
            pair = [raw.get(key, GONE) for raw in self._raw]
            if type(value) is not Tensor or location.kind == "handle" or pair[0] is pair[1]:
                continue
            box = [location.get()]
            old = [x for x in pair if type(x) is Tensor and not is_new(x)]
            # references of the location, and two for each branch that did not change the location
            uses = 1 + 2 * sum(x is box[0] for x in pair) + sum(x is box[0] for x in old)
            uses += self._updates(box)
            alone = not is_shared(box, uses)
            others = [x for x in old if not (alone and x is box[0])]
            others += [x for x in pair if is_pinned(x)]
            twice = [x for i, x in enumerate(pair) if self._is_twice(i, x)]
            if others or twice:
                self._pin(location, others or twice, value)

    def _updates(self, box: list[Any]) -> int:
        """The number of references to a tensor that exist because a branch updates it in place."""
        key = handle_location(box[0]).identity
        return sum(raw.get(key) is box[0] for raw in self._raw) + (key in self._locations)

    def _is_twice(self, i: int, x: Any) -> bool:
        """Whether a branch leaves a tensor in two locations."""
        raw = self._raw[i].items()
        holders = [key for key, y in raw if y is x and self._locations[key].kind != "handle"]
        return type(x) is Tensor and len(holders) > 1

    def _pin(self, location: Location | None, old: list[Tensor], value: Tensor) -> None:
        lines = self._lines(location.key if location is not None else None)
        pin_choice(location, old, value, "a condition", f"{lines[0]}\n    and {lines[1]}")

    # --- errors ---

    def _lines(self, name: Any) -> list[str]:
        bound = self.names.get(name, (0, 0, False))
        return [line_text(c, bound[i] or first_line(c)) for i, c in enumerate(self._codes)]

    def _one_sided(self, location: Location, second: bool) -> TraceError:
        lines = self._lines(location.key)
        if location.get() is not GONE:  # as before the `if`
            lines.reverse()
            done, hint = "deleted", "set it to a value that marks it as missing"
        else:
            done, hint = "bound", "bind it in both branches, or before the `if`"
        return TraceError(
            f"{location.text} is {done} in only one branch of an `if` on a tensor",
            given=f"{done} at {lines[second]}\n"
            f"    and not in the other branch, {lines[not second]}",
            hint=hint,
        )

    def _different(self, location: Location, a: Any, b: Any) -> TraceError:
        lines = self._lines(location.key)
        if location.key == RESULT:
            what, hint = "the function returns", "return the same structure on every path"
        else:
            what, hint = f"{location.text} is", "give it the same structure in both"
        hint += ": None or an object cannot be chosen by a tensor"
        if a is None or b is None:
            hint += ". For None keep a tensor, such as zeros, and a flag for whether it counts"
        both = isinstance(a, str) and isinstance(b, str)
        return TraceError(
            f"{what} something else in each branch of an `if` on a tensor",
            given=f"{kind_text(a)} from {lines[0]}\n    and {kind_text(b)} from {lines[1]}",
            hint=NO_TEXT if both else hint,
        )


def _updated(x: Any, changes: Found) -> Any:
    """The value of a location that a branch did not set, after updates of its tensor in place."""
    change = changes.get(handle_location(x).identity) if type(x) is Tensor else None
    return x if change is None else change[1]


_active: Final[list[Any]] = []


def _enter(code: Any) -> None:
    """Note that branches of a function are being traced."""
    if sum(c is code for c in _active) >= _DEEP:
        raise TraceError(
            "a function calls itself under a condition on a tensor",
            given=line_text(code, code.co_firstlineno),
            hint="both branches are traced, so there is no end to it: write it as a loop, or let "
            "Python values decide where it ends",
        )
    _active.append(code)
