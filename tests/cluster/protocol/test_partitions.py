"""Partitions from another process: the same graph, or an error with the reason for refusal."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.messages import Register
from eagerflow.cluster.protocol.partitions import read_partition, write_partition
from eagerflow.errors import EagerflowError, GraphError, ProtocolError, ResourceError
from eagerflow.graph import Graph
from eagerflow.resources.files import FILES
from tests.cluster.protocol.traffic import Training, find, registrations
from tests.exploring import examples

TRAINING = Training()


def arrived(graph: Graph, text: str | None = None) -> Graph:
    """The graph that another process reads, from another text if one is given."""
    message, frames = write_partition([graph], 1, 1, {})
    if text is not None:
        frames[0] = text.encode()
    told, rest = codec.read([bytes(frame) for frame in codec.write(message, frames)])
    assert isinstance(told, Register)
    with ef.config(cpu_devices=2):
        (read,) = read_partition(told, rest, find)
    return read


def read_text(text: str, resources: dict[str, tuple[str, str]] | None = None) -> Graph:
    (read,) = read_partition(Register(1, 1, {}, resources or {}, {}), [text.encode()], find)
    return read


@pytest.mark.parametrize("index", [0, 1])
def test_partitions_come_back(index: int) -> None:
    graph = TRAINING.graphs[index]
    again = arrived(graph)
    assert str(again) == str(graph)
    assert {k: id(r) for k, r in again.resources.items()} == {
        k: id(r) for k, r in graph.resources.items() if f"@{k}" in str(graph)
    }


def test_it_computes_the_same_bits() -> None:
    table = ef.random.normal((20, 3), generator=ef.random.Generator(1))
    w = ef.Variable(ef.ones((3,)))

    @ef.trace
    def f(x: ef.Tensor) -> ef.Tensor:
        return ef.exp(x @ table) * w + 1e-30

    x = ef.random.normal((7, 20), generator=ef.random.Generator(2))
    graph = f.graph(x)
    again = arrived(graph)
    feeds = dict(zip(again.inputs, (x, table), strict=True))
    got = again.run(again.outputs, feeds)[0].numpy()
    assert got.tobytes() == f(x).numpy().tobytes()


def test_the_second_registration_shares_nothing_with_the_first() -> None:
    one, two = arrived(TRAINING.graphs[1]), arrived(TRAINING.graphs[1])
    assert one is not two
    assert one.nodes[0] is not two.nodes[0]


# --- refused graphs ----------------------------------------------------------------------------


def _prints() -> Any:
    ef.print("x")


def _calls() -> Any:
    return ef.py_call(lambda: np.ones(2, np.float32), "f32[2]")


def _reads() -> Any:
    return ef.io.read_file("/etc/passwd")


def _writes() -> Any:
    ef.io.write_file("/tmp/x", b"x")


def _reads_records() -> Any:
    names = ef.Queue(4, "bytes[]")
    return ef.io.WholeFileReader(names).read()


@pytest.mark.parametrize("call", [_prints, _calls])
def test_functions_have_no_name_for_others(call: Callable[[], Any]) -> None:
    graph = ef.trace(call).graph()
    with pytest.raises(GraphError, match="cannot be used by another process"):
        write_partition([graph], 1, 1, {})


@pytest.mark.parametrize("call", [_reads, _writes])
def test_files_are_refused_unless_they_are_allowed(call: Callable[[], Any]) -> None:
    message, frames = write_partition([ef.trace(call).graph()], 1, 1, {})
    with pytest.raises(GraphError, match="may not run in a graph of another process"):
        read_partition(message, frames, lambda container, name: FILES)
    (graph,) = read_partition(message, frames, lambda container, name: FILES, allows=("files",))
    assert graph.nodes


#: nodes that a hostile client may send
NODES = {
    "print": '&a: print() {function=@q, resource=@q, template="x"}',
    "py_call": "%a = py_call() {function=@q, resource=@q} : f32[2]",
    "read_file": '%p = constant() {value=tensor(bytes[], ("/etc/passwd",))} : bytes[]\n'
    "%a = read_file(%p) {resource=@q} : bytes[]",
    "write_file": '%p = constant() {value=tensor(bytes[], ("x",))} : bytes[]\n'
    "&a: write_file(%p, %p) {resource=@q}",
    "reader_read": "%a.0, %a.1 = reader_read() {resource=@q} : bytes[], bytes[]",
    "snapshot": "%a = snapshot() {resource=@q} : f32[2]",
}


@pytest.mark.parametrize("op", NODES)
@pytest.mark.parametrize("known", [True, False])
def test_ops_that_reach_outside_are_refused(op: str, known: bool) -> None:
    text = f"graph f() {{\n{NODES[op]}\nreturn }}"
    place = TRAINING.losses.resource.identity
    resources = {"q": (place.container, place.name)} if known else {}
    with pytest.raises(
        GraphError, match=r"may not run in a graph of another|is not known|lacks the res"
    ):
        read_text(text, resources)


def test_they_are_refused_in_subgraphs_as_well() -> None:
    inner = f"graph g() {{\n{NODES['py_call']}\nreturn %a }}"
    with pytest.raises(GraphError, match="py_call may not run"):
        read_text(f"graph f() {{ %b = call() {{body={inner}}} : f32[2] return %b }}")


REFUSED = {
    "an op that is not there": ("%a = no_such_op() : f32[2]", "no_such_op"),
    "a resource that is not there": ("%a = read() {resource=@z} : f32[2]", "resource"),
    "a resource of another kind": ("%a = read() {resource=@q} : f32[2]", "lacks the resource"),
    "no resource": ("%a = read() : f32[2]", "lacks the resource"),
    "a number for a resource": ("%a = read() {resource=5} : f32[2]", "lacks the resource"),
    "an array that is not there": (
        "%a = constant() {value=tensor(f32[2], $zz)} : f32[2]", "'zz' is not known",
    ),
    "a type that is not that of the op": (
        "%a = constant() {value=1} : int\n%b = exp(%a) : f32[3]", "exp",
    ),
    "an attribute that the op does not have": (
        '%b = exp(%x) {__class__="x"} : f32[2]', "exp|__class__",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_said(case: str) -> None:
    node, match = REFUSED[case]
    place = TRAINING.losses.resource.identity
    with pytest.raises(GraphError, match=match):
        read_text(
            f"graph f(%x: f32[2]) {{\n{node}\nreturn }}", {"q": (place.container, place.name)}
        )


def test_names_of_resources_are_looked_up_and_nothing_else() -> None:
    asked = []

    def look(container: str, name: str) -> Any:
        asked.append((container, name))
        return None

    message = Register(1, 1, {}, {"w": ("__builtins__", "../../w.__class__")}, {})
    with pytest.raises(ResourceError, match=r"there is no '\.\./\.\./w\.__class__'"):
        read_partition(message, [b"graph f() { return }"], look)
    assert asked == [("__builtins__", "../../w.__class__")]


@pytest.mark.parametrize("frames", [[], [b"\xff\xfe"], [b"graph f() { return }", b"more"]])
def test_frames_that_do_not_fit(frames: list[bytes]) -> None:
    with pytest.raises(ProtocolError):
        read_partition(Register(1, 1, {}, {}, {}), frames, find)


HOSTILE = {
    "subgraphs": "graph f() { " + "&a: x() {b=graph g() { " * 400 + "return } return } " * 400,
    "tuples": "graph f() { &a: x() {b=" + "(" * 100_000 + ")" * 100_000 + "} return }",
    "sizes": "graph f(%x: f32[" + "*".join(f"(a{i}+b{i})" for i in range(40)) + "]) { return }",
    "powers": "graph f(%x: f32[" + "*".join(["9" * 4000] * 50) + "]) { return }",
    "maxima": "graph f(%x: f32[" + "max(n," * 5000 + "1" + ")" * 5000 + "]) { return }",
    "products": "graph f(%x: f32[" + "*".join(["max(a,b)"] * 2000) + "]) { return }",
    "axes": "graph f(%x: f32[" + ",".join(["1"] * 100_000) + "]) { return }",
    "elements": "graph f() { %a = constant() {value=tensor(f32[999999999999], ())} : f32[1] }",
    "digits": "graph f() { &a: x() {b=" + "9" * 100_000 + "} return }",
    "quotes": 'graph f() { &a: x() {b="' + '\\"' * 100_000,
    "scopes": 'graph f() { %a = constant() {value=1} : int in "' + "/" * 100_000 + '" return }',
    "devices": "graph f(%x: f32[2]@cpu:" + "9" * 1000 + ") { return }",
    "zeros": "graph f() { %a = zeros() {shape=(999999999999, 999999999)} : f32[1] return %a }",
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.timeout(20)
def test_hostile_texts_are_refused_quickly(case: str) -> None:
    length = 0
    try:
        read_text(HOSTILE[case])
    except EagerflowError as error:
        length = len(str(error))
    assert length < 100_000


TEXTS = [str(graph) for graph in TRAINING.graphs]
WORDS = sorted({word for text in TEXTS for word in re.findall(r"\w+|[^\w\s]", text)})
MORE = [
    "-1", "0", "9" * 30, "nan", "inf", "()", "None", "graph g() { return }", "@w", "bytes[]",
    "f32[n,n*m]", "py_call", "read", "Recv", "while_loop", "complex(1, 2)", "...", "\\", '"',
]  # fmt: skip


@st.composite
def texts(draw: Any) -> str:
    """The text of a partition with words replaced, removed, added or swapped."""
    words = re.split(r"(\w+|[^\w\s])", draw(st.sampled_from(TEXTS)))
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(words) - 1))
        how = draw(st.sampled_from(["other", "gone", "more", "move"]))
        if how == "gone":
            del words[at : at + draw(st.integers(1, 8))]
        elif how == "move":
            other = draw(st.integers(0, len(words) - 1))
            words[at], words[other] = words[other], words[at]
        else:
            word = draw(st.sampled_from([*WORDS, *MORE]))
            words[at : at + (how == "other")] = [word]
        words = words or [""]
    return "".join(words)


@settings(max_examples=examples(200))
@given(texts())
def test_texts_with_other_words_are_refused_or_taken(text: str) -> None:
    resources = {
        "w": ("default", TRAINING.w.resource.identity.name),
        "queue": ("default", TRAINING.losses.resource.identity.name),
    }
    try:
        graph = read_text(text, resources)
    except EagerflowError:
        return
    assert str(Graph.parse(str(graph), graph.resources)) == str(graph)


def test_registrations_of_a_step_name_their_state() -> None:
    named = {}
    for frames in registrations(TRAINING.graphs):
        message, _ = codec.read(frames)
        assert isinstance(message, Register)
        named |= message.resources
    assert sorted(named.values()) == sorted(
        ("default", x.resource.identity.name) for x in (TRAINING.w, TRAINING.losses)
    )
