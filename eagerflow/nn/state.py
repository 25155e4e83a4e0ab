"""What a state has to be in order to fit a module, and how it gets there: all of it or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import eagerflow as ef
from eagerflow.errors import CheckpointError, EagerflowError

__all__ = ["put"]

_SHOWN: Final = 8  # names of each kind in a message


def put(
    variables: Mapping[str, ef.Variable],
    names: Mapping[str, str],
    state: Mapping[str, Any],
    strict: bool,
    owner: str,
) -> None:
    """Assign ``state`` to the variables.

    Args:
        variables: by their first paths.
        names: the first path of the variable at each path.
        state: values by path.
        strict: whether ``state`` must be complete and have nothing else.
        owner: the class of the module, for messages.
    """
    given = {names.get(path, path): value for path, value in reversed(list(state.items()))}
    unexpected = [path for path in state if path not in names]
    missing = [path for path in variables if path not in given]
    values, misfits = {}, []
    for path in variables.keys() & given.keys():
        try:
            values[path] = _fitting(variables[path], given[path])
        except EagerflowError as error:
            misfits.append(f"{path} ({error.wrong})")
    wrong = [] if not strict else [_listed("missing", missing), _listed("unexpected", unexpected)]
    wrong = [text for text in (*wrong, _listed("not fitting", sorted(misfits))) if text]
    if wrong:
        raise CheckpointError(
            f"load_state: the state does not fit {owner}",
            given="; ".join(wrong),
            expected=_listed("values for", list(variables)) or "nothing: it has no variables",
            hint="strict=False leaves out what is missing or unexpected" if strict else None,
        )
    for path, value in values.items():
        variables[path].assign(value)


def _fitting(variable: ef.Variable, value: Any) -> ef.Tensor:
    """``value`` as a tensor that can be assigned.

    Raises:
        ShapeError: another shape.
        DTypeError: another dtype.
    """
    dtype = variable.dtype if isinstance(value, (bool, int, float, complex, list)) else None
    tensor = ef.tensor(value, dtype=dtype, device=variable.device)
    if tensor.dtype is not variable.dtype or tensor.shape != variable.shape:
        raise ef.errors.ShapeError(f"{tensor.type} for {variable.type}")
    return tensor


def _listed(title: str, names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{title}: {', '.join(names[:_SHOWN])}{more}"
