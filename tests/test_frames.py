"""Tracebacks of errors in user code: the user's own frames only, whatever the entry point."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import hide_frames
from eagerflow.source import is_framework_frame
from tests.messages import says

X = ef.ones((3, 4))


def _failing(*_: Any) -> Any:
    raise KeyError("mine")


def _looking_up(*_: Any) -> Any:
    """Fails without a `raise`, which would be refused in a body that is traced."""
    return {}["mine"]


class Net(ef.nn.Module):
    def __init__(self) -> None:
        self.layer = ef.nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return _failing(self.layer(x))


class Outer(ef.nn.Module):
    def __init__(self) -> None:
        self.nets = ef.nn.Sequential(ef.nn.Linear(4, 4), Net())

    def forward(self, x: Any) -> Any:
        return self.nets(x)


def _rows() -> Iterator[Any]:
    yield 1
    raise KeyError("mine")


def _dataset(function: Callable[[Any], Any] = _failing) -> Any:
    return ef.data.Dataset.from_tensors(X).map(function)


def _with_custom_rule() -> Any:
    @ef.custom_vjp
    def twice(x: Any) -> Any:
        return x * 2

    twice.defvjp(lambda x: (x * 2, x), _failing)
    return ef.grad(lambda x: twice(x).sum())(X)


def _loss(net: Any) -> Any:
    return lambda x: net(x).sum()


def _sgd(**options: Any) -> Any:
    return ef.optim.SGD([ef.Variable([1.0])], **options)


ENTRIES: dict[str, Callable[[], Any]] = {
    "module": lambda: Net()(X),
    "modules": lambda: Outer()(X),
    "summary": lambda: Outer().summary(X),
    "traced": lambda: ef.trace(Outer())(X),
    "graph": lambda: ef.trace(Outer()).graph(X),
    "grad": lambda: ef.grad(_loss(Outer()))(X),
    "value_and_grad": lambda: (lambda net: ef.value_and_grad(_loss(net), wrt=net.trainable)(X))(
        Outer()
    ),
    "traced step": lambda: ef.trace(lambda x: ef.value_and_grad(_loss(Outer()))(x))(X),
    "vjp": lambda: ef.vjp(Net(), X),
    "jvp": lambda: ef.jvp(Net(), (X,), (X,)),
    "jacobian": lambda: ef.jacobian(Net())(X),
    "hessian": lambda: ef.hessian(_loss(Net()))(X),
    "remat": lambda: ef.grad(lambda x: ef.remat(Net())(x).sum())(X),
    "custom_vjp": _with_custom_rule,
    "check_grads": lambda: ef.check_grads(_failing, (X,)),
    "cond": lambda: ef.cond(ef.tensor(True), _failing, _failing, X),
    "switch": lambda: ef.switch(ef.tensor(0), [_failing, _failing], X),
    "while_loop": lambda: ef.while_loop(_failing, _failing, X),
    "scan": lambda: ef.scan(_failing, X, X),
    "map over rows": lambda: ef.map(_failing, X),
    "traced scan": lambda: ef.trace(lambda x: ef.scan(_looking_up, x, x))(X),
    "map": lambda: list(_dataset()),
    "map in a batch": lambda: list(_dataset().shuffle(2, seed=0).batch(2)),
    "filter": lambda: list(ef.data.Dataset.from_tensors(X).filter(_failing)),
    "iterable": lambda: list(ef.data.Dataset.from_iterable(_rows)),
    "py_call": lambda: ef.py_call(_failing, "f32[3,4]", X),
    "traced py_call": lambda: ef.trace(lambda x: ef.py_call(_failing, "f32[3,4]", x))(X),
    "schedule": lambda: _sgd(lr=_failing).update([ef.ones(1)]),
}


def _files(error: BaseException) -> list[str]:
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("entry", list(ENTRIES))
def test_only_the_users_frames_are_shown(entry: str) -> None:
    with pytest.raises(KeyError, match="mine") as caught:
        ENTRIES[entry]()
    assert set(_files(caught.value)) == {__file__}
    assert len(_files(caught.value)) >= 3  # the test, the entry point, and `_failing`


@pytest.mark.parametrize(
    "call",
    [
        lambda: ef.nn.Linear(5, 2)(X),
        lambda: ef.nn.Linear(4, 2)(),
        lambda: ef.optim.SGD([ef.Variable([1.0])], lr=0.1).update([ef.ones(3)]),
        lambda: list(ef.data.Dataset.from_iterable([ef.ones(2), ef.ones(3)]).batch(2)),
        lambda: ef.checkpoint.load("nowhere"),
        lambda: ef.checkpoint.save("nowhere", object()),
        lambda: ef.nn.functional.cross_entropy(X, ef.ones((2, 4))),
    ],
)
def test_so_are_they_of_errors_of_eagerflow(call: Callable[[], Any]) -> None:
    words = r"Linear|update|batch|nowhere|cannot be saved|cross_entropy"
    with pytest.raises(Exception, check=says(words)) as caught:
        call()
    assert _files(caught.value) == [__file__] * 2


_OPERATORS = ["x + y", "y - x", "[1.0, 2.0] * x", "x @ x", "x < y", "-b", "x[7]", "x[y]", "v + y",
              "x.T ** v", "exec('x += y')", "exec('x[0] = y')"]  # fmt: skip


@pytest.mark.parametrize("tape", [False, True])
@pytest.mark.parametrize("text", _OPERATORS)
def test_so_are_they_of_operators(text: str, tape: bool) -> None:
    names = {"x": ef.ones((3, 4)), "y": ef.ones((2, 5)), "b": ef.tensor([True])}
    names["v"] = ef.Variable(ef.ones((3, 4)))
    for _ in range(2):  # the first call finds the kernel
        with pytest.raises(ef.errors.EagerflowError) as caught:
            eval(text, names) if not tape else ef.grad(lambda x: eval(text, names))(X)
        assert set(_files(caught.value)) == {__file__, "<string>"}


def test_functions_show_themselves_and_nothing_below() -> None:
    """Their own frame stays, as a wrapper around each function would make every op slower."""
    with pytest.raises(ef.errors.ShapeError) as caught:
        ef.add(X, ef.ones(7))
    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)][1:] == ["add"]


def test_of_a_manager_too(tmp_path: Path) -> None:
    manager = ef.checkpoint.Manager(tmp_path)
    with pytest.raises(ef.errors.CheckpointError, match="cannot be saved") as caught:
        manager.save(0, object())
    assert set(_files(caught.value)) == {__file__}
    with pytest.raises(ef.errors.CheckpointError, match="no checkpoint of step 3") as caught:
        manager.restore(step=3)
    assert set(_files(caught.value)) == {__file__}


@pytest.mark.parametrize("entry", ["module", "value_and_grad", "traced", "map"])
def test_an_interrupt_shows_where_the_user_was(entry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(sys.modules[__name__], "_failing", interrupted)
    calls = {**ENTRIES, "map": lambda: list(_dataset(interrupted))}
    with pytest.raises(KeyboardInterrupt) as caught:
        calls[entry]()
    assert set(_files(caught.value)) == {__file__}


def test_a_deep_recursion_stays_one_error() -> None:
    class Endless(ef.nn.Module):
        def forward(self, x: Any) -> Any:
            return self(x)

    with pytest.raises(RecursionError) as caught:
        Endless()(X)
    assert set(_files(caught.value)) == {__file__}


def test_all_frames_are_shown_to_who_asks_for_them() -> None:
    ef.traceback("full")
    try:
        with pytest.raises(KeyError) as caught:
            Net()(X)
    finally:
        ef.traceback("short")
    assert any(file.endswith("module.py") for file in _files(caught.value))


def test_where_no_frame_is_the_users_none_is_shown() -> None:
    error = KeyError()
    hide_frames(error)
    assert error.__traceback__ is None


_SCRIPT = """
    import eagerflow as ef

    class Net(ef.nn.Module):
        def __init__(self):
            self.layer = ef.nn.Linear(4, 2)

        def forward(self, x):
            return self.layer(x) + missing

    net = Net()
    step = {step}
    step(ef.ones((3, 4)))
