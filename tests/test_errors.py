"""Error messages of user mistakes: class, text, and the user's own line."""

from __future__ import annotations

import doctest
import linecache
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from types import SimpleNamespace

import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.core.op import define
from eagerflow.source import Source

V = ef.asarray([1.0, 2.0, 3.0])


def shape() -> None:
    V + ef.asarray([1.0, 2.0])  # <- line


def matmul_shape() -> None:
    ef.matmul(ef.ones((2, 3)), ef.ones((2, 3)))  # <- line


def reshape_size() -> None:
    V.reshape(2, 2)  # <- line


def in_place_shape() -> None:
    x = ef.asarray([1.0])
    x += V  # <- line


def dtype() -> None:
    V & V  # <- line


def unknown_dtype() -> None:
    ef.zeros(3, dtype="float33")  # <- line


def no_common_dtype() -> None:
    ef.asarray([1]) + ef.asarray([1], dtype=ef.uint64)  # <- line


def too_large_int() -> None:
    ef.asarray([1], dtype=ef.int8) + 300  # <- line


def axis() -> None:
    ef.sum(V, axis=1)  # <- line


def index() -> None:
    _ = V[3]  # <- line


def index_kind() -> None:
    _ = V[1.5]  # <- line


def mixed_devices() -> None:
    with ef.config(cpu_devices=2):
        V + ef.asarray([1.0, 2.0, 3.0], device="cpu:1")  # <- line


def integer_gradient() -> None:
    ef.grad(lambda x: x.sum())(ef.asarray([1, 2]))  # <- line


def vector_gradient() -> None:
    ef.grad(lambda x: x * 2)(V)  # <- line


def non_differentiable_path() -> None:
    ef.grad(lambda x: ef.argmax(x).astype(ef.float32))(V)  # <- line


def missing_gradient() -> None:
    define("op_without_gradient", infer=lambda x: x)  # <- line


def unknown_name() -> None:
    ef.arrange(3)  # <- line


def unhashable() -> None:
    _ = {V: 1}  # <- line


def device_name() -> None:
    ef.device("cpu:x")  # <- line


def device_missing() -> None:
    ef.zeros(2, device="cpu:7")  # <- line


def nan_check() -> None:
    with ef.config(check_nan=True):
        ef.log(ef.asarray([-1.0]))  # <- line


def truth_value() -> None:
    if V > 1:  # <- line
        pass


def singular() -> None:
    ef.linalg.inv(ef.zeros((2, 2)))  # <- line


