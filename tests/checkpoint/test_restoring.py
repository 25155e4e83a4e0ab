"""Restoring a checkpoint into a live tree: in place, in part, renamed; as a whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import pytest

import eagerflow as ef
from eagerflow.errors import CheckpointError, CheckpointWarning
from tests.checkpoint.trees import Batch, content
from tests.messages import says


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "c"


def refusal(path: Path, like: Any, **options: Any) -> str:
    with pytest.raises(CheckpointError) as caught:
        ef.checkpoint.load(path, like=like, **options)
    return str(caught.value)


def variables(*values: float) -> list[ef.Variable]:
    return [ef.Variable(float(v)) for v in values]


def numbers(parameters: list[ef.Variable]) -> list[float]:
    return [float(v) for v in parameters]


@final
class Layer:
    """An object whose ``state`` has its variables by path."""

    def __init__(self, *values: float) -> None:
        self.state = {f"layers.{i}.w": v for i, v in enumerate(variables(*values))}


@final
class Position:
    """An object that is restored by `load_state`."""

    def __init__(self, epoch: int, refuses: bool = False) -> None:
        self.epoch = epoch
        self.order = ef.tensor([epoch])
        self.refuses = refuses

    @property
    def state(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "order": self.order}

    def load_state(self, state: Mapping[str, Any]) -> None:
        if self.refuses:
            raise ValueError("no")
        self.epoch, self.order = state["epoch"], state["order"]


@final
class Counter:
    """An object whose ``state`` can be set."""

    def __init__(self, count: int) -> None:
        self.count = count

    @property
    def state(self) -> dict[str, int]:
        return {"count": self.count}

    @state.setter
    def state(self, value: dict[str, int]) -> None:
        self.count = value["count"]


@final
class Fixed:
    """An object whose ``state`` cannot be restored."""

    @property
    def state(self) -> dict[str, int]:
        return {"count": 1}


# --- in place ------------------------------------------------------------------------------------


def test_variables_and_generators_in_place(path: Path) -> None:
    generator = ef.random.Generator(5)
    generator.normal((3,))
    ef.checkpoint.save(path, {"v": ef.Variable([1.0, 2.0]), "g": generator, "t": ef.tensor(3)})
    like = {"v": ef.Variable([0.0, 0.0]), "g": ef.random.Generator(1), "t": ef.tensor(0)}
    loaded = ef.checkpoint.load(path, like=like)
    assert loaded["v"] is like["v"]
    assert loaded["g"] is like["g"]
    assert like["v"].numpy().tolist() == [1, 2]
    assert bool((like["g"].normal((3,)) == generator.normal((3,))).all())
    assert (int(loaded["t"]), int(like["t"])) == (3, 0)


def test_the_process_s_own_generator(path: Path) -> None:
    ef.random.seed(7)
    ef.random.normal((2,))
    ef.checkpoint.save(path, {"random": ef.random.default_generator()})
    expected = ef.random.normal((4,))
    ef.random.seed(0)
    ef.checkpoint.load(path, like={"random": ef.random.default_generator()})
    assert bool((ef.random.normal((4,)) == expected).all())


def test_without_like_generators_are_new_ones(path: Path) -> None:
    ef.random.seed(7)
    ef.checkpoint.save(path, ef.random.default_generator())
    ef.random.seed(3)
    generator = ef.checkpoint.load(path)
    assert generator.state == {"seed": 7, "ticket": 0}
    assert ef.random.default_generator().state == {"seed": 3, "ticket": 0}


def test_a_value_read_before_does_not_change(path: Path) -> None:
    v = ef.Variable([1.0, 2.0])
    ef.checkpoint.save(path, v)
    v.assign([5.0, 6.0])
    before = v.value
    ef.checkpoint.load(path, like=v)
    assert (before.numpy().tolist(), v.numpy().tolist()) == ([5, 6], [1, 2])
    v.assign_add(1.0)
    assert ef.checkpoint.load(path).numpy().tolist() == [1, 2]


def test_devices_are_those_of_like(path: Path) -> None:
    ef.checkpoint.save(path, {"t": ef.tensor(3), "v": ef.Variable(4.0)})
    with ef.config(cpu_devices=2):
        like = {"t": ef.tensor(0, device="cpu:1"), "v": ef.Variable(0.0, device="cpu:1")}
        loaded = ef.checkpoint.load(path, like=like)
        assert str(loaded["t"].device) == "cpu:1"
        assert float(like["v"]) == 4.0
        with ef.device("cpu:1"):
            assert str(ef.checkpoint.load(path)["t"].device) == "cpu:1"


def test_objects_with_a_state(path: Path) -> None:
    saved = {"model": Layer(1, 2), "position": Position(3), "counter": Counter(4)}
    ef.checkpoint.save(path, saved)
    like = {"model": Layer(0, 0), "position": Position(0), "counter": Counter(0)}
    before = like["model"].state["layers.1.w"]
    loaded = ef.checkpoint.load(path, like=like)
    assert loaded == like
    assert float(before) == 2
    assert (like["position"].epoch, int(like["position"].order[0])) == (3, 3)
    assert like["counter"].count == 4
    plain = ef.checkpoint.load(path)
    assert plain["counter"] == {"count": 4}
    assert float(plain["model"]["layers.0.w"]) == 1


def test_a_state_that_nobody_can_restore(path: Path) -> None:
    ef.checkpoint.save(path, [Fixed()])
    assert "0 (the state of a Fixed has values that are not variables" in refusal(path, [Fixed()])


def test_a_dataclass_with_a_field_called_state(path: Path) -> None:
    class_of_user = Batch({"state": {"a": 1}}, labels=ef.Variable(2.0))
    ef.checkpoint.save(path, class_of_user)
    like = Batch({"state": {"a": 0}}, labels=ef.Variable(0.0))
    batch = ef.checkpoint.load(path, like=like)
    assert batch.images == {"state": {"a": 1}}
    assert float(like.labels) == 2


def test_the_state_of_a_model_fits_the_model(path: Path) -> None:
    """Values are matched by path: containers may be of different classes."""
    ef.checkpoint.save(path, Layer(1, 2).state)
    model = Layer(0, 0)
    ef.checkpoint.load(path, like=model)
    assert numbers(list(model.state.values())) == [1, 2]
    nested = {"layers": [{"w": ef.Variable(0.0)}, {"w": ef.Variable(0.0)}]}
    ef.checkpoint.load(path, like=nested)
    assert float(nested["layers"][1]["w"]) == 2


def test_shared_variables(path: Path) -> None:
    v = ef.Variable(1.0)
    ef.checkpoint.save(path, {"a": v, "b": v})
    other = variables(0, 0)
    ef.checkpoint.load(path, like=dict(zip("ab", other, strict=True)))
    assert numbers(other) == [1, 1]
    ef.checkpoint.save(path, {"a": ef.Variable(2.0), "b": ef.Variable(2.0)})
    ef.checkpoint.load(path, like={"a": v, "b": v})
    assert float(v) == 2
    ef.checkpoint.save(path, {"a": ef.Variable(3.0), "b": ef.Variable(4.0)})
    text = refusal(path, {"a": v, "b": v})
    assert "b (one variable here, and two values in the checkpoint)" in text
    assert float(v) == 2


# --- misfits -------------------------------------------------------------------------------------


def test_all_places_are_listed(path: Path) -> None:
    ef.checkpoint.save(
        path, {"a": ef.zeros((2, 3)), "b": ef.zeros((2,)), "c": 1, "gone": [1, 2], "d": "x"}
    )
    v = ef.Variable(ef.ones((3, 2)))
    like = {"a": v, "b": ef.zeros((2,), dtype=ef.float64), "c": v, "new": v, "d": 1.5}
    assert refusal(path, like) == "\n".join([
        "load: the checkpoint does not fit like=",
        "  got: missing: new; unexpected: gone.0, gone.1; not fitting: a (f32[2,3] for f32[3,2]), "
        "b (f32[2] for f64[2]), c (int for a variable), d ('x' for 1.5)",
        "  expected: the same paths, dtypes and shapes",
        "  hint: partial=lambda path: ... says which paths are taken",
        *refusal(path, like).splitlines()[4:],
    ])  # fmt: skip
    assert v.numpy().sum() == 6


def test_long_lists_are_cut(path: Path) -> None:
    ef.checkpoint.save(path, list(range(20)))
    assert "unexpected: 1, 2, 3, 4, 5, 6, 7, 8 and 11 more" in refusal(path, [0])


@pytest.mark.parametrize(("saved", "like"), [(None, 0.5), (0.5, None), (3, 4), ("a", "b")])
def test_plain_values_that_fit(path: Path, saved: object, like: object) -> None:
    ef.checkpoint.save(path, {"x": saved})
    assert ef.checkpoint.load(path, like={"x": like}) == {"x": saved}


@pytest.mark.parametrize(("saved", "like"), [(1, 1.0), (True, 1), ("1", 1), (ef.tensor(1), 1)])
def test_plain_values_that_do_not(path: Path, saved: object, like: object) -> None:
    ef.checkpoint.save(path, {"x": saved})
    assert "not fitting: x" in refusal(path, {"x": like})


def test_nothing_is_changed_when_an_object_refuses(path: Path) -> None:
    ef.checkpoint.save(path, [Position(1), Counter(2), ef.Variable(3.0), Position(4)])
    like = [Position(0), Counter(0), ef.Variable(0.0), Position(0, refuses=True)]
    with pytest.raises(ValueError, check=says("no")):
        ef.checkpoint.load(path, like=like)
    assert (like[0].epoch, like[1].count, float(like[2])) == (0, 0, 0)


# --- in part -------------------------------------------------------------------------------------


def test_what_is_there(path: Path) -> None:
    ef.checkpoint.save(path, {"body": ef.Variable(1.0), "head": ef.Variable(2.0)})
    like = {"body": ef.Variable(0.0), "tail": ef.Variable(0.0)}
    assert "hint: partial=True takes the values that are there" in refusal(path, like)
    with pytest.warns(CheckpointWarning) as caught:
        ef.checkpoint.load(path, like=like, partial=True)
    text = "was loaded in part; left as it was: tail; not used of the checkpoint: head"
    assert text in str(caught[0].message)
    assert caught[0].filename == __file__
    assert numbers(list(like.values())) == [1, 0]


def test_all_is_there(path: Path) -> None:
    ef.checkpoint.save(path, {"body": ef.Variable(1.0)})
    ef.checkpoint.load(path, like={"body": ef.Variable(0.0)}, partial=True)


def test_nothing_is_there(path: Path) -> None:
    ef.checkpoint.save(path, {"model": {"w": ef.Variable(1.0)}})
    text = refusal(path, {"w": ef.Variable(0.0)}, partial=True)
    assert "nothing of like= is in the checkpoint" in text
    assert "hint: rename=" in text


def test_chosen_paths(path: Path) -> None:
    """Chosen paths must be in the checkpoint; others are ignored."""
    ef.checkpoint.save(path, {"body": ef.Variable(1.0), "head": ef.zeros((2,))})
    like = {"body": ef.Variable(0.0), "head": ef.Variable(ef.ones((3,)))}
    assert "head (f32[2] for f32[3])" in refusal(path, like, partial=True)
    ef.checkpoint.load(path, like=like, partial=lambda p: p != "head")
    assert float(like["body"]) == 1
    assert like["head"].numpy().tolist() == [1, 1, 1]
    text = refusal(path, {**like, "new": ef.Variable(0.0)}, partial=lambda p: p != "head")
    assert "got: missing: new\n" in text


def test_only_what_is_taken_is_read(path: Path) -> None:
    ef.checkpoint.save(path, {"a": ef.tensor(1), "b": ef.tensor(2)}, shard_bytes=8)
    first, second = sorted(path.glob("shard-*"))
    second.unlink()
    loaded = ef.checkpoint.load(path, like={"a": ef.tensor(0)}, partial=lambda p: True)
    assert int(loaded["a"]) == 1
    assert first.exists()


# --- renamed -------------------------------------------------------------------------------------


def _saved(path: Path) -> None:
    tree = {"encoder": {"w": ef.Variable(1.0), "x": [ef.Variable(2.0)]}, "encoders": ef.tensor(3)}
    ef.checkpoint.save(path, tree)


def test_prefixes(path: Path) -> None:
    _saved(path)
    w, x = variables(0, 0)
    like = {"backbone": {"w": w, "y": x}, "encoders": ef.tensor(0)}
    renames = {"encoder": "backbone", "encoder.x.0": "backbone.y"}
    loaded = ef.checkpoint.load(path, like=like, rename=renames)
    assert numbers([w, x]) == [1, 2]
    assert int(loaded["encoders"]) == 3


def test_prefixes_that_go_and_come(path: Path) -> None:
    ef.checkpoint.save(path, {"model": {"w": ef.Variable(1.0)}})
    (w,) = variables(0)
    ef.checkpoint.load(path, like={"w": w}, rename={"model": ""})
    assert float(w) == 1
    (w,) = variables(0)
    ef.checkpoint.load(path, like={"new": {"model": {"w": w}}}, rename={"": "new"})
    assert float(w) == 1


def test_a_function(path: Path) -> None:
    _saved(path)
    w, x = variables(0, 0)
    names = {"encoder.w": "w", "encoder.x.0": "x"}
    ef.checkpoint.load(path, like={"w": w, "x": x}, rename=names.get)
    assert numbers([w, x]) == [1, 2]


def test_into_an_object_that_restores_itself(path: Path) -> None:
    ef.checkpoint.save(path, {"old": Position(3)})
    like = {"new": Position(0)}
    ef.checkpoint.load(path, like=like, rename={"old": "new"})
    assert like["new"].epoch == 3


def test_names_that_are_not_there_or_meet(path: Path) -> None:
    _saved(path)
    like = {"w": ef.Variable(0.0)}
    assert "names 'decoder', which the checkpoint does not have" in refusal(
        path, like, rename={"decoder": "w"}
    )
    text = refusal(path, like, rename={"encoder.w": "w", "encoder.x.0": "w"})
    assert "'encoder.w' and 'encoder.x.0' both become 'w'" in text


def test_without_like_there_is_nothing_to_fit(path: Path) -> None:
    _saved(path)
    for options in ({"partial": True}, {"rename": {"a": "b"}}):
        with pytest.raises(CheckpointError, match="which is not given"):
            ef.checkpoint.load(path, **options)


def test_slices_in_like(path: Path) -> None:
    def slices(value: float) -> ef.IndexedSlices:
        return ef.IndexedSlices(ef.tensor([[value]]), ef.tensor([1]), (3, 1))

    ef.checkpoint.save(path, slices(2.0))
    assert content(ef.checkpoint.load(path, like=slices(0.0))) == content(slices(2.0))


# --- hints ---

_GENERATOR = '"g": ef.random.default_generator() (or the generator that you draw from)'
_DATA = ef.data.Dataset.from_tensors(ef.arange(4))


@pytest.mark.parametrize(
    ("saved", "like", "hint"),
    [
        ({"net": {"w": 1.0}}, {"nett": {"w": 1.0}}, "rename={'net': 'nett'}"),
        ({"w": {"wieght": 1.0}}, {"w": {"weight": 1.0}}, "rename={'w.wieght': 'w.weight'}"),
        ({"encoder": 1.0}, {"z": 1.0}, "partial=True takes the values that are there"),
    ],
)
def test_the_nearest_path_is_named(path: Path, saved: object, like: object, hint: str) -> None:
    ef.checkpoint.save(path, saved)
    with pytest.raises(CheckpointError, match="does not fit like=") as caught:
        ef.checkpoint.load(path, like=like)
    assert str(caught.value.hint).startswith(hint)


@pytest.mark.parametrize(
    ("more", "entries"),
    [
        ({"epoch": 3}, '"epoch": 0'),
        ({"best": 0.25, "name": "a"}, '"best": 0.0, "name": ""'),
        ({"done": True, "note": None}, '"done": False, "note": None'),
        ({"w": ef.zeros((2, 3))}, '"w": ef.zeros((2, 3))'),
        ({"n": ef.Variable(2)}, '"n": ef.Variable(ef.zeros((), dtype=ef.int64))'),
        ({"g": ef.random.Generator(1)}, _GENERATOR),
        ({"more": {"step": 1, 2: (3.0,)}}, '"more": {"step": 0, 2: (0.0,)}'),
        ({"losses": [1.0, 2.0]}, '"losses": [0.0, 0.0]'),
        ({"losses": [1.0] * 5}, '"losses": ...'),
        ({"net": ef.nn.Linear(2, 1)}, '"net": the Linear'),
        ({"data": iter(_DATA)}, '"data": iter(dataset)'),
        ({"inner": {"a": 2.0, "b": 1}}, '"inner": {..., "b": 0}'),
        (dict.fromkeys("pqrst", 1), '"p": 0, "q": 0, "r": 0, and 2 more'),
    ],
)
def test_the_entries_that_like_lacks_are_named(path: Path, more: Any, entries: str) -> None:
    ef.checkpoint.save(path, {"x": 1.0, "inner": {"a": 2.0}} | more)
    with pytest.raises(CheckpointError, check=says("unexpected: ")) as caught:
        ef.checkpoint.load(path, like={"x": 0.0, "inner": {"a": 0.0}})
    assert caught.value.hint == (
        f"add {entries} to like=, and take it from the result; partial=True leaves it"
    )


def test_the_default_generator_that_is_named_goes_on(path: Path) -> None:
    generator = ef.random.default_generator()
    ef.random.seed(3)
    ef.checkpoint.save(path, {"rng": generator})
    expected = ef.random.normal(2)
    ef.random.seed(0)
    assert '"rng": ef.random.default_generator() ' in refusal(path, {})
    ef.checkpoint.load(path, like={"rng": generator})
    assert (ef.random.normal(2) == expected).all()


def test_the_iterator_that_is_named_goes_on(path: Path) -> None:
    iterator = iter(_DATA)
    next(iterator)
    ef.checkpoint.save(path, {"data": iterator})
    assert '"data": iter(dataset)' in refusal(path, {})
    assert next(ef.checkpoint.load(path, like={"data": iter(_DATA)})["data"]) == 1


def test_the_entry_that_is_named_gets_the_value(path: Path) -> None:
    ef.checkpoint.save(path, {"v": ef.Variable(1.0), "epoch": 3})
    assert ef.checkpoint.load(path, like={"v": ef.Variable(0.0), "epoch": 0})["epoch"] == 3


def test_the_nearest_path_of_a_state_is_named() -> None:
    net, other = ef.nn.Linear(2, 3), ef.nn.Sequential(ef.nn.Linear(2, 3))
    with pytest.raises(CheckpointError, match="is 'wieght' there 'weight' here"):
        net.load_state({"wieght": net.weight, "bias": net.bias})
    with pytest.raises(CheckpointError, match=r"is 'layers\.0\.weight' there 'weight' here"):
        net.load_state(other.state)


def test_the_folder_of_a_manager_is_no_checkpoint(tmp_path: Path) -> None:
    manager = ef.checkpoint.Manager(tmp_path)
    for step in (1, 2):
        manager.save(step, {"x": 1.0})
    with pytest.raises(CheckpointError, match="is a folder of checkpoints") as caught:
        ef.checkpoint.load(tmp_path)
    assert caught.value.given == "step-00000002, step-00000001"
    assert f"load {manager.path(2)}" in str(caught.value.hint)