"""
_STEPS = {
    "eager": "net",
    "traced": "ef.trace(lambda x: ef.value_and_grad(net, wrt=net.trainable)(x))",
    "summary": "net.summary",
}


@pytest.mark.parametrize("step", list(_STEPS))
def test_in_a_script(step: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(_SCRIPT.format(step=_STEPS[step])))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("  File")]
    assert all(f'"{script}"' in line for line in lines), done.stderr
    assert lines[-1].endswith("in forward")
    assert "NameError: name 'missing' is not defined" in done.stderr


_WRONG = """
    import eagerflow as ef
    {before}
    def f(x):
        return x.reshape((3, -1))

    try:
        f(ef.ones(4))
    except ValueError as error:
        {then}
"""


@pytest.mark.parametrize(
    "then", ["raise", "raise KeyError('mine') from error", "raise KeyError(1)"]
)
def test_a_script_shows_no_frames_of_eager_ops(then: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    for before in ("", "ef.traceback('full')"):
        script.write_text(textwrap.dedent(_WRONG.format(before=before, then=then)))
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
        assert "reshape: 4 elements do not fill the shape (3, -1)" in done.stderr
        assert ("tensor_methods.py" in done.stderr) == bool(before), done.stderr
        assert "return x.reshape((3, -1))" in done.stderr


def test_a_mistake_of_eagerflow_keeps_its_frames(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import eagerflow as ef\n"
        "from eagerflow.core import tensor_methods\n"
        "tensor_methods.functions['reshape'] = lambda *args: len(3)\n"
        "tensor_methods.functions['reshape'].__code__ = (\n"
        "    lambda *args: len(3)).__code__.replace(co_filename=tensor_methods.__file__)\n"
        "ef.ones(4).reshape((2, 2))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert "tensor_methods.py" in done.stderr
    assert "object of type 'int' has no len()" in done.stderr


_CELLS = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="nocolor")
shell.run_cell({setup!r})
shell.run_cell("step(ef.ones((3, 4)))")
"""


