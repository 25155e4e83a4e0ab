"""Names of module-level functions, by which another process may have listed them.

The function of a `py_call` is an object of this process. A function that a module holds under its
own name also exists in other processes: there it is looked up in a list, by ``module:function``,
and never by attribute access.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from eagerflow.errors import EagerflowError, ResourceError
from eagerflow.hardware.registry import first_cpu
from eagerflow.ops.state.queue_elements import as_spec
from eagerflow.resources.containers import ResourceName
from eagerflow.types import TensorSpec

#: container name of functions, which no user's container can have
CONTAINER: Final = "&python"
_CALL: Final = re.compile(r"(?P<function>[^()]*)\((?P<inputs>.*)\) -> (?P<outputs>.*)", re.DOTALL)
_SPECS: Final = re.compile(r"[^\[\],]+\[[^\]]*\](?:@[^,]*)?")
#: maximum number of characters of a call, as protocols have a limit
_LONGEST: Final = 1_000


def import_name(function: Callable[..., Any]) -> str | None:
    """``"module:function"`` if the module holds the function under this name; else None.

    >>> import json
    >>> from eagerflow.ops.state.imported_functions import import_name
    >>> import_name(json.dumps), import_name(json.JSONEncoder().encode)
    ('json:dumps', None)
    """
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return None
    held = vars(sys.modules[module]).get(name) if module in sys.modules else None
    return f"{module}:{name}" if held is function and name.isidentifier() else None


def call_name(
    function: Callable[..., Any], inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec],
    structure: str,
) -> ResourceName | None:  # fmt: skip
    """The name for another process of a call of a function with tensors; None if it has no name.

    Args:
        function: the function called.
        inputs: the specs of its arguments.
        outputs: the specs of the leaves of its result.
        structure: structure of the result: ``"none"``, ``"one"`` or ``"tuple"``.

    >>> import math
    >>> from eagerflow.ops.state.queue_elements import as_spec
    >>> from eagerflow.ops.state.imported_functions import call_name
    >>> x = as_spec("", "f32[3]", ef.hardware.as_device("cpu:0"))
    >>> call_name(math.fsum, [x], [x], "one").name
    'math:fsum(f32[3]@cpu:0) -> f32[3]@cpu:0'
    """
    name = import_name(function)
    if name is None:
        return None
    given, made = ", ".join(map(str, inputs)), ", ".join(map(str, outputs))
    result = {"none": "None", "one": made, "tuple": f"({made})"}[structure]
    call = f"{name}({given}) -> {result}"
    try:
        told = read_call(call)
    except EagerflowError:  # a size without a text form
        return None
    fits = [len(told[1]), len(told[2])] == [len(inputs), len(outputs)] and len(call) <= _LONGEST
    return ResourceName("", 0, CONTAINER, call) if fits else None


def read_call(call: str) -> tuple[str, list[TensorSpec], list[TensorSpec], str]:
    """The parts of a call: the function, its arguments, its results, and their structure.

    Args:
        call: a result of `call_name`.

    Raises:
        ResourceError: the name is malformed.
        EagerflowError: a type in the name is malformed.
    """
    match = _CALL.fullmatch(call)
    if match is None:
        raise ResourceError(
            "the text is not a call of a function", given=repr(call),
            expected="such as 'math:fsum(f64[3]@cpu:0) -> f64[]@cpu:0'",
        )  # fmt: skip
    made = match["outputs"]
    structure = "none" if made == "None" else "tuple" if made.startswith("(") else "one"
    text = {"none": "", "one": made, "tuple": made[1:-1]}[structure]
    outputs = _specs(text)
    if structure == "one" and len(outputs) != 1:
        raise ResourceError("a call without a result", given=repr(call))
    return match["function"], _specs(match["inputs"]), outputs, structure


def _specs(text: str) -> list[TensorSpec]:
    return [as_spec("py_call", one.strip(), first_cpu()) for one in _SPECS.findall(text)]
