"""Permissions of ops that a task runs for another process, as both ends see them.

Ops that reach files or Python are refused, by a fact of their records (``reaches=`` in the
definition of an op), unless the operator of the task has granted it:
`cluster/processes/server_grants.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from eagerflow.core.op import Op, find_op
from eagerflow.errors import GraphError
from eagerflow.graph.ir import Node
from eagerflow.ops.state.callbacks import PyFunction
from eagerflow.resources.files import FileSystem
from eagerflow.resources.resources_at_tasks import ResourceAtTask
from eagerflow.resources.variable import VariableState

#: prefix of the name of a function that a task lets clients call (`Welcome.allows`)
PYTHON: Final = "python:"
_ALLOWED_BY: Final = {
    "files": "eagerflow serve --allow-files DIR",
    "python": "eagerflow serve --allow-python MODULE:FUNCTION",
}


def is_allowed(op: Op, allows: Collection[str] = ()) -> bool:
    """Whether an op may run for another process.

    Args:
        op: the op.
        allows: grants beyond values and state, such as ``"files"``, or
            ``"python:math:fsum"`` for one function.
    """
    if op.reaches == "python" and not op.calls_user:
        return False  # functions of eagerflow, which show something to the user of the process
    if op.reaches != "nothing" and op.reaches not in {one.partition(":")[0] for one in allows}:
        return False
    return op.resource is not None or op.effect == "pure"


def may_be_sent(op: Op, allows: Collection[str], attrs: Mapping[str, Any]) -> bool:
    """Whether a client may send an op to a task: all that the op uses is there, and not here.

    Args:
        op: the op.
        allows: the grants of the task (`Welcome.allows`).
        attrs: attributes of the call.
    """
    if op.resource is PyFunction:
        function = attrs["resource"]
        known = function.import_name
        return known is not None and PYTHON + known in allows and function.identity is not None
    if type(attrs.get("resource")) is ResourceAtTask:
        return True
    return is_allowed(op, allows) and op.resource in (None, VariableState, FileSystem)


def check_op(node: Node, allows: Collection[str]) -> None:
    """Refuse a node from another process's graph whose op may not run here.

    Args:
        node: a node with an op, as opposed to a call, a branch or a constant.
        allows: the grants of this task.

    Raises:
        GraphError: there is no such op, it may not run, or its resource is missing.
    """
    op = find_op(node.op)
    if op is None:
        raise GraphError(
            f"there is no op {node.op!r} here",
            given=f"&{node.name}",
            hint="both processes need the same eagerflow, and the same packages that add ops",
        )
    if not is_allowed(op, allows):
        raise GraphError(
            f"{node.op} may not run in a graph of another process",
            given=f"&{node.name}",
            expected="ops that reach " + " or ".join(["nothing but values and state", *allows]),
            hint=_ALLOWED_BY.get(op.reaches),
        )
    kind = op.resource
    if kind is not None and not isinstance(node.attrs.get("resource"), kind):
        raise GraphError(f"{node.op}: &{node.name} lacks the resource that it needs")
