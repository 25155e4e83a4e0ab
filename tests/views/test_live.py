"""Live views, opened through a front-end that tests play."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import SimpleNamespace

import pytest

import eagerflow as ef
from eagerflow.views import live
from eagerflow.views.live import LiveView

KIND = "application/x-moving"


class FakeFrontEnd:
    """Records the views that it opened, and the views that were closed."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.closed: list[str] = []

    def __call__(self, view: LiveView) -> SimpleNamespace:
        name = f"{view.kind} {view.title}".strip()
        self.opened.append(name)
        return SimpleNamespace(
            mimebundle=lambda: {KIND: name}, close=lambda: self.closed.append(name)
        )


@pytest.fixture
def front_end(monkeypatch) -> FakeFrontEnd:
    made = FakeFrontEnd()
    point = SimpleNamespace(load=lambda: made)
    monkeypatch.setattr(live, "_KERNELS", ("sys",))
    monkeypatch.setattr(live, "entry_points", lambda group: [point])
    return made


def test_a_notebook_gets_both_what_moves_and_what_stands_still(front_end) -> None:
    graph = ef.Graph.parse("graph small(%x: f32[2]) { %y = exp(%x) : f32[2] return %y }")
    view = ef.show(graph)
    assert front_end.opened == []
    bundle = view._repr_mimebundle_()
    assert bundle[KIND] == "graph small"
    assert {"text/plain", "text/html", "image/svg+xml"} < set(bundle)
    assert view._repr_mimebundle_()[KIND] == "graph small"
    assert front_end.opened == ["graph small"]
    view.close()
    view.close()
    assert front_end.closed == ["graph small"]


def test_a_function_a_queue_and_a_dashboard_move(front_end) -> None:
    f = ef.trace(lambda x: ef.exp(x), name="f")
    f(ef.ones(2))
    view = ef.show(f)
    assert view.live.executables == (f.latest().executable.number,)
    queue = ef.Queue(2, "f32[]", name="letters")
    assert ef.show(queue)._repr_mimebundle_()[KIND] == "queues letters"
    with ef.dashboard() as look:
        assert look._repr_mimebundle_()[KIND] == "dashboard"
    assert KIND not in look._repr_mimebundle_()
    assert "dashboard" in front_end.closed


def test_a_view_that_is_let_go_is_closed(front_end) -> None:
    view = LiveView("dashboard")
    view.mimebundle()
    del view
    gc.collect()
    assert front_end.closed == ["dashboard"]


def _missing() -> Callable[..., object]:
    raise ImportError("no module named anywidget")


def test_without_what_draws_there_are_texts_and_pictures(monkeypatch) -> None:
    monkeypatch.setattr(live, "_KERNELS", ("sys",))
    monkeypatch.setattr(live, "entry_points", lambda group: [SimpleNamespace(load=_missing)])
    assert LiveView("dashboard").mimebundle() == {}
    monkeypatch.setattr(live, "_KERNELS", ())
    monkeypatch.setattr(live, "entry_points", pytest.fail)
    assert LiveView("dashboard").mimebundle() == {}


def test_a_front_end_that_was_not_built_leaves_what_stands_still(monkeypatch) -> None:
    def opens(view: LiveView) -> None:
        raise ImportError("index.js of the front-end is not there: run `make widgets`")

    monkeypatch.setattr(live, "_KERNELS", ("sys",))
    monkeypatch.setattr(live, "entry_points", lambda g: [SimpleNamespace(load=lambda: opens)])
    view = ef.show(ef.tensor([[1.0, 2.0], [3.0, 4.0]]))
    with pytest.warns(UserWarning, match="views are not updated: .* run `make widgets`"):
        bundle = view._repr_mimebundle_()
    assert {"text/plain", "text/html", "image/svg+xml"} == set(bundle)
