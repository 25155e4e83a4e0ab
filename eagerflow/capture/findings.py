"""Search for effects and reads that a trace cannot follow: calls of libraries, and hidden state."""

from __future__ import annotations

import builtins
import dis
import random
import sys
from array import array
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from operator import methodcaller
from types import BuiltinFunctionType, FunctionType, MappingProxyType, ModuleType
from typing import Any, Final, Generic
from weakref import (
    CallableProxyType,
    ProxyType,
    ReferenceType,
    WeakKeyDictionary,
    WeakSet,
    WeakValueDictionary,
)

from eagerflow.capture.access_paths import GONE, NO_ARGUMENTS, AccessPath, Root, instance_dict
from eagerflow.capture.bytecode import facts_of
from eagerflow.capture.code_facts import Load
from eagerflow.capture.library_code import (
    attribute_of,
    home,
    is_bare_class,
    is_library,
    is_library_class,
)
from eagerflow.capture.reads import Finding, Reads, Site, name_of
from eagerflow.capture.unreached_code import unreached
from eagerflow.core.tensor import Tensor
from eagerflow.source import Source

_ONCE: Final = "runs only while tracing"
_TRACING: Final = "has an effect only while tracing"
_EMPTY: Final = "runs only while tracing, and would show no values of tensors"
_FROZEN: Final = "gives the value it had while tracing"
_UNSEEN: Final = "cannot be followed: changes are not seen"
_ARGUMENT: Final = "compute it outside and pass it as an argument, or use ef.py_call"
_OUTSIDE: Final = "do it outside, or use ef.py_call"
_CALLED: Final = "ef.py_call({}, None, ...) calls it with values in each run, as ef.print prints"
_DRAW: Final = "use ef.random, or pass the numbers as an argument"
_LOCK: Final = "take it around the call of the traced function, or use ef.Mutex"

#: the consequence, the remedy, and the functions concerned by module (names, or * for all)
_FINDINGS: Final[tuple[tuple[str, str, dict[str, str]], ...]] = (
    (_FROZEN, _ARGUMENT, {
        "builtins": "input", "datetime": "now utcnow today", "glob": "*", "locale": "*",
        "gc": "get_count get_objects get_referrers get_stats",
        "logging": "getEffectiveLevel hasHandlers isEnabledFor",
        "numpy": "load loadtxt genfromtxt fromfile", "os": "*", "resource": "*",
        "sys": "getrefcount", "time": "*", "uuid": "*",
    }),
    (_FROZEN, _DRAW, {"numpy.random": "*", "random": "*", "secrets": "*"}),
    (_ONCE, "use ef.print", {"builtins": "print"}),
    (_ONCE, _OUTSIDE, {
        "builtins": "open", "concurrent.futures._base": "*", "concurrent.futures.process": "*",
        "concurrent.futures.thread": "*", "matplotlib.pyplot": "*", "shutil": "*", "socket": "*",
        "subprocess": "*", "tempfile": "*", "threading": "Thread Timer",
    }),
    (_EMPTY, _CALLED, {
        "logging": "*", "sys.stderr": "write", "sys.stdout": "write", "warnings": "warn",
    }),
    (_TRACING, "put it around the call of the traced function", {
        "atexit": "register unregister", "decimal": "setcontext", "eagerflow.settings": "config",
        "numpy": "set_printoptions seterr seterrcall", "signal": "signal",
        "sys": "setprofile settrace",
    }),
    (_UNSEEN, "write its effect as plain code", {
        "builtins": "eval exec globals __import__", "importlib": "import_module",
        "inspect": "currentframe stack", "sys": "_getframe modules",
    }),
)  # fmt: skip
_RULES: Final = {
    (module, name): (what, remedy)
    for what, remedy, modules in _FINDINGS
    for module, names in modules.items()
    for name in names.split()
}
#: modules written in C, with the names under which they are known
_PLAIN_NAMES: Final = {
    "posix": "os", "nt": "os", "io": "builtins", "_io": "builtins", "_warnings": "warnings",
}  # fmt: skip
#: values in modules with rules that are no functions
_MAPPINGS: Final = (("os", "environ"), ("sys", "modules"))
#: names in those modules that give the same value each time
_PURE: Final = frozenset({"path", "sep", "linesep", "fspath", "PathLike", "SeedSequence", "UUID"})
_NUMPY_RANDOM: Final = "numpy.random"
#: modules with classes, and classes derived from them, that have these effects when called
_ACTING: Final = frozenset({"random", _NUMPY_RANDOM, "concurrent.futures._base"})
#: prefixes of the names of functions that give constants, or new objects
_CONSTANT: Final = ("_thread.allocate", "builtins.", "contextlib.", "dataclasses.", "decimal.",
                    "eagerflow", "platform.", "threading.RLock", "typing.")  # fmt: skip
