"""Names of modules and classes: which are listed, and errors for those that are not there.

What there is in the place of names of other frameworks: `eagerflow/hints`, which an error loads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, final

from eagerflow.errors import UnknownNameError


def _no_hint(owner: str, name: str) -> str | None:
    """What `find_hints_by` replaces."""


_find: Callable[[str, str], str | None] = _no_hint


def find_hints_by(find: Callable[[str, str], str | None]) -> None:
    """Let hints be found by a function from above: they may name whatever there is.

    Args:
        find: takes a module or a class, by name, and the name that it lacks.
    """
    global _find
    _find = find


def unknown_name(
    owner: str, name: str, known: Mapping[str, object], hints: Mapping[str, str] | None = None
) -> UnknownNameError:
    """The error for a name that ``owner`` does not have; names the nearest one of ``known``.

    Args:
        owner: whose name it would be.
        name: the name.
        known: the names that there are, and what they stand for.
        hints: what to do in the place of names that other frameworks have.

    >>> from eagerflow.extending import unknown_name
    >>> hints = {"Dense": "use Linear"}
    >>> unknown_name("layers", "Liner", {"Linear": object}, hints).hint
    "did you mean 'Linear'?"
    >>> unknown_name("layers", "Dense", {"Linear": object}, hints).hint
    'use Linear'
    """
    if name.startswith("_"):  # tools ask for such; nothing public is like it
        return UnknownNameError(f"{owner} has no {name!r}")
    hint = (hints or {}).get(name) or _find(owner, name)
    if hint is None:
        public = [
            n for n, v in known.items() if not n.startswith("_") and not isinstance(v, ModuleType)
        ]
        longer = [n for n in public if n.startswith(name)] if len(name) > 2 else []
        suggestion = longer[0] if len(longer) == 1 else nearest(name, public, 0.8)
        hint = f"did you mean {suggestion!r}?" if suggestion else None
    return UnknownNameError(f"{owner} has no {name!r}", hint=hint)


def module_dir(
    namespace: Mapping[str, Any], modules: Sequence[str] = ()
) -> Callable[[], list[str]]:
    """The ``__dir__`` of a module: ``__all__`` if it has that, else what it has of eagerflow's.

    The modules of a package are not listed, nor is what a module imports from elsewhere for itself.

    Args:
        namespace: ``globals()`` of the module.
        modules: those of its modules that are public.

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
        owner: what users call the module.
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
    """The one of some names that is most like ``name``, if one is like it at all.

    Args:
        name: the name.
        known: the names.
        likeness: from 0 to 1, how alike they must be.

    >>> from eagerflow.extending import nearest
    >>> nearest("wieght", ["bias", "weight"]), nearest("scale", ["bias", "weight"])
    ('weight', None)
    """
    from difflib import get_close_matches  # noqa: PLC0415 - 5 ms that only an error should cost

    close = get_close_matches(name, list(known), 1, cutoff=likeness)
    return close[0] if close else None


class AbstractAbsent:
    """An attribute that objects of other frameworks have, and those here do not.

    To look for it raises `AttributeError`, as if it were not there. In a class it is found only
    when the name is missing; a ``__getattr__`` would make all other attributes slower.
    """

    def __init__(self, owner: str, name: str, hint: str | None) -> None:
        self._owner = owner
        self._name = name
        self._hint = hint

    def __get__(self, instance: object, owner: type) -> object:
        raise self._unknown(owner)

    @property
    def hint(self) -> str | None:
        """What there is in its place."""
        return self._hint or _find(self._owner, self._name)

    def _unknown(self, owner: type) -> UnknownNameError:
        return UnknownNameError(f"{owner.__name__} has no {self._name!r}", hint=self.hint)

    def __repr__(self) -> str:  # what `help` shows
        return f"<not here: {self.hint}>"


@final
class _Absent(AbstractAbsent):
    """One that objects may set for themselves."""


@final
class _NeverPresent(AbstractAbsent):
    """One of objects that have no attributes but those of their class."""

    def __set__(self, instance: object, value: object) -> None:
        raise self._unknown(type(instance))


def hint_at(owner: type, hints: Iterable[str]) -> None:
    """Let the error for an attribute that a class does not have say what there is instead.

    Args:
        owner: the class.
        hints: what to do in the place of attributes that other frameworks have, by name; or only
            the names, if `eagerflow/hints` has the texts.

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
    """What there is in the place of an attribute that objects of a class lack, if a hint says it.

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
    """What ``dir`` lists, and completion in notebooks: only names that are there."""
    return [n for n in object.__dir__(value) if not isinstance(_static(value, n), AbstractAbsent)]


def _static(value: object, name: str) -> object:
    """An attribute as its owner holds it; the instance goes before its class."""
    owners = (getattr(value, "__dict__", {}), *map(vars, type(value).__mro__))
    return next((names[name] for names in owners if name in names), None)
