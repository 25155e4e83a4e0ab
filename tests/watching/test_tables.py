from __future__ import annotations

import struct

import pytest

import eagerflow as ef
from eagerflow.watching.graph_columns import NodeIndex, decode_structure, encode_structure, pieces
from eagerflow.watching.tables import TABLES, decode, encode
from tests.messages import says


def value_of(kind: str, number: int):
    if kind == "text":
        return "τ" * number
    return bytes(range(number)) if kind == "bytes" else number + (0.5 if kind[0] == "f" else 0)


def test_each_table_comes_back() -> None:
    tables = {
        schema.name: [tuple(value_of(kind, i) for _, kind in schema.columns) for i in range(5)]
        for schema in TABLES
    }
    message = decode(encode(7, 12.5, tables, whole=True))
    assert (message.sequence, message.time, message.whole) == (7, 12.5, True)
    assert message.tables == tables


def test_the_first_bytes_are_as_stated() -> None:
    """The bytes that the front-end reads, written out by hand."""
    data = encode(3, 1.0, {"names": [(5, "ab")]})
    head = struct.pack("<IIIId", 0x31464645, 0, 3, 1, 1.0)
    table = (
        struct.pack("<II", 0, 1)
        + struct.pack("<I4x", 5)
        + struct.pack("<I4x", 2)
        + b"ab"
        + bytes(6)
    )
    assert data == head + table


@pytest.mark.parametrize("data", [b"", b"EFF1", bytes(40)])
def test_what_is_no_message_is_refused(data) -> None:
    with pytest.raises(ValueError, check=says("a message has|not a message")):
        decode(data)


def test_columns_begin_at_multiples_of_eight() -> None:
    """The front-end's typed arrays need this alignment."""
    for schema in TABLES:
        row = tuple(value_of(kind, 3) for _, kind in schema.columns)
        assert len(encode(1, 0.0, {schema.name: [row]})) % 8 == 0


# --- structure --------------------------------------------------------------------------------


def test_a_structure_has_what_the_graph_has() -> None:
    @ef.trace
    def f(x):
        with ef.name_scope("net"):
            for _ in range(3):
                x = ef.exp(x)
        return ef.while_loop(lambda y: ef.sum(y) < 100.0, lambda y: y * 2.0, x)

    graph = f.graph(ef.ones(2))
    index = NodeIndex(graph)
    head = decode_structure(encode_structure(index))
    columns, strings = head["columns"], head["strings"]
    loop = next(node for node in graph.nodes if node.op == "while_loop")
    inner = [node for _, g in loop.subgraphs() for node in g.nodes]
    assert head["nodes"] == len(graph.nodes) + len(inner)
    assert [strings[i] for i in columns["op"]] == [n.op for n in index.nodes]
    assert {index.nodes[i] for i, p in enumerate(columns["parent"]) if p >= 0} == set(inner)
    assert {columns["parent"][index.of(n)] for n in inner} == {index.of(loop)}
    scopes = {strings[i] for i in columns["scope"]}
    assert any("net" in scope for scope in scopes)
    edges = set(zip(columns["from"], columns["to"], columns["output"], strict=True))
    expected = {
        (index.of(v.node), index.of(n), v.index)
        for n in index.nodes for v in n.inputs if v.node is not None
    }  # fmt: skip
    (given,), (result,) = graph.inputs, graph.outputs
    expected |= {(-1, index.of(n), 0) for n in graph.nodes if given in n.inputs}
    expected |= {(index.of(result.node), -1, result.index)}
    assert {e for e in edges if e[2] >= 0} == expected
    kinds = [strings[i] for i in columns["kind"]]
    assert kinds[index.of(loop)] == "loop"
    assert {strings[columns["within"][index.of(n)]] for n in inner} == {"cond", "body"}
    assert head["inputs"] == [f"{given.name}: f32[2]"]


def test_a_structure_says_what_nodes_do_with_state() -> None:
    weight = ef.Variable(ef.ones(2), name="weight")
    count = ef.Variable(0, trainable=False, name="count")

    @ef.trace
    def f(x):
        count.assign_add(1)
        weight.assign(weight * 3.0 + ef.sum(x, axis=0, keepdims=True))
        return x.to("null:0")

    index = NodeIndex(f.graph(ef.ones(2)))
    head = decode_structure(encode_structure(index))
    columns, strings = head["columns"], head["strings"]
    by_op = {node.op: number for number, node in enumerate(index.nodes)}

    def text(column: str, op: str) -> str:
        return strings[columns[column][by_op[op]]]

    assert text("resources", "read") == text("resources", "assign") == "weight: f32[2]"
    assert text("resources", "assign_add") == "count: i64[], not trainable"
    assert (text("effect", "read"), text("effect", "assign")) == ("reads", "writes")
    assert (text("kind", "constant"), text("value", "constant")) == ("constant", "3.0")
    assert text("kind", "transfer") == "move"
    assert columns["bytes"][by_op["read"]] == 8
    assert text("attributes", "sum").splitlines() == ["axis=(0,)", "keepdims=True"]
    assert text("attributes", "read") == ""


def test_pieces_of_a_large_graph() -> None:
    lines = [f"%y{i} = exp(%y{i - 1}) : f32[n]" for i in range(1, 4001)]
    graph = ef.Graph.parse(f"graph f(%y0: f32[n]) {{ {' '.join(lines)} return %y4000 }}")
    data = encode_structure(NodeIndex(graph))
    parts = pieces(data)
    assert b"".join(parts) == data
    assert max(map(len, parts)) <= 64_000
    assert decode_structure(data)["nodes"] == 4000
