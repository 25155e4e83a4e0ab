"""The values of names in a source, found by static analysis.

An error ends a program before most of its names exist. For most, the source itself is enough:
`import eagerflow.nn as nn`, `opt = ef.optim.Adam(...)`, `self.fc = nn.Linear(2, 3)`.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
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


@final
@dataclass(frozen=True)
class Instance:
    """An unknown object of a known class."""

    kind: type


def is_ours(value: object) -> bool:
    """Whether a module, a class or a function is eagerflow's.

    Args:
        value: any.

    >>> from eagerflow.hints.names_of_source import is_ours
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

    >>> from eagerflow.hints.names_of_source import hint_of
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

    >>> import ast
    >>> from eagerflow.hints.names_of_source import Names
    >>> tree = ast.parse("import eagerflow as ef; opt = ef.optim.Adam([v]); opt.step")
    >>> Names(tree, {}).value(tree.body[2].value.value).kind.__name__
    'Adam'
    """

    def __init__(self, tree: ast.AST, variables: Mapping[str, Any]) -> None:
        self._variables = variables
        self._imported: dict[str, Any] = {}
        self._classes: dict[str, ast.ClassDef] = {}
        self._assigned: dict[str, ast.expr] = {}  # first assignment to each name and self.name
        self._under_way: set[str] = set()
        #: names of the functions and attributes that the source defines
        self.defined: set[str] = set()
        #: packages that the source imports
        self.packages: set[str] = set()
        for node in ast.walk(tree):
            self._note(node)

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for each in node.names:
                self.packages.add(each.name.partition(".")[0])
                whole = each.name if each.asname else each.name.partition(".")[0]
                self._imported[each.asname or whole] = _module(whole)
        elif isinstance(node, ast.ImportFrom):
            self.packages.add((node.module or "").partition(".")[0])
            for each in node.names:
                owner = _module(node.module or "")
                self._imported[each.asname or each.name] = _member(owner, each.name)
        elif isinstance(node, ast.ClassDef):
            self._classes[node.name] = node
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self.defined.add(node.name)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._assigned.setdefault(ast.unparse(target), node.value)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            self.defined.add(node.attr)

    def value(self, node: ast.expr) -> Any:
        """The module, class or function that is the value of an expression, or an `Instance`.

        `UNKNOWN` if only a run would show it, `ABSENT` if eagerflow lacks the name.

        Args:
            node: the expression.
        """
        match node:
            case ast.Name():
                return self._of_name(node.id)
            case ast.Attribute():
                member = _member(self.value(node.value), node.attr)
                return self._of_assigned(ast.unparse(node)) if member is UNKNOWN else member
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
        if isinstance(call.func, ast.Attribute) and call.func.attr in _FLUENT:
            owner = self.value(call.func.value)
            return owner if isinstance(owner, Instance) else UNKNOWN
        return UNKNOWN

    def _of_name(self, name: str) -> Any:
        if name in self._imported:
            return self._imported[name]
        if name in self.defined:
            return UNKNOWN
        if name in self._variables:
            value = self._variables[name]
            named = isinstance(value, ModuleType) or inspect.isclass(value)
            return value if named or inspect.isfunction(value) else Instance(type(value))
        if name in self._classes:
            bases = [self.value(base) for base in self._classes[name].bases]
            return next((b for b in bases if inspect.isclass(b)), UNKNOWN)
        return self._of_assigned(name)

    def _of_assigned(self, target: str) -> Any:
        if target not in self._assigned or target in self._under_way:
            return UNKNOWN
        self._under_way.add(target)
        try:
            return self.value(self._assigned[target])
        finally:
            self._under_way.discard(target)


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
