"""The values of names in a source, found by static analysis.

An error ends a program before most of its names exist. For most, the source itself is enough:
`import eagerflow.nn as nn`, `opt = ef.optim.Adam(...)`, `self.fc = nn.Linear(2, 3)`.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any, Final, final

import eagerflow as ef

__all__ = ["ABSENT", "UNKNOWN", "Instance", "Names", "hint_of", "is_ours"]

#: value of a name that only a run would show
UNKNOWN: Final = object()
#: a name that eagerflow lacks
ABSENT: Final = object()
#: in a hint, the name of a function to call in place of another
_SUGGESTION: Final = re.compile(r"^did you mean '([\w.]+)'\?$|^ef\.([\w.]+)\(")
#: attributes of layers that exist only once these are made
_PARAMETERS: Final = ("weight", "bias")
#: methods that return their module elsewhere
_FLUENT: Final = ("cpu", "cuda", "double", "eval", "float", "half", "requires_grad_", "to", "train")
#: decorators of methods whose first parameter is not the object
_WITHOUT_OBJECT: Final = {"classmethod", "staticmethod"}
#: functions that return an object like their argument
_COPIES: Final = ("copy.copy", "copy.deepcopy", "deepcopy")


@final
@dataclass(frozen=True)
class Instance:
    """An unknown object of a known class."""

    kind: type


def is_ours(value: object) -> bool:
    """Whether a module, a class or a function is eagerflow's.

    Args:
        value: any.

    >>> from eagerflow.hints.lookahead.names_of_source import is_ours
    >>> is_ours(ef.nn), is_ours(ef.exp), is_ours(len)
    (True, True, False)
    """
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    return str(home).partition(".")[0] == "eagerflow"


def hint_of(module: ModuleType, name: str) -> str | None:
    """The hint for a name that a module of eagerflow lacks; None if the module has it.

    Args:
        module: of eagerflow.
        name: the name.

    >>> from eagerflow.hints.lookahead.names_of_source import hint_of
    >>> hint_of(ef, "manual_seed"), hint_of(ef, "exp")
    ('ef.random.seed(number)', None)
    """
    try:
        getattr(module, name)
    except ef.errors.UnknownNameError as error:
        return error.hint
    except AttributeError:
        return None
    return None


@final
class Names:
    """The names of one source.

    Args:
        tree: the source.
        variables: the names that exist where the error ended the program, with their values.
        local: likewise the names in its functions. They may stand for other values elsewhere, so
            only modules, optimisers and the like are taken from there.

    >>> import ast
    >>> from eagerflow.hints.lookahead.names_of_source import Names
    >>> tree = ast.parse("import eagerflow as ef; opt = ef.optim.Adam([v]); opt.step")
    >>> Names(tree, {}).value(tree.body[2].value.value).kind.__name__
    'Adam'
    """

    def __init__(
        self, tree: ast.AST, variables: Mapping[str, Any], local: Mapping[str, Any] | None = None
    ) -> None:
        self._variables = variables
        self._local = local or {}
        self._imported: dict[str, Any] = {}
        self._classes: dict[str, ast.ClassDef] = {}
        self._functions: dict[str, ast.FunctionDef] = {}
        self._assigned: dict[str, list[ast.expr]] = {}  # to each name and self.name
        self._unpacked: dict[str, list[tuple[int, ast.Call]]] = {}
        self._bound: set[str] = set()  # by loops and ``with`` statements
        self._looped: dict[str, list[ast.expr]] = {}  # what loops that bind a name go over
        self._selves: dict[int, ast.ClassDef] = {}  # the class, by the id of a node for its object
        self._lacking: set[str] = set()  # imported from modules that eagerflow lacks
        self._annotated: dict[str, list[ast.expr]] = {}
        self._passed: dict[str, list[ast.expr]] = {}  # to each name that is a parameter
        self._parameters: set[str] = set()  # without annotations
        self._under_way: set[str] = set()
        #: names of the functions that the source defines
        self.functions: set[str] = set()
        #: names of the functions and attributes that the source defines
        self.defined: set[str] = set()
        #: packages that the source imports
        self.packages: set[str] = set()
        for node in ast.walk(tree):
            self._note(node)
            if isinstance(node, ast.arg) and node.annotation is None:
                self._parameters.add(node.arg)
            if isinstance(node, ast.For):
                for part in ast.walk(node.target):
                    if isinstance(part, ast.Name):
                        self._looped.setdefault(part.id, []).append(node.iter)
            bound = node.target if isinstance(node, ast.For) else None
            bound = node.optional_vars if isinstance(node, ast.withitem) else bound
            self._bound.update(() if bound is None else [ast.unparse(bound)])
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                self._note_arguments(node)

    def _note(self, node: ast.AST) -> None:
        match node:
            case ast.Import() | ast.ImportFrom():
                self._note_import(node)
            case ast.ClassDef():
                self._classes[node.name] = node
                self._note_selves(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.defined.add(node.name)
                self.functions.add(node.name)
                if isinstance(node, ast.FunctionDef) and not node.decorator_list:
                    self._functions.setdefault(node.name, node)
            case ast.Assign():
                for target in node.targets:
                    for name, value in _pairs(target, node.value):
                        self._assigned.setdefault(name, []).append(value)
                    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Call):
                        for i, part in enumerate(target.elts):
                            places = self._unpacked.setdefault(ast.unparse(part), [])
                            places.append((i, node.value))
            case ast.Attribute(ctx=ast.Store()):
                self.defined.add(node.attr)
            case ast.arg(annotation=ast.expr() as annotation):
                self._annotated.setdefault(node.arg, []).append(annotation)

    def _note_import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.ImportFrom):
            self.packages.add((node.module or "").partition(".")[0])
            owner = _module(node.module or "")
            for each in node.names:
                self._imported[each.asname or each.name] = _member(owner, each.name)
                if owner is ABSENT and (node.module or "").startswith(f"{ef.__name__}."):
                    self._lacking.add(each.asname or each.name)
            return
        for each in node.names:
            self.packages.add(each.name.partition(".")[0])
            whole = each.name if each.asname else each.name.partition(".")[0]
            self._imported[each.asname or whole] = _module(whole)

    def _note_selves(self, definition: ast.ClassDef) -> None:
        """Note which names in the methods of a class stand for its object."""
        for method in definition.body:
            if not isinstance(method, ast.FunctionDef) or not method.args.args:
                continue
            if _WITHOUT_OBJECT.intersection(map(ast.unparse, method.decorator_list)):
                continue
            first = method.args.args[0].arg
            for node in ast.walk(method):
                if isinstance(node, ast.Name) and node.id == first:
                    self._selves[id(node)] = definition

    def _note_arguments(self, call: ast.Call) -> None:
        """Note what a call of a function of the source passes to its parameters."""
        function = self._functions.get(getattr(call.func, "id", ""))
        if function is None or any(isinstance(a, ast.Starred) for a in call.args):
            return
        names = [p.arg for p in (*function.args.posonlyargs, *function.args.args)]
        passed = [*zip(names, call.args, strict=False)]
        passed += [(k.arg, k.value) for k in call.keywords if k.arg is not None]
        for name, value in passed:
            self._passed.setdefault(name, []).append(value)

    def assigned(self, target: str) -> Sequence[ast.expr]:
        """The expressions that are assigned to a name or an attribute.

        Args:
            target: its text: ``"opt"``, ``"self.opt"``.
        """
        return self._assigned.get(target, ())

    def looped_over(self, name: str) -> Sequence[ast.expr]:
        """The expressions of the loops that bind a name.

        Args:
            name: the name.
        """
        return self._looped.get(name, ())

    def is_self(self, node: ast.expr) -> bool:
        """Whether an expression is the object of a class of the source, in one of its methods.

        Args:
            node: the expression.
        """
        return id(node) in self._selves

    def is_imported(self, node: ast.expr) -> bool:
        """Whether an expression is a name of a module that the package of eagerflow lacks.

        Args:
            node: the expression.
        """
        if isinstance(node, ast.Name):
            return node.id in self._lacking
        return isinstance(node, ast.Attribute) and self.is_lacking(node.value)

    def unpacked(self, target: str) -> Sequence[tuple[int, ast.Call]]:
        """The calls with a part of their results in a name, each with the position of the part.

        Args:
            target: the name.
        """
        return self._unpacked.get(target, ())

    def value(self, node: ast.expr) -> Any:
        """The module, class or function that is the value of an expression, or an `Instance`.

        `UNKNOWN` if only a run would show it, `ABSENT` if eagerflow lacks the name.

        Args:
            node: the expression.
        """
        match node:
            case ast.Name() if id(node) in self._selves:
                base = self._of_name(self._selves[id(node)].name)
                return Instance(base) if inspect.isclass(base) else UNKNOWN
            case ast.Name():
                return self._of_name(node.id)
            case ast.Attribute():
                member = _member(self.value(node.value), node.attr)
                return self._of_target(ast.unparse(node)) if member is UNKNOWN else member
            case ast.Constant():
                return Instance(type(node.value))
            case (
                ast.Subscript(value=ast.Attribute(attr="shape"))
                | ast.Call(func=ast.Attribute(attr="size"), args=[_])
                | ast.Call(func=ast.Name("len"))
            ):
                return Instance(int)
            case ast.Call():
                return self._of_call(node)
        return UNKNOWN

    def is_lacking(self, node: ast.expr) -> bool:
        """Whether an expression is a name that a module of eagerflow lacks.

        Args:
            node: the expression.
        """
        if not isinstance(node, ast.Attribute) or self.value(node) is not ABSENT:
            return False
        owner = self.value(node.value)
        return self.is_lacking(node.value) or (isinstance(owner, ModuleType) and is_ours(owner))

    def is_own(self, node: ast.expr) -> bool:
        """Whether an expression names a class defined in the source, whose bases alone are known.

        Args:
            node: the expression.
        """
        return isinstance(node, ast.Name) and node.id in self._classes

    def callee(self, call: ast.Call) -> Any:
        """The callee of a call; for a name that eagerflow lacks, the function its hint suggests.

        Args:
            call: the call.
        """
        called = self.value(call.func)
        if called is not ABSENT or not isinstance(call.func, ast.Attribute):
            return called
        owner = self.value(call.func.value)
        if not isinstance(owner, ModuleType) or not is_ours(owner):
            return ABSENT
        suggested = _SUGGESTION.search(hint_of(owner, call.func.attr) or "")
        if suggested is None:
            return ABSENT
        relative, absolute = suggested.groups()
        owner = owner if absolute is None else ef
        for name in (relative or absolute).split("."):
            owner = _member(owner, name)
        return owner

    def _of_call(self, call: ast.Call) -> Any:
        called = self.callee(call)
        if inspect.isclass(called):
            return Instance(called)
        if inspect.isfunction(called) and is_ours(called):
            return _result(called)
        if ast.unparse(call.func) in _COPIES and call.args:
            return self.value(call.args[0])
        if isinstance(call.func, ast.Attribute) and call.func.attr in _FLUENT:
            owner = self.value(call.func.value)
            return owner if isinstance(owner, Instance) else UNKNOWN
        if isinstance(call.func, ast.Name) and call.func.id in self._functions:
            results = _returned(self._functions[call.func.id])
            return self._once(call.func.id, lambda: self._only(map(self.value, results)))
        return UNKNOWN

    def _of_name(self, name: str) -> Any:
        if name in self._imported:
            return self._imported[name]
        if name in self.defined:
            return UNKNOWN
        if name in self._variables:
            value = self._variables[name]
            named = isinstance(value, ModuleType) or inspect.isclass(value)
            if named or inspect.isfunction(value):
                return value
            return UNKNOWN if self._is_several(name, value) else Instance(type(value))
        if name in self._classes:
            bases = [self.value(base) for base in self._classes[name].bases]
            return next((b for b in bases if inspect.isclass(b)), UNKNOWN)
        return self._of_target(name)

    def _is_several(self, name: str, value: object) -> bool:
        """Whether a name may stand for objects of other kinds elsewhere."""
        kind = Instance(type(value))
        if not _is_told_apart(kind) or name not in self._assigned:
            return False
        others = self._once(name, lambda: [self.value(node) for node in self._assigned[name]])
        return name in self._bound or (
            others is not UNKNOWN and any(o not in (UNKNOWN, kind) for o in others)
        )

    def _of_target(self, target: str) -> Any:
        """The value of a name or an attribute that is assigned, annotated, passed or at hand."""
        return self._once(target, lambda: self._of_sources(target))

    def _of_sources(self, target: str) -> Any:
        nodes = [n for n in self._assigned.get(target, ()) if ast.unparse(n) != "None"]
        assigned = [self.value(node) for node in nodes]
        if assigned and target in self._bound and any(map(_is_told_apart, assigned)):
            return UNKNOWN
        if assigned and assigned[0] is not UNKNOWN:
            known = {value for value in assigned if value is not UNKNOWN}
            if _is_told_apart(assigned[0]):
                return UNKNOWN if len(known) > 1 else assigned[0]
            return UNKNOWN if target in self._parameters else assigned[0]  # `done` of a batch
        kinds = [self.value(node) for node in self._annotated.get(target, ())]
        values = [Instance(kind) if inspect.isclass(kind) else UNKNOWN for kind in kinds]
        values += [self.value(node) for node in self._passed.get(target, ())]
        if target in self._local:
            values.append(Instance(type(self._local[target])))
        return self._only(v for v in (*assigned, *values) if v is not UNKNOWN)

    def _only(self, values: Iterable[Any]) -> Any:
        """The one value among some, if its class has hints of its own."""
        different = set(values)
        only = different.pop() if len(different) == 1 else UNKNOWN
        return only if _is_told_apart(only) else UNKNOWN

    def _once(self, name: str, find: Callable[[], Any]) -> Any:
        """What ``find`` finds, unless it is what a name is asked for: ``net = net.to(device)``."""
        if name in self._under_way:
            return UNKNOWN
        self._under_way.add(name)
        try:
            return find()
        finally:
            self._under_way.discard(name)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The names that an assignment sets, each with its value: ``net, data = Net(), load()``."""
    if (
        isinstance(target, ast.Tuple | ast.List)
        and isinstance(value, ast.Tuple | ast.List)
        and len(target.elts) == len(value.elts)
    ):
        for each, part in zip(target.elts, value.elts, strict=True):
            yield from _pairs(each, part)
    else:
        yield ast.unparse(target), value


