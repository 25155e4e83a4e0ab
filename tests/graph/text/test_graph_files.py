"""Graph files: saved graphs are loaded, and damaged files are refused."""

from __future__ import annotations

import json
import os
import struct
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

import eagerflow as ef
from eagerflow.errors import GraphError, GraphFileError
from eagerflow.graph import Graph, Reference
from eagerflow.graph.text.graph_files import from_file_bytes, to_bytes
from eagerflow.graph.text.parser import parse_graph
from eagerflow.graph.verify import verify
from eagerflow.types import DTYPES
from tests.graph.graphs import RESOURCES, graphs

TEXT = """graph f(%x: f32[n,40]) {
  %w = constant() {value=tensor(f32[40], $big)} : f32[40]@cpu:0
  %b = constant() {value=tensor(f32[2], (0.1, -0.0))} : f32[2]@cpu:0
  %multiply = multiply(%x, %w) : f32[n,40] in "layer" # cell 3: x * w
  %read = read() {resource=@state} : f32[]
  return %multiply, %b, %read
}"""
STATE = object()
BIG = ef.tensor(np.arange(40, dtype="f4"))


def graph() -> Graph:
    return parse_graph(TEXT, {"state": STATE}, {"big": BIG})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "f.graph"
    graph().save(path)
    return path


def test_saved_is_loaded(file: Path) -> None:
    saved, loaded = graph(), Graph.load(file, {"state": STATE})
    assert str(loaded) == str(saved)
    assert loaded.nodes[0].attrs["value"].numpy().tobytes() == BIG.numpy().tobytes()
    assert loaded.nodes[3].attrs["resource"] is STATE
    assert os.listdir(file.parent) == ["f.graph"]


def test_without_its_resources_it_is_loaded_with_references(file: Path) -> None:
    loaded = Graph.load(str(file))
    assert isinstance(loaded.resources["state"], Reference)
    assert str(loaded) == str(graph())


@given(graphs(depth=1))
def test_any_graph(any_graph: Graph) -> None:
    data = to_bytes(any_graph)
    again = from_file_bytes(data, RESOURCES)
    assert to_bytes(again) == data


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("shape", [(7, 5), (2, 0, 9)])
def test_every_dtype(dtype: str, shape: tuple[int, ...]) -> None:
    made = Graph()
    value = (np.arange(np.prod(shape)) % 2).astype(DTYPES[dtype].dtype).reshape(shape)
    for order in (value, np.asfortranarray(value)):
        made.add_node("constant", (), (), {"value": ef.tensor(order)})
    graph = from_file_bytes(to_bytes(made))
    for node in graph.nodes:
        again = node.attrs["value"]
        assert again.dtype is DTYPES[dtype]
        assert again.shape == shape
        assert again.numpy().tobytes() == value.tobytes()


def test_equal_arrays_are_stored_once() -> None:
    made = Graph()
    for _ in range(5):
        made.add_node("constant", (), (), {"value": ef.ones(1000)})
    assert len(to_bytes(made)) < 2 * 4000


def test_it_is_a_safetensors_file(file: Path) -> None:
    with safe_open(file, framework="numpy") as opened:
        (name,) = opened.keys()
        np.testing.assert_array_equal(opened.get_tensor(name), BIG.numpy())
        assert opened.metadata()["format"] == "eagerflow graph"
        assert opened.metadata()["graph"] == str(graph()).replace("$big", f"${name}")


def test_saving_replaces_and_keeps_the_old_file_until_then(file: Path) -> None:
    before = file.read_bytes()
    broken = Graph()
    broken.add_node("py_call", (), (), {"function": len})
    with pytest.raises(GraphError, match="has no text form"):
        broken.save(file)
    assert file.read_bytes() == before
    Graph("g").save(file)
    assert Graph.load(file).name == "g"
    assert os.listdir(file.parent) == ["f.graph"]


def test_a_failed_write_leaves_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    before = file.read_bytes()
    with pytest.raises(OSError, match="no space left"):
        Graph("g").save(file)
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == ["f.graph"]


