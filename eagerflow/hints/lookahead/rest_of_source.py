"""Other lines in the source of an error that are written as in another framework.

In porting a program, a user meets unknown names one by one, a run for each. So the first error
lists them all: it is shown with the other lines in this file, or cell, that would be refused.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from importlib.util import find_spec
from traceback import walk_tb
from types import FrameType, FunctionType, ModuleType
from typing import Any, Final, final

import eagerflow as ef
from eagerflow.extending import hint_about
from eagerflow.hints import MODULE_NAMES, iterated_dicts, uncalled_methods, unpacking
from eagerflow.hints.data import DATASETS
from eagerflow.hints.function_names import FUNCTIONS_OF_MODULES
from eagerflow.hints.lookahead import mutations
from eagerflow.hints.lookahead.names_of_source import (
    ABSENT,
    UNKNOWN,
    Instance,
    Names,
    hint_of,
    is_ours,
)
from eagerflow.hints.lookahead.unknown_objects import (
    ANYWHERE,
    OF_OBJECTS,
    integer_of,
    may_be_ours,
    of_method,
    refusal,
)
from eagerflow.hints.optim import OPTIM, SCHEDULES
from eagerflow.hints.parameter_names import (
    NOT_HERE,
    PAIRS,
    SHAPES,
    SWAPPED,
    not_here,
)
from eagerflow.optim.parameters import NO_GROUPS

__all__ = ["rest_of_source"]

#: names of every module, for those below modules that eagerflow lacks: `optim.lr_scheduler.StepLR`
_BELOW: Final = {
    **{name: text for table in MODULE_NAMES.values() for name, text in table.items()},
    **FUNCTIONS_OF_MODULES,
}
_CUDA: Final = re.compile(r"cuda(:\d+)?$")
_LIMIT: Final = 80  # each row that is cut costs the user a run
_LENGTH: Final = 50
_INSTRUCTION: Final = 2  # bytes of an instruction
_WRITTEN: Final = 3  # expressions that a hint for several lines quotes


def rest_of_source(error: BaseException, frame: FrameType | None) -> str | None:
    """The lines of the same source that would be refused as well, each with its hint.

    Args:
        error: the error, whose own hints are left out.
        frame: of the user, where it was raised.
    """
    if frame is None:
        return None
    text = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    try:
        tree = ast.parse(text)
    except SyntaxError:  # a cell with magic commands
        return None
    told = str(error) + "".join(getattr(error, "__notes__", ()))
    reader = _Reader(tree, Names(tree, frame.f_globals, _local_variables(error, frame)), frame)
    rows = _rows(tree, reader)
    for hint in rows:
        if hint in told:  # elsewhere the same mistake is told
            rows[hint] = [row for row in rows[hint] if row[0] != frame.f_lineno]
    hints = [
        f"    {place}: {'the same' if chr(10) in hint and hint in told else hint}"
        for hint, place in _places(rows)
    ]
    if len(hints) > _LIMIT:
        hints[_LIMIT:] = [f"    and {len(hints) - _LIMIT} more"]
    return "\n".join(["  in the same source:", *hints]) if hints else None


def _local_variables(error: BaseException, frame: FrameType) -> dict[str, Any]:
    """The variables of the functions in the same source that an error has left."""
    variables: dict[str, Any] = {}
    for each, _ in walk_tb(error.__traceback__):
        if each.f_code.co_filename == frame.f_code.co_filename:
            variables |= each.f_locals
    return variables


def _rows(tree: ast.AST, reader: _Reader) -> dict[str, list[tuple[int, str]]]:
    """The hints, each with the lines and the code that it is for; one for each place."""
    rows: dict[str, list[tuple[int, str]]] = {}
    told: set[tuple[int, str]] = set()
    for node in ast.walk(tree):
        hint = reader.hint(node)
        if hint is None:
            continue
        place = getattr(node, "lineno", 0), _short(node)
        if place not in told:
            told.add(place)
            rows.setdefault(hint, []).append(place)
    for hint in [*rows]:  # of hints that begin alike, the shorter one
        shorter = next((h for h in rows if hint.startswith(f"{h}; ")), None)
        if shorter is not None:
            rows[shorter] += rows.pop(hint)
    return rows


def _places(rows: dict[str, list[tuple[int, str]]]) -> list[tuple[str, str]]:
    """The hints, each with its lines and the code in them."""
    places = []
    some = {hint: each for hint, each in rows.items() if each}
    for hint, each in sorted(some.items(), key=lambda item: min(item[1])[0]):
        lines = ", ".join(map(str, sorted({line for line, _ in each})))
        written = [*dict.fromkeys(text for _, text in sorted(each))]
        written[_WRITTEN:] = ["…"] if len(written) > _WRITTEN else []
        places.append((hint, f"line {lines}: {', '.join(written)}"))
    return places


def _short(node: ast.AST) -> str:
    """The code of a node, or its main part; of a long expression only its last name."""
    match node:
        case ast.Call(func=ast.Name("len")):  # which of several objects has no length
            shown: ast.AST = node
        case ast.For(iter=part) | ast.Call(func=part) | ast.FormattedValue(value=part):
            shown = part
        case ast.ListComp(generators=[first, *_]) | ast.GeneratorExp(generators=[first, *_]):
            shown = first.iter
        case _:
            shown = node
    text = ast.unparse(shown).partition("\n")[0].rstrip(":")
    return text if len(text) <= _LENGTH else f"….{text.rpartition('.')[2]}"


@final
class _Reader:
    """Finds the code in a source that eagerflow would refuse."""

    def __init__(self, tree: ast.AST, names: Names, frame: FrameType) -> None:
        self._names = names
        others = {"torch", "tensorflow", "jax"}.intersection(self._names.packages)
        self._anywhere = {} if others else ANYWHERE
        at = _instruction(frame)
        #: what the error itself is about, and owners of names that already have a hint
        self._told = {n for n in ast.walk(tree) if isinstance(n, ast.expr) and _span(n) == at}

    def hint(self, node: ast.AST) -> str | None:
        """The hint for a node, if eagerflow would refuse it."""
        match node:
            case ast.ImportFrom():
                return self._of_import(node)
            case ast.Attribute():
                return self._of_attribute(node)
            case ast.Call():
                return self._of_call(node)
            case ast.FormattedValue():
                return self._of_format(node.value)
            case ast.Constant(value=str(text)) if _CUDA.match(text):
                return "'gpu:0'"
            case ast.Assign(targets=[ast.Tuple(elts=[_, _])], value=ast.Call() as call):
                return self._of_pair(call) or self._of_alone(call)
            case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=0 | 1)):
                return self._of_pair(call) if _axis(call) else None  # of axis 0 it may be meant
            case ast.Subscript(ctx=ast.Store()):
                return mutations.of_subscript(node, self._names) if self._anywhere else None
            case ast.ClassDef():
                return mutations.of_class(node, self._names)
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                return uncalled_methods.of_test(test, self._names)
        return iterated_dicts.of_names(node, self._names) if self._anywhere else None

    def _of_import(self, node: ast.ImportFrom) -> str | None:
        """The hint for the first name of an import that does not exist."""
        owner, *path = (node.module or "").split(".")
        if owner != ef.__name__:
            return None
        names = [each.name for each in node.names]
        module: object = ef
        for name in path:
            hint = hint_of(module, name) if isinstance(module, ModuleType) else None
            if hint is not None:
                hints = dict.fromkeys(_BELOW[name] for name in names if name in _BELOW)
                return "; ".join(hints) or hint
            module = getattr(module, name, None)
        if not isinstance(module, ModuleType):
            return None
        told: dict[str, None] = {}
        for name in names:
            hint = hint_of(module, name)
            if hint is not None and not find_spec(f"{node.module}.{name}"):  # no module
                told[hint] = None
        return "; ".join(told) or None

    def _of_attribute(self, node: ast.Attribute) -> str | None:
        owner = self._names.value(node.value)
        if node in self._told:
            return None
        if isinstance(owner, ModuleType):
            return hint_of(owner, node.attr) if is_ours(owner) else None
        kind = owner.kind if isinstance(owner, Instance) else owner
        if inspect.isclass(kind):
            own = self._names.is_self(node.value) and node.attr in self._names.defined
            return None if own else hint_about(kind, node.attr)
        if owner is ABSENT and self._names.is_lacking(node.value) and node.attr in _BELOW:
            self._told.update(n for n in ast.walk(node.value) if isinstance(n, ast.expr))
            return _BELOW[node.attr]
        unknown = owner is UNKNOWN and self._anywhere and node.attr not in self._names.defined
        if unknown and node.attr in OF_OBJECTS:
            return OF_OBJECTS[node.attr]
        if self._anywhere and node.attr in SCHEDULES and self._is_schedule(node.value):
            return SCHEDULES[node.attr]
        if node.attr in ("values", "indices") and self._anywhere:
            pair = node.value if isinstance(node.value, ast.Call) else None
            return self._of_pair(pair) if pair is not None and _axis(pair) is not None else None
        if node.attr == "dataset" and ast.unparse(node.value).endswith("loader"):
            return DATASETS["dataset"]
        return None

    def _is_schedule(self, node: ast.expr) -> bool:
        """Whether an expression was made by the name of a schedule that eagerflow lacks."""
        made = self._names.assigned(ast.unparse(node))
        calls = [each.func for each in made if isinstance(each, ast.Call)]
        lacking = (c for c in calls if self._names.value(c) is ABSENT)
        names = (ast.unparse(c).rpartition(".")[2] for c in lacking)
        return any(name in OPTIM and name.endswith(("LR", "Scheduler")) for name in names)

    def _of_format(self, node: ast.expr) -> str | None:
        """The hint for the learning rate in an f-string, where a schedule is the rate."""
        match node:
            case ast.Attribute(value=owner, attr="lr"):
                kind = self._names.value(owner)
                if isinstance(kind, Instance) and _is_optimiser(kind.kind):
                    made = self._names.assigned(ast.unparse(owner))
                    if any(map(self._takes_schedule, made)):
                        return SCHEDULES["item"]
        return None

    def _takes_schedule(self, made: ast.expr) -> bool:
        rates = [k.value for k in getattr(made, "keywords", ()) if k.arg == "lr"]
        rates += getattr(made, "args", ())[1:2]
        return any(map(self._is_function, rates))

    def _is_function(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Lambda):
            return True
        value = self._names.value(node)
        if isinstance(value, Instance):
            return issubclass(value.kind, (ef.optim.AbstractSchedule, FunctionType))
        if not isinstance(node, ast.Name):
            return False
        made = self._names.assigned(node.id)
        return node.id in self._names.functions or any(isinstance(x, ast.Lambda) for x in made)

    def _has_groups(self, node: ast.expr) -> bool:
        """Whether an expression is a list of groups of parameters, dicts with ``params``."""
        match node:
            case ast.List(elts=elements):
                keys = [k for each in elements for k in getattr(each, "keys", ())]
                return any(isinstance(k, ast.Constant) and k.value == "params" for k in keys)
            case ast.Name(id=name):
                lists = (each for each in self._names.assigned(name) if isinstance(each, ast.List))
                return any(map(self._has_groups, lists))
        return False

    def _of_call(self, call: ast.Call) -> str | None:
        called = self._names.callee(call)
        if call in self._told:
            return None
        known = (
            uncalled_methods.of_length(call, self._names)
            or self._of_swap(call)
            or mutations.of_save(call, called)
        )
        if known is not None:
            return known
        if isinstance(called, Instance) and issubclass(called.kind, ef.nn.Module):
            return refusal(called.kind.forward, call, called.kind.__name__)
        if not inspect.isfunction(called) and not inspect.isclass(called):
            return self._of_unknown(call)
        if not is_ours(called) or self._names.is_own(call.func):
            return None
        if _is_optimiser(called) and any(map(self._has_groups, call.args[:1])):
            return NO_GROUPS
        if self._names.value(call.func) is ABSENT:  # ``called`` is the suggestion of its hint
            known = _known(called, call)
            return known and f"{known}; {self.hint(call.func)}"
        return (
            self._of_shape(called, call)
            or self._of_order(called, call)
            or refusal(called, call, called.__name__)
        )

    def _of_shape(self, called: Any, call: ast.Call) -> str | None:
        """The hint for sizes that are not one tuple, where dtype comes second: ``zeros(3, 4)``."""
        first = list(inspect.signature(called).parameters)[:2]
        if first != ["shape", "dtype"] or len(call.args) < 2:
            return None
        second = self._names.value(call.args[1])
        return f"{SHAPES}: {called.__name__}(shape, …)" if second == Instance(int) else None

    def _of_order(self, called: Any, call: ast.Call) -> str | None:
        """The hint for the arguments of a draw in another order: ``randint(0, 10, (3,))``."""
        names = _names_behind_shape(called)
        if not names or len(call.args) < 2 or any(isinstance(a, ast.Starred) for a in call.args):
            return None
        first, *rest = call.args
        swapped = self._is_number(first) or isinstance(first, ast.List)
        if swapped or any(isinstance(each, ast.Tuple) for each in rest):
            given = ", ".join(["(2, 3)", *names])
            return f"the shape comes first, as one tuple: {called.__name__}({given})"
        return None

    def _is_number(self, node: ast.expr) -> bool:
        return self._names.value(node) in (Instance(int), Instance(float))

    def _of_unknown(self, call: ast.Call) -> str | None:
        """The hint for a method of an object of unknown class, if PyTorch's tensors have it."""
        if not self._anywhere or call.func in self._told:
            return None
        return of_method(call, self._names)

    def _of_swap(self, call: ast.Call) -> str | None:
        """The hint for ``x.transpose(1, 2)``, which swaps two axes elsewhere."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "transpose":
            return None
        axes = tuple(map(integer_of, call.args))
        # of a matrix, (1, 0) are all axes in reverse order, as here
        if len(axes) != 2 or None in axes or axes == (1, 0) or "transpose" in self._names.defined:
            return None
        ours = bool(self._anywhere) and may_be_ours(self._names.value(call.func.value))
        return SWAPPED.format(axes=axes) if ours else None

    def _of_pair(self, call: ast.Call) -> str | None:
        """The hint for ``values, indices = x.max(1)`` and ``x.max(1)[0]``."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in PAIRS:
            return None
        owner, name = self._names.value(call.func.value), call.func.attr
        if owner is not ef and not (self._anywhere and may_be_ours(owner)):
            return None
        return PAIRS[name]

    def _of_alone(self, call: ast.Call) -> str | None:
        """The hint for ``out, weights = attention(x)``."""
        called = self._names.callee(call)
        if not isinstance(called, Instance) or not is_ours(called.kind):
            return None
        return unpacking.ALONE.get(called.kind.__name__)


