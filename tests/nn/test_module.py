from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

import eagerflow as ef
from eagerflow import nn
from eagerflow.errors import CheckpointError, UnknownNameError, VariableError


class Scale(nn.Module):
    def __init__(self, value: float = 2.0) -> None:
        self.weight = ef.Variable([value, value])
        self.seen = ef.Variable(0, trainable=False)

    def forward(self, x: Any) -> Any:
        return x * self.weight


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Config:
    rate: float
    norm: Any


class Net(nn.Module):
    def __init__(self) -> None:
        self.blocks = [Scale(1.0), {"a": Scale(2.0), 3: (Scale(3.0),)}]
        self.pair = Pair(ef.Variable(1.0), [])
        self.config = Config(0.1, Scale(4.0))
        self.text = "no variable"

    def forward(self, x: Any) -> Any:
        return self.blocks[0](x)


PATHS = ["blocks.0", "blocks.1.a", "blocks.1.3.0", "config.norm"]


# --- what it holds ----------------------------------------------------------------------------


def test_paths_of_modules_in_containers() -> None:
    assert [path for path, _ in Net().named_modules()] == ["", *PATHS]


def test_paths_of_variables_in_order_of_definition() -> None:
    state = list(Net().state)
    assert state[:2] == ["blocks.0.weight", "blocks.0.seen"]
    assert state[6:] == ["pair.left", "config.norm.weight", "config.norm.seen"]
    assert list(Net().parameters) == [p for p in state if not p.endswith("seen")]
    assert list(Net().buffers) == [p for p in state if p.endswith("seen")]


def test_shared_ones_appear_once_under_their_first_path() -> None:
    net = Net()
    net.tied = net.blocks[0].weight
    net.again = net.blocks[0]
    assert list(net.state) == list(Net().state)
    assert sum(1 for _ in net.modules()) == 1 + len(PATHS)


def test_modules_are_given_as_such_and_with_their_paths() -> None:
    net = Net()
    assert [module for _, module in net.named_modules()] == [*net.modules()]
    assert next(iter(net.modules())) is net
    assert all(isinstance(module, ef.nn.Module) for module in net.modules())


def test_paths_that_would_be_one_are_told_apart() -> None:
    net = Scale()
    vars(net)["a.b"] = Scale()
    net.a = {"b": Scale()}
    net.keys = {1: ef.Variable(1.0), "1": ef.Variable(2.0)}
    paths = [path for path in net.parameters if path != "weight"]
    assert paths == ["a.b.weight", "a.b~2.weight", "keys.1", "keys.1~2"]
    assert len({id(v) for v in net.state.values()}) == len(net.state) == 8
    assert [path for path, _ in net.named_modules()] == ["", "a.b", "a.b~2"]
    assert "8 parameters" in str(net.summary())
    net.load_state({**net.state, "keys.1": 3.0, "keys.1~2": 4.0})
    assert [float(net.state[path]) for path in paths[2:]] == [3.0, 4.0]


def test_cycles_end() -> None:
    net = Net()
    net.me = net
    net.blocks.append(net.blocks)
    assert list(net.state) == list(Net().state)
    assert repr(net).count("Net(") == 2


def test_many_modules_in_a_chain() -> None:
    net = Scale()
    for _ in range(3000):
        outer = Scale()
        outer.inner = net
        net = outer
    assert len(net.parameters) == 3001


