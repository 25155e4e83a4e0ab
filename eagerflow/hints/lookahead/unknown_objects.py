"""Hints for methods of objects whose class a source does not tell.

Names and arguments that PyTorch's objects alone have show what an object is.
"""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any, Final

import eagerflow as ef
from eagerflow.extending import hint_about
from eagerflow.hints import ATTRIBUTES
from eagerflow.hints.attribute_names import ALSO_METHODS, ARRAYS, PROFILES
from eagerflow.hints.function_names import OWN_OPS
from eagerflow.hints.lookahead.names_of_source import UNKNOWN, Instance, Names, is_ours
from eagerflow.hints.missing_attributes import in_place
from eagerflow.hints.nn import DRAWS
from eagerflow.hints.optim import OPTIMISERS
from eagerflow.hints.parameter_names import CALLED, CALLED_OF_MODULES
from eagerflow.hints.refused_calls import of_call

__all__ = ["ANYWHERE", "OF_OBJECTS", "integer_of", "may_be_ours", "of_method", "refusal"]

#: methods of modules and optimisers that show that code is PyTorch's, whatever the object
_METHODS: Final = (
    "add_module", "load_state_dict", "named_buffers", "named_children", "named_modules",
    "named_parameters", "register_buffer", "register_parameter", "requires_grad_", "state_dict",
    "zero_grad",
)  # fmt: skip
_KINDS: Final = (
    str, bytes, list, dict, set, tuple, complex, int, ef.IndexedSlices, type(ef.zeros(0).numpy()),
)  # fmt: skip
#: attributes that objects of many kinds have: a hint for them needs the class of the object
_COMMON: Final = {name for kind in _KINDS for name in dir(kind)} | {
    "at",
    "diff",
    "expand",
    "gather",
    "median",
    "sub",
    "unique",
    "where",
}
#: in hints for methods that several classes have
_CLASSES: Final = {
    "Module": "of a module",
    "AbstractOptimiser": "of an optimiser",
    "AbstractSchedule": "of a schedule",
    "Dataset": "of a dataset",
}


#: what the names of objects of a class often contain
_NAMED: Final = {
    "Module": re.compile("net|model|module|layer|encoder|decoder|actor|critic|policy"),
    "AbstractOptimiser": re.compile("opt"),
    "AbstractSchedule": re.compile("sched"),
    "Dataset": re.compile("data|loader"),
}


def _of_classes(method: str, owner: str) -> str:
    """The hint for a method of an object of unknown class, by the classes that it may be of.

    Args:
        method: the name of the method.
        owner: the name of the object, which may tell its class.
    """
    having = [kind for kind in _CLASSES if method in ATTRIBUTES[kind]]
    named = [kind for kind in having if _NAMED[kind].search(owner.lower())]
    kinds = named if len(named) == 1 else having
    hints: dict[str, list[str]] = {}
    for kind in kinds:
        hints.setdefault(ATTRIBUTES[kind][method], []).append(_CLASSES[kind])
    if len(hints) == 1:
        return next(iter(hints))
    return "; ".join(
        f"{' and '.join(kinds)}: {hint.partition('; ')[0]}" for hint, kinds in hints.items()
    )


#: methods of objects of any class that only PyTorch's objects have
ANYWHERE: Final = {name: text for name, text in ARRAYS.items() if name not in _COMMON}
#: methods that PyTorch's tensors have in a second form, which changes them: ``exp_``
_IN_PLACE: Final = {*ANYWHERE, "clip", "copy", "cumsum", "cumprod", "round", "squeeze"}
#: attributes of objects of unknown class that only PyTorch's objects have
OF_OBJECTS: Final = {
    **OWN_OPS,
    "param_groups": OPTIMISERS["param_groups"],
    **{name: PROFILES[name] for name in ("export_chrome_trace", "key_averages", "total_average")},
    "rsample": DRAWS["rsample"],
}
#: attributes that NumPy's arrays have as well, and no other object of Python
_OF_ARRAYS: Final = {
    name
    for name in ARRAYS
    if name in dir(_KINDS[-1]) and not any(name in dir(kind) for kind in _KINDS[:-1])
}
#: keywords of methods that show that an object is a tensor of PyTorch
_KEYWORDS: Final = ("dim", "keepdim", "non_blocking", "unbiased")