#: packages for whose functions in C the rules say how they treat state
_KNOWN_IN_C: Final = sys.stdlib_module_names | {"eagerflow", "eagerflow_kernels", "numpy", "scipy"}
#: modules of the classes whose methods the rules name
#: (`unwatched` reports the state of a generator of random numbers itself)
_FOLLOWED: Final = frozenset({"logging", "_io", "ctypes", "concurrent.futures._base",
                              "concurrent.futures.thread", "concurrent.futures.process",
                              })  # fmt: skip


def find_calls(reads: Reads) -> None:
    """Note the calls in reachable code that do not belong in a graph."""
    told: set[tuple[int, int]] = set()
    frozen = _file_methods(reads) | {"__subclasses__"}
    for site in reads.sites:
        for load in facts_of(site.code).loads:
            key = (id(site.code), load.offset)
            if key in told:
                continue
            finding = _judge(site, load) if load.kind != "attribute" else None
            if load.kind == "attribute" and load.name in frozen:
                finding = Finding("impure", load.name, _FROZEN, _ARGUMENT, _source(site, load))
            if finding is not None:
                told.add(key)
                if load.offset not in unreached(site, _flag):
                    reads.findings.append(finding)


def _judge(site: Site, load: Load) -> Finding | None:
    value = _start(site, load)
    if value is GONE:
        return None
    names = [load.name, *(() if load.keys else load.attributes)]
    for i in range(len(names)):
        for module, name in _origins(value, names[: i + 1]):
            rule = _RULES.get((module, name)) or _RULES.get((module, "*"))
            if rule is not None and name not in _PURE:
                text = ".".join(names[: i + 1])
                kind = "unwatched" if rule[0] is _UNSEEN else "impure"
                hint = rule[1].format(text)
                return Finding(kind, text, rule[0], hint, _source(site, load))
        if i + 1 < len(names):
            value = _member(value, names[i + 1])
            if value is GONE:
                return None
    if _is_opaque(value) or (load.called and _gives_state(value)):
        return Finding("impure", ".".join(names), _FROZEN, _ARGUMENT, _source(site, load))
    return None


def _source(site: Site, load: Load) -> Source:
    return Source(site.code, load.offset)


def _is_opaque(value: Any) -> bool:
    """Whether a function is written in C, in a package for which there are no rules."""
    if isinstance(value, BuiltinFunctionType):
        top = str(value.__module__ or "builtins").partition(".")[0]
        return top not in _KNOWN_IN_C and not isinstance(value.__self__, Tensor)
    return any(base.__name__.endswith("CFuncPtr") for base in type(value).__mro__)  # of ctypes


def _gives_state(value: Any) -> bool:
    """Whether a function of a library, called without arguments, gives state of the library.

    There is nothing else that it could give, but for constants.
    """
    if isinstance(value, BuiltinFunctionType):
        if not isinstance(value.__self__, ModuleType | None):  # a method
            return False
    elif not isinstance(value, FunctionType) or not is_of_library(value):
        return False
    name = f"{value.__module__}.{value.__name__}"
    return not name.startswith(_CONSTANT)


def _file_methods(reads: Reads) -> frozenset[str]:
    """The names of `pathlib.Path` methods that access files, if code has paths."""
    pathlib = sys.modules.get("pathlib")
    if pathlib is None:
        return frozenset()
    pure = pathlib.PurePath
    values = [r.value for r in reads.reads]
    if not any(issubclass(x if issubclass(type(x), type) else type(x), pure) for x in values):
        return frozenset()
    return frozenset(name for name in dir(pathlib.Path) if not hasattr(pure, name))


