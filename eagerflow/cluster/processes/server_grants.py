"""Files and functions that the operator of a server grants to ops of clients, by options.

`cluster/protocol/op_permissions.py` says which ops may run by that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, final

from eagerflow.cluster.protocol.op_permissions import PYTHON
from eagerflow.errors import TensorValueError
from eagerflow.ops.state.callbacks import imported_call
from eagerflow.ops.state.imported_functions import CONTAINER
from eagerflow.resources.files import FILES, FileSystem

_FUNCTION: Final = re.compile(
    r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)", re.ASCII
)


@final
class ServerGrants:
    """The directory and the functions that clients may use.

    Functions are imported here, once. A name from a client is looked up among them as it is: no
    module is imported and no attribute is read for it.

    Args:
        files: the directory in which ops may read and write files; None to grant none.
        functions: functions for `eagerflow.py_call`, each as ``"pkg.module:function"``.

    Attributes:
        allows: the grants as announced to clients (`Welcome.allows`).

    Raises:
        TensorValueError: an entry of ``functions`` names no function.

    >>> from eagerflow.cluster.processes.server_grants import ServerGrants
    >>> ServerGrants(functions=["math:fsum"]).allows
    ('python:math:fsum',)
    """

    def __init__(self, files: Path | None = None, functions: Sequence[str] = ()) -> None:
        self._files = None if files is None else FileSystem(str(files))
        self._functions = {name: _imported(name) for name in functions}
        own = () if files is None else ("files",)
        self.allows: Final = (*own, *[PYTHON + name for name in self._functions])

    def find(
        self, container: str, name: str,
        calling: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function,
    ) -> Any:  # fmt: skip
        """The file system, or the call of a function; None if the container has neither.

        Args:
            container: the container that is looked in.
            name: the name looked up there.
            calling: gives for a function the replacement that is called.

        Raises:
            ResourceError: the function is not listed.
            EagerflowError: the types in the name are malformed.
        """
        if (container, name) == FILES.identity[2:]:
            return self._files
        if container != CONTAINER:
            return None
        return imported_call(name, {n: calling(one) for n, one in self._functions.items()})


def _imported(name: str) -> Callable[..., Any]:
    match = _FUNCTION.fullmatch(name)
    if match is None:
        raise TensorValueError(
            f"{name!r} names no function", expected="a module and a function in it, as math:fsum"
        )
    try:
        module = import_module(match["module"])
    except ImportError as error:
        raise TensorValueError(f"{name}: there is no such module here", given=str(error)) from error
    function: object = vars(module).get(match["name"])
    if not callable(function):
        raise TensorValueError(f"{name}: the module has no such function", given=repr(function))
    return function
