"""The picture of `docs/partitions.md`: it shows the partitions of the step, and is up to date."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter

import pytest

from eagerflow.graph import Graph
from eagerflow.pictures.contents import Contents, contents_of
from tests.pictures.partitioned_step import STORED, partitioned_step

TEXT = "{http://www.w3.org/2000/svg}text"


@pytest.fixture(scope="module")
def picture() -> Contents:
    return contents_of(partitioned_step())


def texts_of(picture: Contents) -> Counter[str]:
    """All texts of a picture without types, wherever they stand."""
    boxes = [line for box in picture.boxes for line in box.lines]
    groups = [g.name for g in picture.root.walk() if g.open and g.kind == "device"]
    return Counter([*boxes, *groups, *[edge.label for edge in picture.edges if edge.moved]])


def test_only_transfers_cross(picture: Contents) -> None:
    crossing = [e for e in picture.edges if e.source.device != e.target.device and e.moved]
    assert [(e.source.lines[0], e.target.lines[0], e.title) for e in crossing] == [
        ("Send", "Recv", "f32[32,16], 2.05 kB\ncpu:0 to cpu:1"),
        ("Send", "Recv", "f32[32,16], 2.05 kB\ncpu:1 to cpu:0"),
    ]
    others = [e for e in picture.edges if e not in crossing]
    assert {(e.source.device, e.target.device) for e in others} <= {
        ("cpu:0", "cpu:0"), ("cpu:1", "cpu:1"), (None, "cpu:0"), (None, "cpu:1"),
    }  # fmt: skip


def test_the_stored_picture_is_that_of_the_step(picture: Contents) -> None:
    """If not, ``python -m tests.pictures.partitioned_step`` draws it anew."""
    drawn = ["".join(e.itertext()).strip() for e in ET.parse(STORED).iter(TEXT)]
    assert Counter(drawn) == texts_of(picture)


def test_another_step_has_another_picture(picture: Contents) -> None:
    graph = partitioned_step()
    changed = Graph.parse(str(graph).replace("tanh", "sinh"), graph.resources)
    assert texts_of(contents_of(changed)) != texts_of(picture)