@pytest.mark.parametrize("step", list(_STEPS))
def test_in_a_notebook(step: str) -> None:
    setup = textwrap.dedent(_SCRIPT.format(step=_STEPS[step])).replace("\nstep(ef.ones", "\n#")
    program = _CELLS.format(setup=setup)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "return self.layer(x) + missing" in done.stdout
    assert "NameError" in done.stdout
    assert "eagerflow/" not in done.stdout


def test_code_without_a_file_is_told_apart_by_its_module() -> None:
    """Our dataclasses have methods in ``<string>``, and so has user code run by `exec`."""
    text = "import sys\ndef frame(): return sys._getframe()"
    ours: dict[str, Any] = {"__name__": "eagerflow.made"}
    mine: dict[str, Any] = {"__name__": "__main__"}
    for names in (ours, mine):
        exec(text, names)
    for _ in range(2):
        assert is_framework_frame(ours["frame"]())
        assert not is_framework_frame(mine["frame"]())


_THREAD = """
    import threading
    import eagerflow as ef
    {before}
    def f(x):
        return {result}

    thread = threading.Thread(target=f, args=(ef.ones(4),), name="feeder")
    thread.start()
    thread.join()
"""


@pytest.mark.parametrize("result", ["x.reshape((3, -1))", "ef.sum(x, dim=0)"])
def test_a_thread_shows_no_frames_of_eager_ops(result: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    for before in ("", "ef.traceback('full')"):
        script.write_text(textwrap.dedent(_THREAD.format(before=before, result=result)))
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
        lines = [line for line in done.stderr.splitlines() if line.startswith("  File")]
        assert all(f'"{script}"' in line for line in lines) != bool(before), done.stderr
        assert "Exception in thread feeder" in done.stderr
        assert lines[-1].endswith("in f") or before
        assert "axis= instead" in done.stderr or "do not fill the shape" in done.stderr


def test_a_hook_for_threads_that_others_have_set_stays() -> None:
    program = """
        import threading
        threading.excepthook = hook = lambda args: None
        import eagerflow
        assert threading.excepthook is hook
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
