"""The feed of a notebook, over Jupyter's own base class of comms, which sends nothing."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("anywidget")

import comm
import ipywidgets
from comm.base_comm import BaseComm

import eagerflow as ef
from eagerflow.views.live import LiveView
from eagerflow.views.panels import Panel
from eagerflow.watching import Watcher, shared
from eagerflow.watching.graph_columns import decode_structure
from eagerflow.watching.tables import TABLES, decode
from eagerflow_widgets import connecting, front_end
from eagerflow_widgets.connecting import Feed


class Line(BaseComm):
    """A comm that records the messages it would publish."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.published: list[tuple[str, Any, Any]] = []
        self._reply_subshell_for = "the shell that sent last"
        super().__init__(*given, **named)

    def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys) -> None:
        self.published.append((msg_type, data, buffers))

    def say(self, **content: Any) -> None:
        self.hear(content)

    def hear(self, content: Any) -> None:
        data = {"method": "custom", "content": content}
        self.handle_msg({"content": {"data": data}, "buffers": []})

    @property
    def custom(self) -> list[tuple[Any, bytes]]:
        """The messages sent other than the state of a widget."""
        return [
            (data["content"], buffers[0])
            for kind, data, buffers in self.published
            if kind == "comm_msg" and data.get("method") == "custom"
        ]


@pytest.fixture(autouse=True)
def _lines(monkeypatch) -> None:
    monkeypatch.setattr(comm, "create_comm", Line)
    monkeypatch.setattr(ipywidgets.widgets.widget.comm, "create_comm", Line)
    monkeypatch.setattr(front_end, "_feeds", [])
    monkeypatch.setattr(connecting, "asset", lambda name: f"the text of {name}")
    monkeypatch.setattr(front_end, "asset", lambda name: f"the text of {name}")


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    """A watcher without a thread: tests call its steps."""
    made = Watcher()
    made._run = lambda: None
    yield made
    assert not made.is_open


@pytest.fixture
def feed(watcher) -> Iterator[Feed]:
    made = Feed(watcher)
    yield made
    made.close()


def test_it_says_what_is_in_messages(feed) -> None:
    opened = feed.comm.published[0]
    assert opened[0] == "comm_open"
    state = opened[1]["state"]
    assert state["version"] == 1
    assert [name for name, *_ in state["tables"]] == [table.name for table in TABLES]
    assert feed.comm._reply_subshell_for is None


def test_what_runs_is_told_while_a_view_is_shown(feed, watcher) -> None:
    f = ef.trace(lambda x: ef.exp(x) + 1, name="f")
    f(ef.ones(2))
    assert not watcher.is_open
    feed.comm.say(shown="a")
    feed.comm.say(shown="b")
    assert watcher.is_open
    f(ef.ones(2))
    watcher.collect()
    watcher.tell(1.0)
    ((content, data),) = feed.comm.custom
    assert content == {"sequence": 1}
    assert decode(data).tables["steps"][0][1] == 1
    feed.comm.say(resync=True)
    watcher.tell(2.0)
    assert decode(feed.comm.custom[-1][1]).whole
    feed.comm.say(hidden="a")
    assert watcher.is_open
    feed.comm.say(hidden="b")
    assert not watcher.is_open
    told = len(feed.comm.custom)
    watcher.tell(3.0)
    assert len(feed.comm.custom) == told
    feed.comm.say(shown="a")
    watcher.tell(4.0)
    assert decode(feed.comm.custom[-1][1]).whole
    feed.comm.say(hidden="a")


def test_a_line_that_breaks_is_connected_anew_by_the_next_view(feed, watcher) -> None:
    feed.comm.say(shown="a")
    feed._connection.broken = "gone"
    feed.comm.say(shown="b")
    assert not feed._connection.broken
    assert watcher._depth == 1


@pytest.mark.parametrize(
    "content", [None, 3, {}, {"shown": 3}, {"asset": "../secret"}, {"look": "x"}, {"hidden": "x"}]
)
def test_it_may_be_told_anything(feed, content) -> None:
    feed.comm.hear(content)
    assert feed.comm.custom == []


