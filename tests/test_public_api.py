"""The public names: complete, documented, with an example, and known to type checkers."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import eagerflow as ef
from tests.each import check_each
from tests.source_tree import ROOT

#: the array API standard 2025.12: https://data-apis.org/array-api/2025.12/API_specification
_STANDARD = """
e inf nan newaxis pi bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64
complex64 complex128 arange asarray empty empty_like eye from_dlpack full full_like linspace
meshgrid ones ones_like tril triu zeros zeros_like astype broadcast_arrays broadcast_to can_cast
finfo iinfo isdtype result_type abs acos acosh add asin asinh atan atan2 atanh bitwise_and
bitwise_left_shift bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj
copysign cos cosh divide equal exp expm1 floor floor_divide greater greater_equal hypot imag
isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not
logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow real
reciprocal remainder round sign signbit sin sinh square sqrt subtract tan tanh trunc take
take_along_axis __array_namespace_info__ __array_api_version__ matmul matrix_transpose tensordot
vecdot concat expand_dims flip moveaxis permute_dims repeat reshape
roll squeeze stack tile unstack argmax argmin count_nonzero nonzero searchsorted where unique_all
unique_counts unique_inverse unique_values argsort sort cumulative_prod cumulative_sum max mean
min prod std sum var all any diff isin linalg.cholesky linalg.cross linalg.det linalg.diagonal
linalg.eigh linalg.eigvalsh linalg.inv linalg.matmul linalg.matrix_norm linalg.matrix_power
linalg.matrix_rank linalg.matrix_transpose linalg.outer linalg.pinv linalg.qr linalg.slogdet
linalg.solve linalg.svd linalg.svdvals linalg.tensordot linalg.trace linalg.vecdot
linalg.vector_norm fft.fft fft.ifft fft.fftn fft.ifftn fft.rfft fft.irfft fft.rfftn fft.irfftn
fft.hfft fft.ihfft fft.fftfreq fft.rfftfreq fft.fftshift fft.ifftshift
"""
STANDARD = tuple(_STANDARD.split())

#: public names beyond the standard in this stage
_OWN = """
Tensor tensor Variable IndexedSlices float16 bfloat16 float8_e4m3fn float8_e5m2 einsum pad split
logsumexp cumprod outer kron topk one_hot segment_sum isclose allclose scatter_add
linalg.solve_triangular random.seed random.normal random.uniform random.randint random.permutation
random.bernoulli random.categorical random.Generator grad value_and_grad GradientTape vjp jvp
jacobian hessian custom_vjp stop_gradient remat check_grads device devices memory release config
profile show dashboard traceback errors events hardware types linalg fft random
"""
OWN = tuple(_OWN.split())

#: values, not functions or classes: documented with their class
CONSTANTS = {"e", "inf", "nan", "newaxis", "pi", "__array_api_version__", "__version__"}


def lookup(name: str) -> object:
    """The object of a dotted name under ``ef``."""
    member: object = ef
    for part in name.split("."):
        member = getattr(member, part)
    return member


#: modules with public names, besides ``ef`` itself
SPACES = (
    "linalg", "fft", "random", "checkpoint", "data", "distributions", "optim",
    "nn", "nn.functional", "nn.init", "nn.metrics",
    "extending", "extending.tree",
)  # fmt: skip


def public() -> dict[str, object]:
    """Every public function and class, by its dotted name under ``ef``."""
    members = {n: getattr(ef, n) for n in dir(ef) if not n.startswith("_")}
    for module in SPACES:
        space = lookup(module)
        names = getattr(space, "__all__", None) or [n for n in vars(space) if n[0] != "_"]
        members |= {f"{module}.{name}": getattr(space, name) for name in names}
    return {
        name: value
        for name, value in members.items()
        if callable(value) and not isinstance(value, types.ModuleType) and value is not Any
    }


def test_names_exist() -> None:
    check_each([*STANDARD, *OWN], lookup)


@pytest.mark.parametrize(
    "space",
    [*SPACES[:-1], "cluster", "errors", "events", "fft", "hardware", "io", "placement", "types"],
)
def test_completion_lists_what_users_call(space: str) -> None:
    """Only existing names of eagerflow are listed, and only documented modules."""
    module = lookup(space)
    names = dir(module)
    assert names
    for name in names:
        value = getattr(module, name)
        if isinstance(value, types.ModuleType):
            assert name in ("functional", "init", "metrics", "tree")
        assert not name.startswith("_")
        assert name not in ("Any", "Callable", "Final", "annotations")


def test_nothing_strange_is_public() -> None:
    """No helper, typing name or module of ops leaks into ``ef``."""
    for name, value in vars(ef).items():
        if name.startswith("_") or name in CONSTANTS:
            continue
        module = getattr(value, "__module__", None) or getattr(value, "__name__", "")
        assert module.startswith("eagerflow"), f"ef.{name} is {value!r}"
    modules = {n for n, v in vars(ef).items() if isinstance(v, types.ModuleType) and n[0] != "_"}
    assert modules <= {
        "atomic_files", "autodiff", "autograph", "batching", "capture", "cluster", "compilation",
        "control", "core", "dims", "distributions", "einops_backend", "error_messages", "errors",
        "events", "fft",
        "function", "graph",
        "running_node",
        "hardware", "io",
        "linalg",
        "machine_logs", "ops", "pictures", "placement", "profiling", "random",
        "resources", "runners", "runtime",
        "settings", "source", "tracing", "types", "cli", "demo", "checkpoint", "data", "nn",
        "optim", "option_checks", "extending", "hints", "plugins", "progress", "state_loading",
            "formatting", "unknown_names", "views", "watching", "wrong_calls",
    }  # fmt: skip


def test_dir_lists_the_public_names() -> None:
    assert {"Tensor", "exp", "linalg", "float32"} <= set(dir(ef))


def _functions() -> Iterator[tuple[str, Any]]:
    """Public functions, and the public methods of public classes."""
    for name, value in public().items():
        members = {name: value} if inspect.isfunction(value) else {}
        if inspect.isclass(value):
            kept = {n: v for n, v in vars(value).items() if n[0] != "_" or n == "__init__"}
            members = {f"{name}.{n}": getattr(v, "__func__", v) for n, v in kept.items()}
        for path, function in members.items():
            if inspect.isfunction(function) and function.__module__.startswith("eagerflow"):
                yield path, function


def test_parameters_have_types() -> None:
    """Parameters of any type say ``object``; ``Any`` is for arguments that are handed on."""
    parameters = [
        (f"{name}({p.name})", p.annotation)
        for name, function in _functions()
        for p in inspect.signature(function).parameters.values()
        if p.name not in ("self", "cls")
    ]
    unknown = [name for name, kind in parameters if kind in (Any, "Any", inspect.Parameter.empty)]
    assert len(parameters) > 2000
    assert len(unknown) < 0.03 * len(parameters), unknown


def _has_an_example(name: str) -> None:
    text = inspect.getdoc(lookup(name)) or ""
    assert text, f"ef.{name} has no docstring"
    assert ">>> " in text, f"ef.{name} has no example"


def test_documented_with_an_example() -> None:
    names = public()
    assert len(names) > 500
    check_each(names, _has_an_example)


def test_each_name_for_libraries_is_on_their_page() -> None:
    page = (ROOT / "docs" / "extending.md").read_text()
    names = set(re.findall(r"\w+", page))
    assert sorted(set(ef.extending.__all__) - names) == []


def _methods(cls: type) -> Iterator[tuple[str, object]]:
    for name, value in inspect.getmembers_static(cls):
        if not name.startswith("_") and isinstance(
            value, types.FunctionType | property | classmethod | staticmethod
        ):
            yield name, value


def test_methods_are_documented() -> None:
    classes = {name: cls for name, cls in public().items() if inspect.isclass(cls)}
    assert [
        f"ef.{name}.{method}"
        for name, cls in classes.items()
        for method, _ in _methods(cls)
        if not inspect.getdoc(getattr(cls, method))
    ] == []


# --- the nearest name ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "right"), [("arrange", "arange"), ("Tensr", "Tensor"), ("concatenat", "concat")]
)
def test_unknown_name_tells_the_nearest(wrong: str, right: str) -> None:
    with pytest.raises(AttributeError, match=right):
        getattr(ef, wrong)


# --- types -----------------------------------------------------------------------------------

_STUB = ROOT / "eagerflow" / "__init__.pyi"


def _declared(path: Path) -> set[str]:
    """The names that a stub or a module binds at top level, star imports resolved."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name == "*":
                    names |= set(importlib.import_module(str(node.module)).__all__)
                else:
                    names.add(alias.asname or alias.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {n for n in names if not n.startswith("_")}


def test_the_stub_declares_what_there_is() -> None:
    declared = _declared(_STUB)
    there = {n for n in declared if hasattr(ef, n)}  # some are loaded on first access
    loaded = {n for n, v in vars(ef).items() if isinstance(v, types.ModuleType)}
    modules = loaded | set(ef._LIBRARIES)
    real = there | {n for n in vars(ef) if not n.startswith("_")} - modules
    assert real - declared == set(), "missing in __init__.pyi"
    assert declared - modules - real == set(), "in __init__.pyi, but not there"


def test_type_checkers_know_the_public_names(tmp_path: Path) -> None:
    user = tmp_path / "user.py"
    user.write_text(
        "from typing import assert_type\n"
        "import eagerflow as ef\n"
        "x = ef.tensor([1.0, 2.0], dtype=ef.float32)\n"
        "assert_type(x, ef.Tensor)\n"
        "assert_type(ef.exp(x), ef.Tensor)\n"
        "assert_type(x.sum(axis=0), ef.Tensor)\n"
        "assert_type(ef.linalg.inv(x), ef.Tensor)\n"
        "assert_type(ef.random.normal((2, 2)), ef.Tensor)\n"
        "assert_type(ef.nn.Linear(2, 2).weight, ef.Variable)\n"
        "ef.checkpoint.load, ef.data.Dataset, ef.optim.Adam, ef.trace, ef.grad\n"
        "ef.no_such_name\n"
    )
    run = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"),
           "--cache-dir", str(ROOT / ".mypy_cache"), str(user)]  # fmt: skip
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True)
    errors = [line for line in done.stdout.splitlines() if "user.py" in line and "error" in line]
    assert len(errors) == 1, done.stdout
    assert 'Module has no attribute "no_such_name"' in errors[0]