def note_hidden_state(reads: Reads) -> None:
    """Note the reads without a name of code that uses `decimal`: precision, rounding and limits."""
    decimal = sys.modules.get("decimal")
    if decimal is not None and any(_module_of(r.value) in _DECIMAL for r in reads.reads):
        root, text = Root(decimal.getcontext), "the decimal context"
        context = AccessPath(root, "call", NO_ARGUMENTS, text, True)
        for name in ("prec", "rounding", "Emin", "Emax"):
            path = AccessPath(context, "attribute", name, f"{text}'s {name}", True)
            reads.add(path, "value", getattr(decimal.getcontext(), name))


_DECIMAL: Final = ("decimal", "_decimal", "_pydecimal")


def _module_of(value: Any) -> Any:
    """The module of a class or function, or of the class of an object."""
    return getattr(value if type(value) in CODE else type(value), "__module__", None)


CODE: Final = (FunctionType, BuiltinFunctionType, type)


def is_of_library(value: Any) -> bool:
    """Whether a function, a class or the class of an object is of a library."""
    if isinstance(value, FunctionType):  # with `__wrapped__`, a decorator of a library made it
        return is_library(value.__globals__) and not hasattr(value, "__wrapped__")
    return is_library_class(value if isinstance(value, type) else type(value))


def _start(site: Site, load: Load) -> Any:
    """The value of a name, as far as that is known without running code, or `GONE`."""
    function = site.function
    if load.kind == "global":
        value = function.__globals__.get(load.name, GONE)
        return getattr(builtins, load.name, GONE) if value is GONE else value
    if load.kind == "local":
        module, level, attribute = facts_of(site.code).aliases[load.name]
        value = GONE if level else sys.modules.get(module, GONE)
        return _member(value, attribute) if attribute else value
    code: Any = function.__code__
    if load.name in code.co_freevars:
        try:
            return function.__closure__[code.co_freevars.index(load.name)].cell_contents
        except ValueError:
            return GONE
    return GONE


def value_of(site: Site, load: Load) -> Any:
    """The value of a name with its attributes, or `GONE`."""
    value = _start(site, load)
    for name in load.attributes:
        value = _member(value, name)
    return value


def _member(value: Any, name: str) -> Any:
    """An attribute, or `GONE` where taking it may run code of the user."""
    if isinstance(value, ModuleType):
        return attribute_of(value, name)
    if isinstance(value, type):
        library = is_library_class(value)
    else:
        library = type(value).__module__ in _FOLLOWED and is_library_class(type(value))
    return getattr(value, name, GONE) if library else GONE


def _flag(site: Site, load: Load) -> Any:
    """The value of a name with its attributes, also attributes of plain instances, or `GONE`."""
    value = _start(site, load)
    for name in load.attributes:
        owner, value = value, _member(value, name)
        if value is GONE and not (_of_class(owner, name) or _of_class(owner, "__getattribute__")):
            value = (instance_dict(owner) or {}).get(name, GONE)
    return value


def _of_class(value: Any, name: str) -> bool:
    """Whether a method or property of a class in Python decides an attribute of its instances."""
    return any(
        isinstance(vars(base).get(name), FunctionType | property) for base in type(value).__mro__
    )


def _origins(value: Any, names: list[str]) -> Iterator[tuple[str, str]]:
    """The modules and names under which rules may list a value."""
    if issubclass(type(value), (ModuleType, type)) and not _acts(value):
        return
    if not is_library_class(type(value)):  # its attributes may run code of the user
        return
    name = names[-1]
    owner = getattr(value, "__self__", None)
    if isinstance(owner, ModuleType):
        yield _plain(owner.__name__), getattr(value, "__name__", name)
    elif isinstance(owner, type):
        yield owner.__module__, name
    elif isinstance(owner, random.Random):
        yield "random", name
    elif owner is not None:
        kind = type(owner).__module__
        if kind.startswith(_NUMPY_RANDOM):
            yield _NUMPY_RANDOM, name
        elif kind.startswith("logging"):
            yield "logging", name
        elif owner in (sys.stdout, sys.stderr):
            yield "sys.stdout", name
    module = getattr(value, "__module__", None)
    if isinstance(module, str) and (callable(value) or module == "os"):
        module = _NUMPY_RANDOM if module.startswith(_NUMPY_RANDOM) else _plain(module)
        yield module, getattr(value, "__name__", name)
    yield from (one for one in _MAPPINGS if value is getattr(sys.modules[one[0]], one[1]))