def _is_optimiser(kind: object) -> bool:
    return inspect.isclass(kind) and issubclass(kind, ef.optim.AbstractOptimiser)


def _axis(call: ast.Call) -> int | None:
    """The axis of `x.max(1)`, `f.max(x, 1)` or `x.max(axis=1)`, if it is written as a number."""
    named = [k.value for k in call.keywords if k.arg in ("axis", "dim")]
    axes = named or call.args[-1:]
    return integer_of(axes[0]) if axes else None


def _instruction(frame: FrameType) -> tuple[int | None, ...]:
    """The span in the source of the instruction that a frame is at: lines and columns."""
    spans = [*frame.f_code.co_positions()]
    at = frame.f_lasti // _INSTRUCTION
    return spans[at] if 0 <= at < len(spans) else (None,)


def _span(node: ast.expr) -> tuple[int | None, ...]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _names_behind_shape(called: Any) -> list[str]:
    """The parameters of a draw that may follow its shape by position; none of other functions."""
    drawn = called, getattr(called, "__wrapped__", called)  # of a generator's method
    if not any(one is draw for one in drawn for draw in vars(ef.random).values()):
        return []
    parameters = inspect.signature(called).parameters.values()
    names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    return names[1:] if names[:1] == ["shape"] else []


def _known(called: Any, call: ast.Call) -> str | None:
    """The hint for the first keyword that a function does not take, whatever the function."""
    taken = inspect.signature(called).parameters
    names = [k.arg for k in call.keywords if k.arg is not None and k.arg not in taken]
    return next((not_here(name) for name in names if name in NOT_HERE), None)
