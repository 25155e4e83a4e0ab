"""Loading of a state into the variables of a module or an optimiser: all or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import eagerflow as ef
from eagerflow.errors import CheckpointError, EagerflowError
from eagerflow.unknown_names import nearest

_SHOWN: Final = 8  # names in one list of a message


def put_state(
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
        strict: whether ``state`` must have all paths and no others.
        owner: the class of the module, for messages.

    Raises:
        CheckpointError: the state does not fit; then nothing is assigned.

    >>> from eagerflow.extending import put_state
    >>> w = ef.Variable([1.0, 2.0])
    >>> put_state({"w": w}, {"w": "w"}, {"w": [3.0, 4.0]}, True, "Scale")
    >>> w
    Variable([3., 4.], f32[2]@cpu:0)
    """
    if not isinstance(state, Mapping):
        raise CheckpointError(
            "load_state: the state is not a mapping",
            given=f"a value of type {type(state).__name__}",
            expected="values by path, as the state of a module",
            hint=f"of a module that has it: {owner.lower()}.load_state(other.state)",
        )
    unexpected = [str(path) for path in state if path not in names]
    given = {names[path] for path in state if path in names}
    missing = [path for path in variables if path not in given]
    values: dict[str, ef.Tensor] = {}
    misfits = []
    for path, first in names.items():
        if path in state:
            try:
                value = _fitting(variables[first], state[path])
                _check_one(values.setdefault(first, value), value, first)
            except EagerflowError as error:
                misfits.append(f"{path} ({error.wrong})")
    wrong = [] if not strict else [_listed("missing", missing), _listed("unexpected", unexpected)]
    wrong = [text for text in (*wrong, _listed("not fitting", sorted(misfits))) if text]
    if wrong:
        raise CheckpointError(
            f"load_state: the state does not fit {owner}",
            given="; ".join(wrong),
            expected=_listed("values for", list(variables)) or "nothing: it has no variables",
            hint=_hint(missing, unexpected, bool(given)) if strict else None,
        )
    for path, value in values.items():
        variables[path].assign(value)


#: of the attention of PyTorch, whose projections are one array
_ATTENTION: Final = (
    "in_proj_weight is query.weight, key.weight and value.weight here, ef.split(w, 3), likewise "
    "in_proj_bias; out_proj is output"
)


def _hint(missing: list[str], unexpected: list[str], some_fit: bool) -> str | None:
    """The advice for paths that do not match; None if all do."""
    if not missing and not unexpected:
        return None
    pair = renaming(missing, unexpected)
    meant = f"is {pair[0]!r} there {pair[1]!r} here? " if pair else ""
    if any(path.endswith("in_proj_weight") for path in unexpected):
        meant = f"{_ATTENTION}; "
    skips = "strict=False skips missing and unexpected values" if some_fit else ""
    return f"{meant}{skips}".rstrip(" ;") or None


def _fitting(variable: ef.Variable, value: Any) -> ef.Tensor:
    """``value`` as a tensor that can be assigned.

    Raises:
        ShapeError: the shape or dtype differs.
        DTypeError: the value cannot be converted.
    """
    tensor = ef.tensor(value, device=variable.device)
    weak = isinstance(value, (bool, int, float, complex, list))
    if weak and (variable.dtype.is_inexact or not tensor.dtype.is_inexact):
        tensor = ef.tensor(value, dtype=variable.dtype, device=variable.device)
    if tensor.dtype is not variable.dtype or tensor.shape != variable.shape:
        raise ef.errors.ShapeError(f"{tensor.type} for {variable.type}")
    return tensor


def _check_one(value: ef.Tensor, other: ef.Tensor, path: str) -> None:
    """Refuse different values for one variable, which has several paths."""
    if value is not other and not _same(value, other):
        raise CheckpointError(f"another value than {path}, which is the same variable")


def _same(value: ef.Tensor, other: ef.Tensor) -> bool:
    return bool(((value == other) | ((value != value) & (other != other))).all())


def _listed(title: str, names: list[str]) -> str:
    return f"{title}: {first_names(names)}" if names else ""


def first_names(names: list[str]) -> str:
    """The first of some names, and the number of others.

    >>> from eagerflow.extending import first_names
    >>> first_names([f"layer{i}" for i in range(10)])
    'layer0, layer1, layer2, layer3, layer4, layer5, layer6, layer7 and 2 more'
    """
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def renaming(here: Iterable[str], there: Iterable[str]) -> tuple[str, str] | None:
    """The probable renaming of missing paths: the parts in which a path and its match differ.

    Args:
        here: the paths that are missing, their parts joined by dots.
        there: the paths that are unexpected.

    Returns:
        The name there and the name here, such as ``("encoder", "backbone")``.

    >>> from eagerflow.extending import renaming
    >>> renaming(["encoder.0.weight"], ["backbone.0.weight", "head.bias"])
    ('backbone', 'encoder')
    """
    others = list(there)
    first = next(iter(here), None)
    if first is None:
        return None
    below = (p for p in others if p.endswith(f".{first}") or first.endswith(f".{p}"))
    nearest_path = next(below, None) or nearest(first, others)
    if nearest_path is None:
        return None
    ours, theirs = first.split("."), nearest_path.split(".")
    while len(ours) > 1 and len(theirs) > 1 and ours[-1] == theirs[-1]:
        ours, theirs = ours[:-1], theirs[:-1]
    return ".".join(theirs), ".".join(ours)
