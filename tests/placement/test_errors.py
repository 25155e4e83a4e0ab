"""Errors of impossible placements name the lines, the request, and alternatives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

import eagerflow as ef
from eagerflow.errors import PlacementError, PlacementWarning
from eagerflow.graph.ir import Node
from tests.placement.kinds import ROOM, op_of_cpus, small_devices

X = ef.ones((8, 4))
Asked = Callable[["World"], Any]


class World(NamedTuple):
    """Objects that the rows of the table use.

    only_on_cpus: a function of an op that has a kernel for CPUs alone.
        only_on_cpus: applies an op that has a kernel for CPUs alone.
        w: a variable.
    """

    only_on_cpus: Callable[[Any], Any]
    w: Any


@pytest.fixture
def world() -> Iterator[World]:
    with ExitStack() as stack:
        stack.enter_context(small_devices())
        only_on_cpus = stack.enter_context(op_of_cpus())
        yield World(only_on_cpus, ef.Variable([1.0, 2.0], name="w"))


def two_layers(x: Any) -> Any:
    with ef.name_scope("encoder"):
        with ef.name_scope("layer0"):
            x = ef.exp(x)
        with ef.name_scope("layer1"):
            x = ef.sin(x)
    with ef.name_scope("decoder"):
        return ef.cos(x)


def placed(rules: Any, f: Callable[..., Any] = two_layers, x: Any = X) -> Any:
    """The result of a function once placed by rules."""
    return ef.trace(f).place(rules)(x)


class Row(NamedTuple):
    """An impossible placement, and its error.

    Attributes:
        ask: a function that makes the request.
        wrong: the beginning of the message.
        texts: other parts of the message: the request, alternatives, lines of the user.
    """

    ask: Asked
    wrong: str
    texts: tuple[str, ...]


RULES = "rules at .*test_errors.py"  # the line of the rules
OP = "&encoder/layer0/exp at .*x = ef.exp"  # the line of the op
CPUS = "one of cpu:0, cpu:1"

ROWS = {
    # the rules themselves, with one line
    "no device name": Row(lambda at: placed({"*": "cpu:x"}), "'cpu:x' is not a device name",
                          ("the rule '\\*' asks for 'cpu:x'", CPUS, "at: .*test_errors")),
    "no such device": Row(lambda at: placed({"*": "cpu:7"}), "there is no device cpu:7",
                          ("the rule '\\*' asks for 'cpu:7'", CPUS, "ef.config.cpu_devices=n.")),
    "no such kind": Row(lambda at: placed({"*": "tpu:0"}), "there is no device of kind 'tpu'",
                        ("asks for 'tpu:0'", CPUS)),
    "no such task": Row(lambda at: placed({"*": "worker:1/cpu:0"}),
                        "there is no device worker:1/cpu:0", ("asks for", CPUS)),
    "many devices": Row(lambda at: placed({"*": "cpu:*"}), "a rule names one device",
                        ("asks for 'cpu:\\*'", CPUS)),
    "no device at all": Row(lambda at: placed({"*": 3}), "3 is not a device name",
                            ("asks for 3", CPUS)),
    "no pattern": Row(lambda at: placed({"": "cpu:1"}), "a key is not a pattern",
                      ("'encoder/\\*'", "is the pattern of all nodes")),
    "a pattern that is no text": Row(lambda at: placed({0: "cpu:1"}), "a key is not a pattern",
                                     ("got: 0", "'encoder/\\*'")),
    "no rules": Row(lambda at: placed("cpu:1"), "the argument is not a form of rules",
                    ("got: 'cpu:1'", "a dict from patterns to devices")),
    "automatic": Row(lambda at: placed("automatic"), "the argument is not a form of rules",
                     ("got: 'automatic'", "or None, 'auto', or None")),
    # patterns without matches
    "nothing of that name": Row(
        lambda at: placed({"/layer0/*": "cpu:1"}), "'/layer0/\\*' matches nothing in two_layers",
        ("'/layer0/\\*': cpu:1", "such as encoder/layer0,", "begins at the outermost scope"),
    ),
    "misspelt": Row(lambda at: placed({"encoder/lair0": "cpu:1"}), "'encoder/lair0' matches noth",
                    ("scopes and nodes such as encoder/layer", "at: .*test_errors")),
    "no scopes": Row(lambda at: placed({"encoder": "cpu:1"}, ef.exp), "'encoder' matches nothing",
                     ("it has no scopes", "ef.name_scope")),
    "state alone": Row(
        lambda at: placed({"read": "cpu:1"}, lambda x: at.w + 1), "'read' matches state alone",
        ("&read at .*at.w", "the variable 'w' is on cpu:0, made at .*ef.Variable", "ef.move"),
    ),
    "numbers alone": Row(
        lambda at: ef.trace(lambda x, n: x * (n + 1.5)).place({"python_add": "cpu:1"})(X, 2.0),
        "'python_add' matches nothing that could be placed", ("&python_add at .*n . 1.5",),
    ),
    # rules in conflict
    "two patterns": Row(
        lambda at: placed({"encoder/*": "cpu:1", "*/layer0": "cpu:0"}),
        "two rules want &exp on different devices",
        ("'encoder/\\*': cpu:1 and '\\*/layer0': cpu:0", OP, RULES, "'encoder/layer0/exp'"),
    ),
    # functions
    "a function that gives no device": Row(
        lambda at: placed(lambda node: 42), "42 is not a device name", (OP, RULES, CPUS)),
    "a function that gives no such device": Row(
        lambda at: placed(lambda node: "gpu:9"), "there is no device", (OP, RULES, CPUS)),
    # devices without an ability; both lines
    "no kernel": Row(
        lambda at: placed({"encoder": "small:0"}, lambda x: _in_encoder(at.only_on_cpus, x)),
        "only_on_cpus cannot run on small:0: there is no kernel of only_on_cpus of f32 for small",
        ("rule 'encoder' asks for small:0", "&encoder/only_on_cpus at", RULES, CPUS, "special"),
    ),
    "no bytes": Row(
        lambda at: placed({"encoder": "small:0"}, lambda x: _in_encoder(ef.reshape, x, (2, 1)),
                          ef.tensor([b"a", b"b"])),
        "reshape cannot run on small:0: devices of kind small hold no bytes",
        ("&encoder/reshape at", RULES, CPUS),
    ),
    "no memory": Row(
        lambda at: placed({"encoder/layer0": "small:1"}),
        f"exp cannot run on small:1: operands and results take 256 bytes.* may hold {ROOM}",
        (OP, RULES, CPUS, "compute with less at a time"),
    ),
    "no memory for all at once": Row(
        lambda at: placed({"encoder": "small:1"}, lambda x: _in_encoder(_keeps_three, x), X[:2]),
        "matmul cannot run on small:1: with the values held there at that time it takes 112 bytes, "
        f"of {ROOM}", ("&encoder/matmul at .*ef.matmul", RULES, CPUS, "place less there"),
    ),
    "no values there": Row(
        lambda at: placed({"encoder/layer0": "null:0"}),
        "exp cannot run on null:0: null:0 holds no values, so results could not come back",
        (OP, RULES, CPUS, "null devices are for planning"),
    ),
    "no values here": Row(
        lambda at: placed({"encoder/layer0": "cpu:1"}, x=X.to("null:0")),
        "exp cannot run on cpu:1: null:0 holds no values, so results cannot go elsewhere",
        (OP, RULES),
    ),
    # moves
    "a move to no device": Row(lambda at: ef.move(at.w, "cpu:7"), "there is no device cpu:7",
                               (CPUS,)),
    "a move to many devices": Row(lambda at: ef.move(at.w, "cpu:*"), "the target is not one device",
                                  (CPUS,)),
    "a move that loses values": Row(
        lambda at: ef.move({"a": at.w}, "null:0"), "null:0 holds no values, so the variable 'w'",
        ("tree\\['a'\\] is variable 'w' f32\\[2\\]@cpu:0, made at .*ef.Variable", CPUS),
    ),
    "a move without room": Row(
        lambda at: ef.move([ef.Variable(X)], "small:0"),
        f"the variables take 128 bytes, and small:0 may hold {ROOM}", ("made at", CPUS)),
    "a move of a value": Row(lambda at: ef.move([X], "cpu:1"), "a Tensor cannot be moved",
                             ("tree\\[0\\] is f32\\[8,4\\]@cpu:0", "x.to.device.")),
    "a move of what is no variable": Row(
        lambda at: ef.move(ef.Queue(1, "f32[]"), "cpu:1"), "a Queue cannot be moved",
        ("variables, modules, optimisers",)),
    "a move of nothing": Row(lambda at: ef.move([], "cpu:1"), "there is no variable", ("got: ",)),
    "a move in a step": Row(
        lambda at: ef.trace(lambda: ef.move(at.w, "cpu:1"))(),
        "variables move between steps", ("before or after the step",)),
    "a graph of before a move": Row(lambda at: _graph_of_before(at), "the variable 'w' was moved",
                                    ("&read on cpu:0, and the variable on cpu:1", "trace again")),
}  # fmt: skip


def _keeps_three(x: Any) -> Any:
    y, z, w = ef.exp(x), ef.sin(x), ef.cos(x)
    return ef.matmul(ef.matmul(y, ef.permute_dims(z, (1, 0))), w)


def _in_encoder(op: Callable[..., Any], *args: Any) -> Any:
    with ef.name_scope("encoder"):
        return op(*args)


def _graph_of_before(at: World) -> None:
    graph = ef.trace(lambda: at.w + 1).graph()
    ef.move(at.w, "cpu:1")
    graph.run(graph.outputs)


def test_there_are_many() -> None:
    assert len(ROWS) >= 20


@pytest.mark.parametrize("name", ROWS)
def test_errors(name: str, world: World) -> None:
    row = ROWS[name]
    with pytest.raises(PlacementError) as caught:
        row.ask(world)
    error = caught.value
    message = str(error)
    assert re.match(r"(place|move|run): " + row.wrong, message), message
    for text in row.texts:
        assert re.search(text, message), f"{text!r} is not in\n{message}"
    assert error.source is not None
    assert isinstance(error, ValueError)


def test_what_cannot_be_placed_leaves_all_as_it_was(world: World) -> None:
    f = ef.trace(two_layers).place({"encoder": "cpu:1"})
    want = f(X)
    before = f.explain("placement")
    for rules in ({"nothing": "cpu:1"}, {"encoder/layer0": "small:1"}, {"encoder": "cpu:9"}):
        with pytest.raises(PlacementError):
            f.place(rules)
        assert str(f.explain("placement")) == str(before)
        assert f(X).numpy().tobytes() == want.numpy().tobytes()
    assert len(f.traces) == 1


def test_what_cannot_be_placed_is_refused_also_when_state_has_just_moved(world: World) -> None:
    def f(x: Any) -> Any:
        return two_layers(x) * world.w.value[0].to("cpu:0")

    g = ef.trace(f)
    want = g(X)
    ef.move(world.w, "cpu:1")
    for rules in ({"nothing": "cpu:1"}, {"encoder/layer0": "small:1"}):
        with pytest.raises(PlacementError):
            g.place(rules)
    assert g(X).numpy().tobytes() == want.numpy().tobytes()  # without rules
    ef.move(world.w, "cpu:0")
    g.clear()
    g.place({"nothing": "cpu:1"})  # without a trace, no nodes are known
    with pytest.raises(PlacementError, match="matches nothing"):
        g(X)


def test_a_first_call_that_cannot_be_placed_changes_nothing(world: World) -> None:
    f = ef.trace(lambda x: world.w.assign_add(x)).place({"nothing": "cpu:1"})
    for _ in range(2):
        with pytest.raises(PlacementError, match="matches nothing"):
            f(ef.ones(2))
    assert world.w.numpy().tolist() == [1.0, 2.0]
    assert f.traces == ()
    assert f.place(None)(ef.ones(2)).numpy().tolist() == [2.0, 3.0]


def test_an_error_of_a_rule_is_raised_as_it_is(world: World) -> None:
    def rule(node: Node) -> str:
        raise ZeroDivisionError(node.op)

    with pytest.raises(ZeroDivisionError) as caught:
        placed(rule)
    assert caught.value.__notes__ == [
        note for note in caught.value.__notes__ if note.startswith("in the rule rule, asked for &")
    ]


# --- soft placement ---------------------------------------------------------------------------

SOFT = {
    "no such device": ({"encoder": "cpu:7"}, "there is no device cpu:7"),
    "no memory": ({"encoder/layer0": "small:1"}, "operands and results take 256 bytes"),
    "no values": ({"encoder": "null:0"}, "null:0 holds no values"),
}


@pytest.mark.parametrize("name", SOFT)
def test_soft_placement_falls_back_and_says_so(name: str, world: World) -> None:
    rules, why = SOFT[name]
    want = two_layers(X)
    f = ef.trace(two_layers)
    with ef.config(soft_placement=True):
        f.place(rules)
    with pytest.warns(PlacementWarning, match=f"two_layers: &encoder/layer0/exp .*{why}"):
        got = f(X)
    assert got.numpy().tobytes() == want.numpy().tobytes()
    assert why in str(f.explain("placement"))
    f(X)  # no further warning
    f(ef.ones((2, 4), dtype=ef.float64))  # nor for another trace
    nodes = {node.op: node for node in f.graph(X).nodes}
    (pattern,) = rules
    assert nodes["exp"].device == "cpu:0"
    assert nodes["exp"].reason.startswith(f"stays on cpu:0: rule {pattern!r} asks for ")
    assert why in nodes["exp"].reason


def test_soft_placement_places_what_can_be_placed(world: World) -> None:
    f = ef.trace(two_layers)
    f(X)
    with ef.config(soft_placement=True), pytest.warns(PlacementWarning, match="matches nothing"):
        f.place({"nothing": "cpu:1", "decoder": "cpu:1", "encoder": "cpu:7"})
    where = {node.op: str(node.device) for node in f.graph(X).nodes if node.op != "transfer"}
    assert where == {"exp": "cpu:0", "sin": "cpu:0", "cos": "cpu:1"}


def test_rules_that_contradict_each_other_are_errors_all_the_same(world: World) -> None:
    with ef.config(soft_placement=True), pytest.raises(PlacementError, match="two rules want"):
        placed({"encoder/*": "cpu:1", "*/layer0": "cpu:0"})