def _returned(function: ast.FunctionDef) -> list[ast.expr]:
    """The expressions that a function returns; a generator's would be those of its end."""
    nodes = [*ast.walk(function)]
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes):
        return []
    return [n.value for n in nodes if isinstance(n, ast.Return) and n.value is not None]


def _result(function: FunctionType) -> Any:
    """The result of a function of eagerflow, if its class has hints of its own."""
    name = function.__annotations__.get("return")
    kind = inspect.unwrap(function).__globals__.get(name) if isinstance(name, str) else name
    result = Instance(kind) if inspect.isclass(kind) else UNKNOWN
    return result if _is_told_apart(result) else UNKNOWN


def _is_told_apart(value: Any) -> bool:
    """Whether a value is an object of eagerflow, and no array: of these all names are told."""
    kinds = value.kind.__mro__ if isinstance(value, Instance) else ()
    arrays = (ef.Tensor, ef.Variable)
    return any(map(is_ours, kinds)) and not any(kind in arrays for kind in kinds)


def _module(path: str) -> Any:
    """A module of eagerflow by its path; other modules are not looked up."""
    first, *rest = path.split(".")
    if first != ef.__name__:
        return ABSENT  # not eagerflow's
    owner: Any = ef
    for name in rest:
        owner = _member(owner, name)
    return owner


def _member(owner: Any, name: str) -> Any:
    if isinstance(owner, ModuleType):
        return getattr(owner, name, ABSENT) if is_ours(owner) else ABSENT
    if isinstance(owner, Instance) and issubclass(owner.kind, ef.nn.Module) and name in _PARAMETERS:
        return Instance(ef.Variable)
    if isinstance(owner, Instance) or inspect.isclass(owner):
        member = inspect.getattr_static(getattr(owner, "kind", owner), name, UNKNOWN)
        return getattr(member, "__func__", member)
    return owner if owner is ABSENT else UNKNOWN