def test_paths_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Graph.load(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        Graph("g").save(tmp_path / "no" / "folder")


# --- damage ------------------------------------------------------------------------------------


def _refused(data: bytes, message: str) -> None:
    with pytest.raises(GraphFileError, match=message):
        from_file_bytes(data)


def test_truncated_anywhere() -> None:
    data = to_bytes(graph())
    for size in range(len(data)):
        _refused(data[:size], "truncated|is not a graph file")
    _refused(data[:5], "is truncated, or no graph file: it has 5 bytes")
    _refused(data[:100], "is truncated: it has 100 bytes, its header alone")
    _refused(data[:-1], f"is truncated: it has {len(data) - 1} bytes of {len(data)}")


@given(st.data())
def test_bits_flipped_anywhere(data: st.DataObject) -> None:
    content = bytearray(to_bytes(graph()))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    _refused(bytes(content), "damaged|truncated|is not a graph file|has format")


def test_flipped_data() -> None:
    content = bytearray(to_bytes(graph()))
    content[-1] ^= 1
    _refused(bytes(content), "is damaged: its checksum does not match")
    _refused(bytes(content[:-1]) + b"\0\0\0", "is damaged: its checksum does not match")


def _with_header(header: Any) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it has 0 bytes"),
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "is not a graph file"),
        (b"\x80\x04\x95" + bytes(50), "is not a graph file"),
        (struct.pack("<Q", 3) + b"{a}", "is damaged: its header cannot be read"),
        (struct.pack("<Q", 10**15) + b"{}", "is truncated"),
        (_with_header({}), "is not a graph file"),
        (_with_header({"__metadata__": {"format": "pt"}}), "is not a graph file"),
        (_with_header({"__metadata__": {"format": "eagerflow graph"}}), "says no version"),
        (
            _with_header({"__metadata__": {"format": "eagerflow graph", "version": "3"}}),
            "(?s)has format 3, this eagerflow reads up to 2.*hint: install a newer eagerflow",
        ),
        (
            _with_header({"__metadata__": {"format": "eagerflow graph", "version": "1"}}),
            "its checksum does not match",
        ),
        (
            _with_header(
                {"__metadata__": {"format": "eagerflow graph", "version": "1"}, "a": {"dtype": 1}}
            ),
            "its checksum does not match",
        ),
    ],
)
def test_foreign_and_newer(data: bytes, message: str) -> None:
    _refused(data, message)


def _sealed(metadata: dict[str, str], **entries: Any) -> bytes:
    """The bytes of a file with a right checksum and any content."""
    zeros = "0" * 64
    made = {"format": "eagerflow graph", "version": "1", "checksum": zeros, **metadata}
    data = _with_header({"__metadata__": made, **entries})
    return data.replace(zeros.encode(), sha256(data).hexdigest().encode())


@pytest.mark.parametrize(
    "data",
    [
        _sealed({}),
        _sealed({"graph": "graph ("}),
        _sealed({"graph": "graph () { return }"}, a=5),
        _sealed({"graph": "graph () { return }"}, a={"data_offsets": [1]}),
        _sealed(
            {"graph": "graph () { &c: c() {v=tensor(f32[9], $a)} return }"},
            a={"data_offsets": [0, 0]},
        ),
    ],
)
def test_wrong_content_with_a_right_checksum(data: bytes) -> None:
    _refused(data, "holds no graph")


def test_the_error_names_the_file(file: Path) -> None:
    file.write_bytes(b"hello, world")
    with pytest.raises(GraphFileError, match=r"f\.graph is not a graph file"):
        Graph.load(file)


# --- older formats ----------------------------------------------------------------------------


def _of_format_1(text: str) -> bytes:
    return _sealed({"graph": text, "version": "1"})