def _acts(value: Any) -> bool:
    """Whether calling a class has an effect: random numbers that a trace freezes, threads."""
    return isinstance(value, type) and any(
        cls.__module__ in _ACTING or (cls.__module__, cls.__name__) in _RULES
        for cls in value.__mro__
    )


def _plain(module: str) -> str:
    return _PLAIN_NAMES.get(module, module)


def asks_types(reads: Reads) -> bool:
    """Whether reachable code may see, in ``type(x)``, the type of a symbolic number.

    Converted code gets Python's type (`autograph/flow/builtins.py`), but ``__init__`` and the like
    are not converted; nor is some other code, which may only ask for the name of the type.
    """
    for code, load in reads.loads.get(("global", "type"), ()):
        ops = [i for i in dis.get_instructions(code) if i.offset >= load.offset]
        called = next((n for n, i in enumerate(ops) if i.opname == "CALL"), None)
        named = called is not None and ops[called + 1].opname in ("LOAD_ATTR", "LOAD_METHOD")
        if called is not None and (not named or code.co_name.startswith("__")):
            return True
    if any(r.value is type and name_of(r.path)[1] != "type" for r in reads.reads):
        return True
    return any(site.code.co_name in _EXACT or _asks_silently(site) for site in reads.sites)


#: modules whose functions distinguish types without an error: `json` by ``default=``
_SILENT: Final = frozenset({"json", "random"})
#: methods whose results Python accepts only if they are numbers of its own
_EXACT: Final = frozenset({"__complex__", "__float__", "__index__", "__int__"})
_OPTIMIZED: Final = 1  # the flag of code that is not the body of a class
_GENERATOR: Final = 32


def _asks_silently(site: Site) -> bool:
    """Whether code that is not converted may get another answer than eagerly, without an error."""
    flags, key = site.code.co_flags, getattr(site.path, "key", None)
    plain = flags & _OPTIMIZED and not flags & _GENERATOR and key not in ("fget", "fset", "func")
    if plain and not site.code.co_name.startswith("__"):
        return False
    return any(
        home(site.function.__globals__.get(name)) in _SILENT for name in facts_of(site.code).globals
    )


# --- hidden state -----------------------------------------------------------------------------

#: packages with mutable objects whose changes cannot be noticed
_FOREIGN: Final = frozenset({"pandas", "polars", "pyarrow", "torch", "tensorflow", "jax", "cupy",
                             "scipy", "xarray", "sklearn"})  # fmt: skip
#: objects whose content no guard compares
_HIDDEN: Final = (ContextVar, ReferenceType, ProxyType, CallableProxyType, MappingProxyType,
                  array, memoryview, methodcaller, WeakSet, WeakKeyDictionary,
                  WeakValueDictionary)  # fmt: skip
#: the modules of locks, conditions and semaphores
_LOCKS: Final = ("_thread", "threading")
#: modules written in C with objects that never change
_FIXED: Final = frozenset({"_struct"})