def test_what_lays_graphs_out_is_sent_when_it_is_asked_for(feed) -> None:
    feed.comm.say(asset="layout")
    assert feed.comm.custom == [({"asset": "layout"}, b"the text of layout.js")]


def test_a_front_end_that_was_not_built_says_so(monkeypatch, tmp_path) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(connecting.resources, "files", lambda package: tmp_path)
    with pytest.raises(ImportError, match="make widgets"):
        connecting.asset.__wrapped__("index.js")


# --- views ------------------------------------------------------------------------------------


@pytest.fixture
def _kernel(monkeypatch) -> None:
    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel="one"))
    monkeypatch.setitem(front_end.sys.modules, "IPython", shell)


@pytest.mark.usefixtures("_kernel")
def test_a_view_has_what_it_shows() -> None:
    graph = ef.Graph.parse("graph small(%x: f32[2]) { %y = exp(%x) : f32[2] return %y }")
    view = front_end.open_view(LiveView("graph", "small", graph, (7,)))
    other = front_end.open_view(LiveView("dashboard"))
    (opened, *_) = view.comm.published
    state = opened[1]["state"]
    assert (state["kind"], state["executables"]) == ("graph", [7])
    assert state["_esm"] == "the text of index.js"
    assert decode_structure(view.structure)["graph"] == "small"
    assert state["feed"] == f"IPY_MODEL_{front_end.feed().model_id}"
    assert other.feed is view.feed
    (kind,) = view.mimebundle()
    assert kind == "application/vnd.jupyter.widget-view+json"
    for widget in (view, other, view.feed):
        widget.close()


@pytest.mark.usefixtures("_kernel")
def test_views_that_are_closed_leave_no_comm() -> None:
    feed = front_end.feed()
    before = dict(ipywidgets.widgets.widget._instances)
    for _ in range(100):
        front_end.open_view(LiveView("dashboard")).close()
    assert dict(ipywidgets.widgets.widget._instances) == before
    feed.close()


@pytest.mark.usefixtures("_kernel")
def test_a_view_that_cannot_be_opened_looks_at_nothing(monkeypatch) -> None:
    def missing(name: str) -> str:
        raise ImportError(name)

    before = list(shared.panels.rows(float("inf")))
    monkeypatch.setattr(front_end, "asset", missing)
    with pytest.raises(ImportError):
        front_end.open_view(LiveView("panel", probe=lambda: Panel("x")))
    assert list(shared.panels.rows(float("inf"))) == before


def test_without_a_kernel_there_is_no_view() -> None:
    assert front_end.open_view(LiveView("dashboard")) is None


def test_a_view_says_what_passes_did_to_its_graph() -> None:
    f = ef.trace(lambda x: ef.stop_gradient(x) * 1.0 + 2.0, name="f")
    f(ef.ones(2))
    graph = f.latest().optimised
    view = front_end.ViewWidget(graph, kind="graph", feed=front_end.feed())
    view.comm.say(passes=0)
    kind, data, buffers = view.comm.published[-1]
    stages = data["content"]["stages"]
    assert data["content"]["passes"] == 0
    assert len(buffers) == len(stages) + 1 > 1
    nodes = [decode_structure(b)["nodes"] for b in buffers]
    assert nodes[0] == len(graph.origin.graph.nodes)
    assert nodes[-1] == len(graph.nodes)
    view.comm.say(passes="all")  # any request
    assert view.comm.published[-1][0] == kind
    view.close()


def test_a_panel_is_looked_at_until_its_view_closes(monkeypatch) -> None:
    panels = front_end.shared.panels
    live = ef.show(ef.tensor([1.0, 3.0])).live
    view = front_end.ViewWidget(kind="panel", feed=front_end.feed(), panel=panels.add(live.probe))
    assert view.panel in panels._asked
    view.close()
    assert view.panel not in panels._asked


def test_a_widget_carries_at_most_200_kilobytes() -> None:
    static = resources.files("eagerflow_widgets") / "static"
    if not static.is_dir():
        pytest.skip("the front-end is not built: `make widgets`")
    sizes = [len((static / name).read_bytes()) for name in ("index.js", "index.css")]
    assert 10_000 < sum(sizes) <= 200_000
