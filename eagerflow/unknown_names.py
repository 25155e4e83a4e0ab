"""Names of modules and classes: the listed ones, and errors for unknown ones.

The replacements for names of other frameworks are in `eagerflow/hints`, which an error loads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, final

from eagerflow.errors import UnknownNameError


def _no_hint(owner: str, name: str) -> str | None:
    """The default, which `find_hints_by` replaces."""


_find: Callable[[str, str], str | None] = _no_hint


def find_hints_by(find: Callable[[str, str], str | None]) -> None:
    """Register the function that finds hints, of a module above, as hints may name anything.

    Args:
        find: takes a module or a class, by name, and the name that it lacks.
    """
    global _find
    _find = find


def find_hint(owner: str, name: str) -> str | None:
    """The hint of `eagerflow/hints` for a name that a module or a class lacks, if there is one.

    Args:
        owner: the name of the module or the class; ``"axis"`` for functions that are given a value
            in the place of an axis; ``"explain"`` for that method; ``"pair"`` for functions that
            give values and indices elsewhere.
        name: the name that it lacks, or of the function.
    """
    return _find(owner, name)


def unknown_name(
    owner: str, name: str, known: Mapping[str, object], hints: Mapping[str, str] | None = None
) -> UnknownNameError:
    """The error for a name that ``owner`` does not have; names the nearest one of ``known``.

    Args:
        owner: the module or class.
        name: the unknown name.
        known: the known names with their objects.
        hints: the advice for names that other frameworks have.

    >>> from eagerflow.extending import unknown_name
    >>> hints = {"Dense": "use Linear"}
    >>> unknown_name("layers", "Liner", {"Linear": object}, hints).hint
    "did you mean 'Linear'?"
    >>> unknown_name("layers", "Dense", {"Linear": object}, hints).hint
    'use Linear'
    """
    if name.startswith("_"):  # tools look up such names; no public one is similar
        return UnknownNameError(f"{owner} has no {name!r}")
    hint = (hints or {}).get(name) or _find(owner, name)
    if hint is None:
        public = [
            n for n, v in known.items() if not n.startswith("_") and not isinstance(v, ModuleType)
        ]
        longer = [n for n in public if n.startswith(name)] if len(name) > 2 else []
        plain = name.lower().removesuffix("_")  # in place elsewhere: floor_
        same = [n for n in public if n.lower() == plain]  # few letters alike: WarmUp, warmup
        alike = same or longer
        suggestion = alike[0] if len(alike) == 1 else nearest(name, public, 0.8)
        hint = f"did you mean {suggestion!r}?" if suggestion else None
    return UnknownNameError(f"{owner} has no {name!r}", hint=hint)


def module_dir(
    namespace: Mapping[str, Any], modules: Sequence[str] = ()
) -> Callable[[], list[str]]:
    """The ``__dir__`` of a module: ``__all__`` if it has that, else its objects of eagerflow.

    The modules of a package are not listed, nor are imports from other packages.

    Args:
        namespace: ``globals()`` of the module.
        modules: the public ones of its modules.

    >>> module_dir({"exp": ef.exp, "sequence": list, "layers": ef.nn, "_rule": ef.exp})()
    ['exp']
    """

    def names() -> list[str]:
        listed = namespace.get("__all__")
        if listed is not None:
            return sorted(listed)
        own = {name for name, value in namespace.items() if _is_own(name, value)}
        return sorted(own.union(modules))

    return names


def _is_own(name: str, value: Any) -> bool:
    if name.startswith("_") or isinstance(value, ModuleType):
        return False
    return str(getattr(value, "__module__", "")).partition(".")[0] == "eagerflow"


def module_getattr(owner: str, namespace: Mapping[str, object]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module, which raises `unknown_name`.

    Args:
        owner: the users' name of the module.
        namespace: its ``globals()``. Names in its ``__all__`` are suggested, if it has one.

    >>> from eagerflow.extending import module_getattr
    >>> module_getattr("layers", {"Linear": object})("Liner")
    Traceback (most recent call last):
    eagerflow.errors.UnknownNameError: layers has no 'Liner'
      hint: did you mean 'Linear'?
      at: ...
    """

    def __getattr__(name: str) -> Any:  # noqa: N807 - it becomes one
        if name.startswith("__"):
            raise AttributeError(name)
        names: Any = namespace.get("__all__", namespace)
        raise unknown_name(owner, name, {n: namespace[n] for n in names})

    return __getattr__