def test_init_of_the_base_is_not_needed_and_may_be_called() -> None:
    class Polite(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Scale()

    assert list(Polite().parameters) == ["inner.weight"]
    assert Polite().training
    assert not Polite().frozen


def test_a_dataclass_can_be_a_module() -> None:
    @dataclass(eq=False)
    class Both(nn.Module):
        inner: Scale
        rate: float = 0.5

        def forward(self, x: Any) -> Any:
            return self.inner(x) * self.rate

    assert list(Both(Scale()).parameters) == ["inner.weight"]
    assert Both(Scale())(ef.ones(2)).numpy().tolist() == [1.0, 1.0]


def test_a_module_without_forward() -> None:
    class Empty(nn.Module):
        pass

    with pytest.raises(UnknownNameError, match=r"Empty has no forward\n  got: a call of Empty"):
        Empty()(1)


# --- modes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [ef.ones(2), 3.0, [1.0, 2.0], ef.ones(2).numpy()], ids=type)
def test_a_variable_is_not_lost_for_a_value(value: Any) -> None:
    """As in PyTorch: the variable would silently drop out of training."""
    layer = Scale()

    def load(x: Any) -> Any:
        layer.weight = value
        return layer(x)

    for call in (load, ef.trace(load)):
        with pytest.raises(
            VariableError, match=r"Scale\.weight is a variable, and would"
        ) as caught:
            call(ef.ones(2))
        assert caught.value.source is not None
        assert caught.value.source.text == "layer.weight = value"
        assert "module.weight.assign(x)" in str(caught.value.hint)
    assert list(layer.state) == ["weight", "seen"]


def test_what_may_take_the_place_of_a_variable() -> None:
    layer = Scale()
    layer.weight = ef.Variable([1.0, 1.0])
    layer.weight = None
    layer.weight = ef.ones(2)  # of nothing; so after `del` as well
    layer.seen = nn.Identity()
    assert not layer.state


class _Notes:
    """Another base class, which records the attributes that are set."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        self.__dict__.setdefault("noted", []).append(name)


class _Noting(Scale, _Notes):
    pass


def test_other_base_classes_set_attributes_in_their_way() -> None:
    layer = _Noting()
    assert layer.noted == ["weight", "seen"]

    def mark(x: Any) -> Any:
        layer.marked = True
        return layer(x)

    for count, call in enumerate((mark, ef.trace(mark)), 1):
        call(ef.ones(2))
        assert layer.noted.count("marked") == count


def test_train_and_eval_reach_all_modules() -> None:
    net = Net()
    assert net.eval() is net
    assert not any(m.training for m in net.modules())
    assert net.train() is net
    assert all(m.training for m in net.modules())


def test_freezing_and_back() -> None:
    net = Net()
    before = list(net.trainable)
    assert net.blocks[0].freeze() is net.blocks[0]
    assert list(net.trainable) == before[1:]
    assert list(net.parameters) == before  # still parameters, and buffers are as before
    assert "blocks.0.seen" in net.buffers
    net.freeze()
    assert net.trainable == {}
    net.unfreeze()
    assert list(net.trainable) == before
    assert "blocks.0.seen" not in net.trainable


def test_a_variable_of_a_frozen_module_is_frozen_wherever_it_is() -> None:
    net = Net()
    net.first = net.blocks[0].weight
    net.blocks[0].freeze()
    assert "blocks.0.weight" not in net.trainable


def test_gradients_leave_frozen_ones_out() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    model[0].freeze()
    _, gradients = ef.value_and_grad(lambda x: model(x).sum(), wrt=model.trainable)(ef.ones((1, 2)))
    assert list(gradients) == ["layers.1.weight", "layers.1.bias"]


# --- state ------------------------------------------------------------------------------------


def test_load_state_assigns_all() -> None:
    one, other = Net(), Net()
    other.blocks[0].weight.assign([7.0, 8.0])
    one.load_state(other.state)
    assert one.blocks[0].weight.numpy().tolist() == [7.0, 8.0]
    assert one.blocks[0].weight is not other.blocks[0].weight


def test_load_state_takes_tensors_arrays_and_numbers() -> None:
    layer = nn.Linear(2, 1)
    layer.load_state({"weight": layer.weight.numpy() * 0 + 1, "bias": [3.0]})
    assert layer(ef.ones(2)).numpy().tolist() == [5.0]


def test_load_state_names_all_that_is_wrong_and_assigns_nothing() -> None:
    layer = nn.Linear(2, 1)
    before = layer.bias.numpy().copy()
    with pytest.raises(CheckpointError) as caught:
        layer.load_state({"weight": ef.ones((1, 3)), "bias": [9.0], "other": 1})
    text = str(caught.value)
    assert "unexpected: other" in text
    assert "not fitting: weight (f32[1,3]@cpu:0 for f32[1,2]@cpu:0)" in text
    assert "expected: values for: weight, bias" in text
    with pytest.raises(CheckpointError, match="missing: bias"):
        layer.load_state({"weight": ef.ones((1, 2))})
    with pytest.raises(CheckpointError, match=r"weight \(f64\[1,2\]"):
        layer.load_state({"weight": ef.ones((1, 2), dtype=ef.float64)}, strict=False)
    assert (layer.bias.numpy() == before).all()


def test_load_state_that_is_not_strict() -> None:
    layer = nn.Linear(2, 1)
    layer.load_state({"bias": [9.0], "other": 1}, strict=False)
    assert layer.bias.numpy().tolist() == [9.0]


def test_load_state_knows_the_other_names_of_shared_variables() -> None:
    net = Scale()
    net.tied = net.weight
    net.load_state({"tied": [5.0, 6.0], "seen": 1})
    assert net.weight.numpy().tolist() == [5.0, 6.0]
    net.load_state({"weight": [1.0, 2.0], "tied": [1.0, 2.0], "seen": 1})
    assert net.weight.numpy().tolist() == [1.0, 2.0]


def test_load_state_refuses_two_values_of_a_shared_variable() -> None:
    net = Scale()
    net.tied = net.weight
    before = net.weight.numpy().copy()
    with pytest.raises(CheckpointError, match=r"tied \(another value than weight"):
        net.load_state({"weight": [1.0, 2.0], "tied": [1.0, 3.0], "seen": 1})
    with pytest.raises(CheckpointError, match=r"tied \(f32\[3\]@cpu:0 for"):
        net.load_state({"weight": [1.0, 2.0], "tied": [1.0, 2.0, 3.0], "seen": 1})
    assert (net.weight.numpy() == before).all()
    net.load_state({"weight": [1.0, float("nan")], "tied": [1.0, float("nan")], "seen": 1})


@pytest.mark.parametrize("state", [[1], None, 1.0])
def test_load_state_of_what_is_no_state(state: Any) -> None:
    with pytest.raises(CheckpointError, match="the state is not a mapping") as caught:
        Scale().load_state(state)
    assert f"got: a value of type {type(state).__name__}" in str(caught.value)
    with pytest.raises(CheckpointError, match="unexpected: 1"):
        Scale().load_state({1: 1.0})


def test_copies_are_independent_and_keep_what_is_shared() -> None:
    net = Net()
    net.tied = net.blocks[0].weight
    net.eval()
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert list(twin.state) == list(net.state)
        assert twin.tied is twin.blocks[0].weight
        assert not twin.training
        twin.tied.assign([9.0, 9.0])
        assert net.blocks[0].weight.numpy().tolist() == [1.0, 1.0]


# --- text -------------------------------------------------------------------------------------


def test_repr_is_a_tree() -> None:
    model = nn.Sequential(nn.Linear(2, 3, bias=False), abs, nn.Dropout(0.1), Scale())
    model.inner = nn.Sequential(nn.Identity())
    assert repr(model).split("\n") == [
        "Sequential()",
        "  layers.0: Linear(2, 3, bias=False)",
        "  layers.1: abs",
        "  layers.2: Dropout(p=0.1)",
        "  layers.3: Scale(weight: f32[2], seen: i64[])",
        "  inner: Sequential()",
        "    layers.0: Identity()",
    ]


def test_settings_of_modules_of_users_have_their_names() -> None:
    class Attention(ef.nn.Module):
        def __init__(self, heads: int, kind: str, bias: bool = True) -> None:
            self.heads, self.kind, self.bias = heads, kind, bias

    assert repr(Attention(4, "causal")) == "Attention(heads=4, kind='causal')"
    assert repr(Attention(4, "causal", bias=False)) == (
        "Attention(heads=4, kind='causal', bias=False)"
    )
    assert repr(ef.nn.Linear(2, 3)) == "Linear(2, 3)"


def test_a_state_of_an_attention_of_pytorch_has_the_names_here() -> None:
    attention = ef.nn.MultiHeadAttention(4, 2)
    before = attention.state
    state = {"in_proj_weight": ef.ones((12, 4)), "out_proj.weight": ef.ones((4, 4))}
    with pytest.raises(CheckpointError) as raised:
        attention.load_state(state)
    text = str(raised.value)
    assert "in_proj_weight is query.weight, key.weight and value.weight here" in text
    assert "strict=False" not in text  # it would leave all as it is
    assert all(ef.all(attention.state[k] == before[k]) for k in before)
    with pytest.raises(CheckpointError, match="strict=False skips"):
        attention.load_state({**before, "more": ef.ones(2)})
