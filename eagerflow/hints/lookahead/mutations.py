"""Hints for code that changes what is a value here, and for classes and files made as elsewhere.

Elements of variables that are assigned, classes of datasets, and the arguments of a checkpoint:
code in a source whose error would come only when it runs.
"""

from __future__ import annotations

import ast
from typing import Any, Final

import eagerflow as ef
from eagerflow.hints.attribute_names import ROWS
from eagerflow.hints.data import NO_BASE
from eagerflow.hints.lookahead.names_of_source import ABSENT, Instance, Names

__all__ = ["of_class", "of_save", "of_subscript"]

#: attributes and methods of modules that give their variables
_VARIABLES: Final = ("buffers", "named_buffers", "named_parameters", "parameters", "trainable")
_PATH_FIRST: Final = "the path comes first: ef.checkpoint.save(path, tree)"


def of_subscript(node: ast.Subscript, names: Names) -> str | None:
    """The hint where elements of a variable are assigned: ``net.weight[0] = x``.

    Args:
        node: the target of the assignment.
        names: the names of the source.
    """
    if names.value(node.value) == Instance(ef.Variable):
        return ROWS
    if not isinstance(node.value, ast.Name):
        return None
    sources = names.looped_over(node.value.id)
    return ROWS if sources and all(map(_gives_variables, sources)) else None


def _gives_variables(source: ast.expr) -> bool:
    """Whether an expression gives the variables of a module: ``net.parameters.items()``."""
    attributes = [n.attr for n in ast.walk(source) if isinstance(n, ast.Attribute)]
    return any(attribute in _VARIABLES for attribute in attributes)


def of_class(node: ast.ClassDef, names: Names) -> str | None:
    """The hint for a class whose base is `Dataset`, which has no subclasses.

    Args:
        node: the definition.
        names: the names of the source.
    """
    for base in node.bases:
        value = names.value(base)
        imported = value is ABSENT and "eagerflow" in names.packages
        last = ast.unparse(base).rpartition(".")[2]
        if value is ef.data.Dataset or (
            imported and last in ("Dataset", "IterableDataset") and names.is_imported(base)
        ):
            return NO_BASE.format(node.name)
    return None


def of_save(call: ast.Call, called: Any) -> str | None:
    """The hint for the arguments of `ef.checkpoint.save` in PyTorch's order.

    Args:
        call: the call.
        called: what it calls.
    """
    if called is not ef.checkpoint.save or not call.args:
        return None
    first = call.args[0]
    second = call.args[1] if len(call.args) > 1 else None
    swapped = isinstance(first, ast.Dict) or (
        isinstance(second, ast.JoinedStr)
        or (isinstance(second, ast.Constant) and isinstance(second.value, str))
    )
    return _PATH_FIRST if swapped else None
