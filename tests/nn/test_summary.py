from __future__ import annotations

from typing import Any

import pytest

import eagerflow as ef
from eagerflow import nn
from eagerflow.errors import ShapeError


def test_rows() -> None:
    model = nn.Sequential(nn.Linear(64, 16), nn.Sequential(nn.Dropout(0.5), nn.Linear(16, 10)))
    table = model.summary(ef.zeros((8, 64)))
    assert [(r.path, r.name, r.output, r.parameters, r.nbytes) for r in table.rows] == [
        ("", "Sequential", "f32[8,10]", 0, 0),
        ("layers.0", "Linear", "f32[8,16]", 1040, 4160),
        ("layers.1", "Sequential", "f32[8,10]", 0, 0),
        ("layers.1.layers.0", "Dropout", "f32[8,16]", 0, 0),
        ("layers.1.layers.1", "Linear", "f32[8,10]", 170, 680),
    ]
    assert (table.parameters, table.trainable, table.nbytes) == (1210, 1210, 4840)


def test_text() -> None:
    model = nn.Sequential(nn.Linear(64, 160), nn.Linear(160, 10))
    model[0].freeze()
    assert repr(model.summary(ef.zeros((8, 64)))).split("\n") == [
        "layer     class       output      parameters    bytes",
        "          Sequential  f32[8,10]            0      0 B",
        "layers.0  Linear      f32[8,160]      10,400  41.6 kB",
        "layers.1  Linear      f32[8,10]        1,610  6,440 B",
        "12,010 parameters (48.0 kB), 1,610 trainable, 10,400 frozen",
    ]


def test_html_is_escaped_and_has_no_colours_of_its_own() -> None:
    class Named(nn.Module):
        def forward(self, x: Any) -> Any:
            return self.parts["<b>"](x)

    model = Named()
    model.parts = {"<b>": nn.Identity()}
    html = model.summary(ef.zeros(2))._repr_html_()
    assert "parts.&lt;b&gt;" in html
    assert "<b>" not in html
    assert "#" not in html
    assert "currentColor" in html


def test_without_inputs_there_are_no_outputs() -> None:
    assert [r.output for r in nn.Sequential(nn.Linear(2, 3)).summary().rows] == ["", ""]


def test_shared_modules_and_variables_count_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.first = nn.Linear(3, 3)
            self.again = self.first
            self.other = nn.Linear(3, 3)
            self.other.weight = self.first.weight

        def forward(self, x: Any) -> Any:
            return self.other(self.again(self.first(x)))

    table = Tied().summary(ef.zeros((2, 3)))
    assert [(r.path, r.parameters, r.calls) for r in table.rows] == [
        ("", 0, 1), ("first", 12, 2), ("other", 3, 1),
    ]  # fmt: skip
    assert "f32[2,3] x2" in repr(table)


def test_several_outputs_and_keyword_inputs() -> None:
    class Two(nn.Module):
        def forward(self, x: Any, *, scale: Any) -> Any:
            return {"a": x * scale, "b": (x.sum(), 1)}

    assert Two().summary(ef.zeros(3), scale=ef.ones(3)).rows[0].output == "f32[3], f32[]"


def test_nothing_changes_and_nothing_is_computed() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            self.calls = 0
            self.seen: list[Any] = []
            self.total = ef.Variable(0.0, trainable=False)
            self.drop = nn.Dropout(0.5)

        def forward(self, x: Any) -> Any:
            self.calls += 1
            self.seen.append(x)
            self.total.assign_add(x.sum())
            print("a warning of the trace, and nothing more")
            return self.drop(x)

    model = Counting()
    ef.random.seed(3)
    with ef.profile() as profile:
        table = model.summary(ef.ones((1000, 1000)))
    assert table.rows[1].output == "f32[1000,1000]"
    assert (model.calls, model.seen, float(model.total)) == (0, [], 0.0)
    assert ef.random.default_generator().state == {"seed": 3, "ticket": 0}
    assert "random_uniform" not in {row.name for row in profile.table()}


def test_objects_that_a_model_makes_may_be_its_output() -> None:
    class Odd(nn.Module):
        def forward(self, x: Any) -> Any:
            return object()

    assert Odd().summary(ef.zeros(2)).rows[0].output == ""


def test_inputs_that_do_not_fit() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(4, 2))
    with pytest.raises(ShapeError, match=r"Linear: the last axis(.|\n)*got: x=f32\[7,3\]"):
        model.summary(ef.zeros((7, 4)))


def test_buffers_count_as_memory_alone() -> None:
    row = nn.BatchNorm(4).summary().rows[0]
    assert (row.parameters, row.nbytes) == (8, 4 * 4 * 4 + 8)


@pytest.mark.parametrize("numpy", [False, True])
def test_inputs_that_are_wider_than_the_parameters_are_told(numpy: bool) -> None:
    x = ef.ones((8, 2), dtype=ef.float64)
    net = ef.nn.Linear(2, 3)
    table = net.summary(x.numpy() if numpy else x)
    assert table.note.startswith("inputs of f64 and parameters of f32: all is computed in f64")
    assert str(table).endswith(table.note)
    assert f"<br>{table.note}" in table._repr_html_()
    assert net.summary(x.astype(ef.float32)).note == ""
    assert net.summary(x.astype(ef.float16)).note == ""
    assert net.summary().note == ""
    assert ef.nn.Flatten().summary(x).note == ""