def unwatched(path: AccessPath | Root, value: Any, reads: Reads) -> Finding | None:
    """The finding that an object has state which cannot be compared; None if it has none."""
    cls = type(value)
    base = next(base for base in cls.__mro__ if is_library_class(base))
    if base in (object, Generic) and not _is_iterator(cls):
        return None
    module = cls.__module__
    top = module.partition(".")[0]
    if top == "eagerflow" or (isinstance(path, AccessPath) and path.how == "cell" and path.fixed):
        return None  # state that a function of a library keeps is internal to it
    if top in _LOCKS and hasattr(cls, "__enter__"):
        if _is_part_of_library(path):
            return None
        why, hint = "is taken only while tracing", _LOCK
    elif isinstance(value, _HIDDEN):
        why, hint = "has a content that a trace cannot follow", _ARGUMENT
    elif _is_iterator(cls):
        why, hint = "has a position that a trace cannot follow", "take the items outside"
        if hasattr(cls, "read"):
            if isinstance(path, AccessPath) and is_handed_over(path, reads):
                return None  # ef.print(..., file=out)
            why, hint = "is a file: a trace cannot follow it", _OUTSIDE
    elif _draws(cls):
        why, hint = "has a state that a trace cannot follow", _DRAW
    elif top in _FOREIGN and not callable(value) and not _is_scalar(value):
        why, hint = "is compared by identity: changes in it are not seen", (
            "pass it as an argument, or convert it with ef.asarray outside")  # fmt: skip
    elif _is_closed(value, base) and _has_state(base) and _calls(base, reads):
        why, hint = "has a state that a trace cannot follow", _ARGUMENT
    else:
        return None
    what = f"{path.text or 'the function'}: a {cls.__name__}"
    return Finding("unwatched", what, why, hint, reads.line_of(path))


def _is_part_of_library(path: AccessPath | Root) -> bool:
    """Whether a path leads to an attribute of an object of a library, such as a queue's lock."""
    if not isinstance(path, AccessPath) or path.how not in ("attribute", "dict"):
        return False
    owner = type(path.parent.get())
    return is_library_class(owner) and not is_bare_class(owner)


def _draws(cls: type) -> bool:
    """Whether objects of a class draw random numbers: it is, or is derived from, a generator."""
    return any(
        base is random.Random or base.__module__.startswith(_NUMPY_RANDOM) for base in cls.__mro__
    )


def _is_iterator(cls: type) -> bool:
    return hasattr(cls, "__next__") and hasattr(cls, "__iter__")


def _is_scalar(value: Any) -> bool:
    if hasattr(type(value), "__dlpack__") or hasattr(type(value), "__array__"):
        return getattr(value, "shape", None) == ()
    return getattr(type(value), "__hash__", None) not in (None, object.__hash__)


def _is_closed(value: Any, base: type) -> bool:
    """Whether an object keeps state in C besides attributes, as its first library class does."""
    if base is type(value):
        return instance_dict(value) is None
    return not (base.__dictoffset__ or "__slots__" in vars(base) or is_bare_class(base))


def _has_state(cls: type) -> bool:
    """Whether objects of a class in C are compared by identity, which suggests mutable state."""
    hashes: Any = cls.__hash__
    return (
        (hashes is None or hashes is object.__hash__)
        and not any("__call__" in base.__dict__ for base in cls.__mro__)
        and cls.__module__ not in _FIXED
        and cls not in (slice, bytearray)
    )


def _calls(cls: type, reads: Reads) -> bool:
    """Whether code reads attributes of objects of a class."""
    return any(("attribute", name) in reads.loads for name in dir(cls) if name[:2] != "__")


# --- arrays of NumPy --------------------------------------------------------------------------


def is_handed_over(path: AccessPath, reads: Reads) -> bool:
    """Whether code does nothing with a value but pass it to functions of eagerflow."""
    return _every_load(path, reads, _is_passed_on)


def is_operand(path: AccessPath, reads: Reads) -> bool:
    """Whether an array is only passed on to eagerflow, or an operand of ``+``, ``@``, ….

    Whether NumPy or eagerflow computes the operation is found out when it is traced.
    """

    def fits(site: Site, load: Load) -> bool:
        return load.operand or _is_passed_on(site, load)

    return _every_load(path, reads, fits)


def _every_load(path: AccessPath, reads: Reads, fits: Callable[[Site, Load], bool]) -> bool:
    """Whether an array is read by its name alone, and all its loads fit."""
    loads = list(reads.loads_of(path))
    if not loads or path.fixed or path.how == "item":
        return False
    sites = {id(site.code): site for site in reads.sites}
    return all(fits(sites[id(code)], load) for code, load in loads)


def _is_passed_on(site: Site, load: Load) -> bool:
    if load.callee is None or load.attributes:
        return False
    value = value_of(site, load.callee)
    return isinstance(value, FunctionType) and (
        is_library(value.__globals__) and value.__module__.startswith("eagerflow.")
    )