def of_method(call: ast.Call, names: Names) -> str | None:
    """The hint for a method of an object of unknown class, if PyTorch's objects have it.

    Args:
        call: the call of the method.
        names: the names of the source.
    """
    if not isinstance(call.func, ast.Attribute):
        return None
    name, owner = call.func.attr, names.value(call.func.value)
    if not may_be_ours(owner) or name in names.defined:
        return None
    if isinstance(owner, Instance) and hint_about(owner.kind, name) is not None:
        return None  # the attribute is told
    if name in _OF_ARRAYS and _is_result(call.func.value, names):
        return ARRAYS[name]
    return _of_name(call, name) or _of_arguments(call, name)


def _is_result(node: ast.expr, names: Names) -> bool:
    """Whether an expression is the result of a function of eagerflow: ``ef.hessian(f)(x)``."""
    if isinstance(node, ast.Name):
        made = names.assigned(node.id)
        return bool(made) and all(isinstance(x, ast.Call) and _is_result(x, names) for x in made)
    while isinstance(node, ast.Call):
        called = names.value(node.func)
        node = node.func
        if inspect.isfunction(called):
            return is_ours(called)
    return False


def _of_name(call: ast.Call, name: str) -> str | None:
    """The hint for a method by its name."""
    if name in ANYWHERE and not (name in ALSO_METHODS and _takes_arrays(call)):
        return ANYWHERE[name]
    if name.endswith("_") and name[:-1] in _IN_PLACE:
        return in_place(name)
    receiver = ast.unparse(getattr(call.func, "value", call.func))
    if name in _METHODS:
        return _of_classes(name, receiver.rpartition(".")[2])
    if name == "step" and not call.args and _NAMED["AbstractOptimiser"].search(receiver.lower()):
        return OPTIMISERS["step"]
    return None


def _of_arguments(call: ast.Call, name: str) -> str | None:
    """The hint for a method that eagerflow has as well, by the arguments of the call."""
    if name in _COMMON and name in ARRAYS and _is_pytorchs(call):
        return ARRAYS[name]
    if name in CALLED_OF_MODULES and not call.args:
        return CALLED_OF_MODULES[name]
    if name == "size" and call.args:
        return CALLED["size"]
    if name == "view" and (len(call.args) > 1 or isinstance(call.args[0], ast.UnaryOp)):
        return ARRAYS["view"]
    if not any(k.arg in _KEYWORDS for k in call.keywords):
        return None
    method = getattr(ef.Tensor, name, None)
    return None if method is None else refusal(method, call, name, count=False)


def may_be_ours(owner: object) -> bool:
    """Whether the owner of a name is an object of eagerflow, or may be one.

    Args:
        owner: its value, as `Names` gives it.
    """
    kinds = owner.kind.__mro__ if isinstance(owner, Instance) else ()
    return owner is UNKNOWN or any(map(is_ours, kinds))


def _takes_arrays(call: ast.Call) -> bool:
    """Whether a call has arguments that are no numbers: then it is a function of some namespace."""
    return not all(_is_number(a) for a in call.args)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def _is_pytorchs(call: ast.Call) -> bool:
    """Whether a method that objects of many kinds have is called as only PyTorch's tensors are."""
    name, count = getattr(call.func, "attr", ""), len(call.args)
    keywords = {keyword.arg for keyword in call.keywords}
    match name:
        case "gather":  # (axis, indices)
            by_position = count == 2 and integer_of(call.args[0]) is not None
            return (by_position and not keywords) or keywords in ({"dim", "index"}, {"index"})
        case "expand":  # -1 keeps the size of an axis
            return count > 1 and not keywords and any(integer_of(a) == -1 for a in call.args)
    return False


def integer_of(node: ast.expr) -> int | None:
    """The value of an integer that is written as a number, such as ``-1``.

    Args:
        node: the expression.
    """
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if type(value) is int else None


def refusal(function: Any, call: ast.Call, name: str, *, count: bool = True) -> str | None:
    """The remedy for a call in a source, if its arguments would be refused.

    Args:
        function: what it calls.
        call: the call.
        name: the name of the function in the text.
        count: whether the number of arguments is looked at.
    """
    count = count and not any(isinstance(a, ast.Starred) for a in call.args)
    keywords = [k.arg for k in call.keywords if k.arg is not None]
    return of_call(function, len(call.args) if count else None, keywords, name)
