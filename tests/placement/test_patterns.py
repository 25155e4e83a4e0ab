"""Patterns: matches, ranks, and the cost of matching many of them."""

from __future__ import annotations

import re
from fnmatch import translate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagerflow.graph import Graph
from eagerflow.graph.ir import Node
from eagerflow.placement import patterns as module
from eagerflow.placement.patterns import Patterns, rank_of


def node(path: str) -> Node:
    scope, _, name = path.rpartition("/")
    return Node("exp", name, (), {}, scope=scope)


MATCHES = [
    ("encoder", "encoder/layer0/exp", True),  # all nodes in the scope
    ("encoder/*", "encoder/layer0/exp", True),
    ("encoder/*", "encoder/exp", True),
    ("encoder/*", "encoder", False),  # a node of that name is not in the scope
    ("encoder", "encoder", True),
    ("encoder/", "encoder/exp", True),
    ("/encoder", "encoder/exp", True),
    ("encoder", "encoders/exp", False),
    ("encoder", "model/encoder/exp", True),  # at any depth
    ("encoder/*", "model/encoder/layer0/exp", True),
    ("encoder/*", "model/encoder", False),
    ("encoder/exp", "model/encoder/layer0/exp", False),  # parts of a path must be adjacent
    ("/encoder", "model/encoder/exp", False),  # a slash in front: the outermost scope alone
    ("/*/encoder", "model/encoder/exp", True),
    ("/**/encoder", "model/encoder/exp", True),
    ("**/encoder", "model/encoder/exp", True),
    ("**/encoder", "encoder/exp", True),
    ("*/encoder", "encoder/exp", False),
    ("*/exp", "encoder/exp", True),
    ("*/exp", "encoder/layer0/exp", True),
    ("/*/exp", "encoder/layer0/exp", False),
    ("exp", "encoder/layer0/exp", True),
    ("**/exp", "encoder/layer0/exp", True),
    ("**/exp*", "encoder/layer0/exp_12", True),
    ("encoder/**/exp", "encoder/exp", True),
    ("encoder/**/exp", "encoder/a/b/exp", True),
    ("encoder/layer[01]/exp", "encoder/layer1/exp", True),
    ("encoder/layer[01]", "encoder/layer2/exp", False),
    ("encoder/layer?", "encoder/layer12/exp", False),
    ("layers.0", "layers.0/matmul", True),
    ("layers.0", "layersx0/matmul", False),
    ("*", "exp", True),
    ("*", "a/b/c", True),
    ("**", "a/b/c", True),
]


@pytest.mark.parametrize(("pattern", "path", "matches"), MATCHES)
def test_matches(pattern: str, path: str, matches: bool) -> None:
    assert Patterns([pattern]).of(node(path)) == ((pattern,) if matches else ())


def slow(pattern: str, path: str) -> bool:
    """Whether a path matches, by the pattern as one regular expression."""
    parts = [p for p in pattern.split("/") if p]
    text = ""
    for part in parts:
        one = translate(part).removeprefix("(?s:").removesuffix(r")\Z").replace(".*", "[^/]*")
        text += "(?:[^/]+/)*" if part == "**" else f"{one.replace('.', '[^/]', one == '.')}/"
    before = "" if pattern.startswith("/") else "(?:[^/]+/)*"
    return re.match(before + text, f"{path}/") is not None


PARTS = st.sampled_from(["a", "b", "ab", "*", "a*", "*b", "**"])
NAMES = st.sampled_from(["a", "b", "ab", "ba", "aab"])


@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(PARTS, min_size=1, max_size=4)), min_size=1, max_size=5
    ),
    st.lists(st.lists(NAMES, min_size=1, max_size=4), max_size=5),
)
def test_many_at_once_match_as_each_alone(
    patterns: list[tuple[bool, list[str]]], paths: list[list[str]]
) -> None:
    texts = list(dict.fromkeys("/" * first + "/".join(parts) for first, parts in patterns))
    tree = Patterns(texts)
    for path in ("/".join(names) for names in paths):
        assert set(tree.of(node(path))) == {text for text in texts if slow(text, path)}


def test_ranks() -> None:
    order = ["**", "*", "*/*", "enc*", "encoder", "encoder/*", "encoder/lay*", "encoder/layer0",
             "encoder/layer0/*", "encoder/layer0/exp"]  # fmt: skip
    assert sorted(order, key=rank_of) == order
    assert rank_of("**/encoder") == rank_of("encoder")
    assert rank_of("a/*") == rank_of("*/a")
    assert rank_of("encoder") < rank_of("/encoder") < rank_of("encoder/*")


def test_each_scope_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    step = module._Branch.step

    def counted(self: module._Branch, part: str) -> object:
        nonlocal steps
        steps += 1
        return step(self, part)

    monkeypatch.setattr(module._Branch, "step", counted)
    tree = Patterns([f"layer{i}/*" for i in range(1000)])
    for i in range(1000):
        assert tree.of(node(f"layer{i % 10}/exp_{i}")) == (f"layer{i % 10}/*",)
    # for each scope, and for each node, from its beginning, from within, and from its scope
    assert steps <= 3 * (10 + 1000)  # not one for each pattern


def test_inner_nodes_have_whole_scopes() -> None:
    graph = Graph.parse('graph f(%x: f32[n]) { %y = exp(%x) : f32[n] in "a/b" return %y }')
    matching = Patterns(["a", "/b", "a/b/y", "y", "a/y"]).of(graph.nodes[0])
    assert matching == ("a", "a/b/y", "y")