TABLE: list[tuple[Callable[[], None], type[Exception], type[Exception], list[str]]] = [
    (
        shape,
        errors.ShapeError,
        ValueError,
        ["add: shapes cannot be broadcast together", "f32[3]@cpu:0", "f32[2]@cpu:0"],
    ),
    (
        matmul_shape,
        errors.ShapeError,
        ValueError,
        ["matmul: inner dimensions differ (3 and 2)", "f32[2,3]@cpu:0"],
    ),
    (reshape_size, errors.ShapeError, ValueError, ["reshape", "(2, 2)", "f32[3]@cpu:0"]),
    (
        in_place_shape,
        errors.ShapeError,
        ValueError,
        ["cannot change the shape", "f32[1]@cpu:0", "x = x + y"],
    ),
    (dtype, errors.DTypeError, TypeError, ["bitwise_and: no rule for f32", "x1=f32[3]@cpu:0"]),
    (unknown_dtype, errors.DTypeError, TypeError, ["'float33'", "float32"]),
    (no_common_dtype, errors.DTypeError, TypeError, ["int64 and uint64", ".astype("]),
    (too_large_int, errors.TensorValueError, ValueError, ["300", "int8", "-128 to 127"]),
    (
        axis,
        errors.AxisError,
        IndexError,
        ["sum: axis 1 is out of range", "-1 to 0", "f32[3]@cpu:0"],
    ),
    (
        index,
        errors.TensorIndexError,
        IndexError,
        ["index 3 is out of range for axis 0 with size 3"],
    ),
    (index_kind, errors.TensorIndexError, IndexError, ["1.5"]),
    (
        mixed_devices,
        errors.DeviceError,
        ValueError,
        ["different devices", "@cpu:0", "@cpu:1", ".to("],
    ),
    (
        integer_gradient,
        errors.GradientError,
        TypeError,
        ["argument 0 has an integer dtype", "i64[2]@cpu:0"],
    ),
    (vector_gradient, errors.GradientError, TypeError, ["scalar", "f32[3]@cpu:0"]),
    (non_differentiable_path, errors.GradientError, TypeError, ["argmax"]),
    (
        missing_gradient,
        errors.OpDefinitionError,
        TypeError,
        ["op_without_gradient", "nondifferentiable=True"],
    ),
    (
        unknown_name,
        errors.UnknownNameError,
        AttributeError,
        ["'arrange'", "did you mean 'arange'?"],
    ),
    (unhashable, errors.UnhashableError, TypeError, ["not hashable", "id(x)"]),
    (device_name, errors.DeviceError, ValueError, ["'cpu:x' is not a device name", "cpu:0"]),
    (device_missing, errors.DeviceError, ValueError, ["cpu:7", "ef.config(cpu_devices=n)"]),
    (nan_check, errors.NonFiniteError, FloatingPointError, ["log", "f32[1]@cpu:0"]),
    (
        truth_value,
        errors.TensorValueError,
        ValueError,
        ["bool() of a tensor with 3 elements", ".any()"],
    ),
    (singular, errors.TensorValueError, ValueError, ["inv", "singular", "f32[2,2]@cpu:0"]),
]


@pytest.mark.filterwarnings("ignore:.*encountered in.*:RuntimeWarning")
@pytest.mark.parametrize(
    ("wrong", "kind", "builtin", "words"), TABLE, ids=lambda v: getattr(v, "__name__", None)
)
def test_error(wrong, kind, builtin, words) -> None:
    with pytest.raises(errors.EagerflowError) as caught:
        wrong()
    error = caught.value
    assert type(error) is kind
    assert isinstance(error, builtin)
    for word in words:
        assert word in str(error), str(error)
    assert error.source is not None
    assert error.source.file == __file__
    assert "<- line" in linecache.getline(error.source.file, error.source.line)
    assert f"test_errors.py:{error.source.line}" in str(error)
    assert len(str(error).splitlines()) <= 6


def test_nothing_is_lost_by_an_error() -> None:
    x = ef.asarray([1.0, 2.0])
    with pytest.raises(errors.ShapeError):
        x += ef.ones((2, 2))
    with pytest.raises(errors.EagerflowError):
        x[5] = 1.0
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("kind", [k for k in vars(errors).values() if isinstance(k, type)
                                  and issubclass(k, errors.EagerflowError)])  # fmt: skip
def test_every_error_can_be_pickled(kind: type[errors.EagerflowError]) -> None:
    error = pickle.loads(pickle.dumps(kind("something is wrong", given="this", hint="do that")))
    assert type(error) is kind
    assert (error.wrong, error.given, error.hint) == ("something is wrong", "this", "do that")
    assert "do that" in str(error)


def test_every_class_is_a_builtin_as_well() -> None:
    for name in errors.__all__:
        member = getattr(errors, name)
        if isinstance(member, type) and issubclass(member, Warning):
            continue
        if isinstance(member, type) and member is not errors.EagerflowError:
            assert issubclass(member, errors.EagerflowError)
            others = [c for c in member.__mro__ if c.__module__ == "builtins"]
            assert any(c not in (Exception, BaseException, object) for c in others), name