def nearest(name: str, known: Iterable[str], likeness: float = 0.65) -> str | None:
    """The most similar of some names to ``name``; None if none is similar enough.

    Args:
        name: the name.
        known: the candidates.
        likeness: the least similarity, from 0 to 1.

    >>> from eagerflow.extending import nearest
    >>> nearest("wieght", ["bias", "weight"]), nearest("scale", ["bias", "weight"])
    ('weight', None)
    """
    from difflib import get_close_matches  # noqa: PLC0415 - 5 ms that only an error should cost

    close = get_close_matches(name, list(known), 1, cutoff=likeness)
    return close[0] if close else None


class AbstractAbsent:
    """An attribute that objects of other frameworks have, and eagerflow's do not.

    Access raises `AttributeError`, as for any missing attribute. As a member of a class it costs
    other attributes nothing; a ``__getattr__`` would make them slower.
    """

    def __init__(self, owner: str, name: str, hint: str | None) -> None:
        self._owner = owner
        self._name = name
        self._hint = hint

    def __get__(self, instance: object, owner: type) -> object:
        raise self._unknown(owner)

    @property
    def hint(self) -> str | None:
        """The replacement, in words."""
        return self._hint or _find(self._owner, self._name)

    def _unknown(self, owner: type) -> UnknownNameError:
        return UnknownNameError(f"{owner.__name__} has no {self._name!r}", hint=self.hint)

    def __repr__(self) -> str:  # what `help` shows
        return f"<not here: {self.hint}>"


@final
class _Absent(AbstractAbsent):
    """An absent attribute that objects may set for themselves."""


@final
class _NeverPresent(AbstractAbsent):
    """An absent attribute of objects without a ``__dict__``, which cannot set it."""

    def __set__(self, instance: object, value: object) -> None:
        raise self._unknown(type(instance))


def hint_at(owner: type, hints: Iterable[str]) -> None:
    """Let errors for missing attributes of a class name the replacement.

    Args:
        owner: the class.
        hints: the advice for attributes that other frameworks have, by name; or only the names, if
            `eagerflow/hints` has the texts.

    >>> from eagerflow.extending import hint_at
    >>> class Layer:
    ...     pass
    >>> hint_at(Layer, {"cuda": "make it where it shall be"})
    >>> Layer().cuda
    Traceback (most recent call last):
    eagerflow.errors.UnknownNameError: Layer has no 'cuda'
      hint: make it where it shall be
      at: ...
    >>> hasattr(Layer(), "cuda"), "cuda" in dir(Layer())
    (False, False)
    """
    kind = _Absent if owner.__dictoffset__ else _NeverPresent
    texts = hints if isinstance(hints, Mapping) else {}
    for name in hints:
        setattr(owner, name, kind(owner.__name__, name, texts.get(name)))
    setattr(owner, "__dir__", _names)  # noqa: B010 - mypy knows it as a method, which cannot be assigned


def hint_about(kind: type, name: str) -> str | None:
    """The hint on the replacement of an attribute that objects of a class lack, if there is one.

    Args:
        kind: the class.
        name: of the attribute.

    >>> from eagerflow.extending import hint_about
    >>> hint_about(ef.Tensor, "numel"), hint_about(ef.Tensor, "shape")
    ('x.size', None)
    """
    member = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    return member.hint if isinstance(member, AbstractAbsent) else None


def _names(value: object) -> list[str]:
    """The result of ``dir``, also for completion in notebooks, without absent attributes."""
    return [n for n in object.__dir__(value) if not isinstance(_static(value, n), AbstractAbsent)]


def _static(value: object, name: str) -> object:
    """An attribute without the descriptor protocol; the instance goes before its class."""
    owners = (getattr(value, "__dict__", {}), *map(vars, type(value).__mro__))
    return next((names[name] for names in owners if name in names), None)