def test_format_1_gets_its_transfers() -> None:
    """In format 1 operands could be on any device; ``on`` wins over the device behind a type."""
    text = """graph f(%x: f32[2]@cpu:0) {
      %a = exp(%x) : f32[2]@cpu:0 on "null:1" because "asked for"
      %b = add(%a, %x) : f32[2]@cpu:0
      %c = call(%b) {body=graph (%y: f32[2]@cpu:0) {
        %d = sin(%y) : f32[2] on "null:1"
        return %d }} : f32[2]@null:1
      return %a, %b, %c
    }"""
    with pytest.warns(UserWarning, match="the data has format 1.*: 3 transfers added") as seen:
        graph = from_file_bytes(_of_format_1(text))
    assert len(seen) == 1
    verify(graph)
    assert [str(v.device) for v in graph.outputs] == ["null:1", "cpu:0", "null:1"]
    moves = [n for n in graph.nodes if n.op == "transfer"]
    assert [(str(n.inputs[0]), str(n.outputs[0].device)) for n in moves] == [
        ("%x: f32[2]@cpu:0", "null:1"),
        ("%a: f32[2]@null:1", "cpu:0"),
    ]
    assert str(from_file_bytes(to_bytes(graph))) == str(graph)  # without a warning, which raises


PLACED_INSIDE = {
    "a branch": """%p = isfinite(%x) : bool[]@cpu:0
      %y = cond(%p, %x) {branches=(
        graph (%a: f32[]@cpu:0) { %b = exp(%a) : f32[] on "cpu:1" return %b },
        graph (%a: f32[]@cpu:0) { %b = sin(%a) : f32[]@cpu:0 return %b })} : f32[]""",
    "the other branch": """%p = isfinite(%x) : bool[]@cpu:0
      %y = cond(%p, %x) {branches=(
        graph (%a: f32[]@cpu:0) { return %a },
        graph (%a: f32[]@cpu:0) { %b = sin(%a) : f32[] on "cpu:1" return %b })} : f32[]@cpu:0""",
    "a loop": """%y = while_loop(%x) {
        cond=graph (%a: f32[]@cpu:0) {
          %c = constant() {value=tensor(f32[], (0.9,))} : f32[]@cpu:0
          %p = less(%a, %c) : bool[] on "cpu:1"
          return %p },
        body=graph (%a: f32[]@cpu:0) { %b = exp(%a) : f32[] on "cpu:1" return %b }}
        : f32[]@cpu:0 on "cpu:1" """,
    "a scan": """%xs = broadcast_to(%x) {shape=(3,)} : f32[3]@cpu:0
      %s.0, %s.1 = scan(%x, %xs) {carry=1, length=3, body=graph (%a: f32[]@cpu:0, %b: f32[]@cpu:0) {
        %c = add(%a, %b) : f32[] on "cpu:1"
        return %c, %c }} : f32[]@cpu:0, f32[3]
      %t = sum(%s.1) {axis=(0,), keepdims=False} : f32[]@cpu:0
      %y = add(%s.0, %t) : f32[]@cpu:0""",
    "a call": """%y = call(%x) {body=graph (%a: f32[]@cpu:0) {
        %b = exp(%a) : f32[] on "cpu:1"
        return %b }} : f32[]@cpu:0""",
}


@pytest.mark.parametrize("name", PLACED_INSIDE)
def test_format_1_with_placed_nodes_in_subgraphs(name: str) -> None:
    with ef.config(cpu_devices=2):
        nodes = PLACED_INSIDE[name]
        text = f"graph f(%x: f32[]@cpu:0) {{\n{nodes}\nreturn %y }}"
        with pytest.warns(UserWarning, match="the data has format 1.*added") as seen:
            graph = from_file_bytes(_of_format_1(text))
        assert len(seen) == 1
        verify(graph)
        assert str(from_file_bytes(to_bytes(graph))) == str(graph)
        alone = Graph.parse(text.replace(' on "cpu:1"', "").replace("cpu:1", "cpu:0"))
        x = ef.tensor(0.5)
        (got,), (want,) = (g.run(g.outputs, {"x": x}) for g in (graph, alone))
        assert got.item() == want.item()


def test_format_1_without_devices_is_read_as_it_is() -> None:
    text = "graph f(%x: f32[n]) {\n  %y = exp(%x) : f32[n]\n  return %y\n}"
    assert str(from_file_bytes(_of_format_1(text))) == text