def test_tracebacks_in_notebooks_name_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    file = "/tmp/ipykernel_1/2.py"
    shell = SimpleNamespace(compile=SimpleNamespace(_filename_map={file: 4}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    code = compile("\nef.ones(2) + ef.ones(3)", file, "exec")
    with pytest.raises(errors.ShapeError) as caught:
        exec(code, {"__name__": "__main__", "ef": ef})
    lines = caught.value._render_traceback_()
    assert '  File "Cell In[4]", line 2, in <module>' in lines
    assert file not in "".join(lines)


def test_traceback_refuses_other_modes() -> None:
    with pytest.raises(ValueError, match="'long' is not a mode"):
        ef.traceback("long")


IPYTHON = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="nocolor")
shell.run_cell("import eagerflow as ef")
shell.run_cell("def f(x):\\n    return x @ x  # the bad line")
shell.run_cell({setup!r})
shell.run_cell({cell!r})
"""


def _ipython(setup: str = "pass", cell: str = "y = f(ef.ones((2, 3)))") -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(IPYTHON.format(setup=setup, cell=cell))],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_a_notebook_shows_the_users_frames_only() -> None:
    shown = _ipython()
    assert "return x @ x  # the bad line" in shown
    assert "matmul: inner dimensions differ" in shown
    assert "eagerflow/core" not in shown
    assert len(shown.splitlines()) <= 25


def test_a_notebook_shows_the_users_frames_only_within_a_gradient() -> None:
    shown = _ipython("loss = lambda x: f(x).sum()", cell="ef.grad(loss)(ef.ones((2, 3)))")
    assert "loss = lambda x" in shown
    assert "matmul: inner dimensions differ" in shown
    assert "eagerflow/" not in shown


def test_an_error_of_the_users_own_shows_no_frame_of_eagerflow() -> None:
    setup = "def g(x):\n    raise KeyError('mine')"
    shown = _ipython(setup, cell="ef.grad(g)(ef.ones(3))")
    assert "raise KeyError('mine')" in shown
    assert "eagerflow/" not in shown


def test_ctrl_c_in_an_op_that_waits_shows_no_frame_of_eagerflow() -> None:
    setup = "import os, signal, threading\nqueue = ef.Queue(1, ef.tensor(0))"
    wait = "threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()\nqueue.dequeue()"
    shown = _ipython(setup, cell=wait)
    assert "KeyboardInterrupt" in shown
    assert "queue.dequeue()" in shown
    assert "eagerflow/" not in shown


def test_full_tracebacks_show_all_frames() -> None:
    shown = _ipython('ef.traceback("full")')
    assert "return x @ x  # the bad line" in shown
    assert "eagerflow/core" in shown


def test_the_classes_document_themselves() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = {t.name: len(t.examples) for t in finder.find(errors, "errors")}
    for name in ("ShapeError", "AxisError", "DTypeError", "TensorIndexError", "GradientError"):
        assert examples.get(f"errors.{name}"), name


@pytest.mark.parametrize("name", [n for n in errors.__all__ if n.endswith(("Error", "Lost"))])
def test_an_error_goes_to_another_process_whole(name: str) -> None:
    kind = getattr(errors, name)
    error = kind("too much", given="all", expected="less", hint="take less")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)


def test_a_long_line_is_cut_around_the_expression() -> None:
    before = "ef.exp(x), " * 30
    for text in (f"[{before}x @ y, {before}]", f"[x @ y, {before}]", f"[{before}x @ y]"):
        code = compile(text, "<long>", "eval")
        linecache.cache["<long>"] = (len(text), None, [text], "<long>")
        with pytest.raises(errors.ShapeError) as caught:
            eval(code, {"ef": ef, "x": ef.ones((2, 3)), "y": ef.ones((2, 3))})
        shown = str(caught.value).partition("at: <long>:1: ")[2]
        assert "x @ y" in shown
        assert 90 < len(shown) <= 102
        assert shown.startswith("…") == (not text.startswith("[x"))
        assert shown.endswith("…") == (not text.endswith("y]"))
    source = caught.value.source
    assert isinstance(source, Source)
    assert source.text == text
