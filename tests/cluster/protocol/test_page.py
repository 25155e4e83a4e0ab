"""The page of the protocol lists exactly the records of messages, with their fields in order."""

from __future__ import annotations

import re
from typing import Any

from eagerflow.cluster.protocol import eager_actions, message_heads, messages
from eagerflow.cluster.protocol.message_limits import LIMITS
from tests.source_tree import ROOT

PAGE = (ROOT / "docs" / "protocol.md").read_text()


def records() -> dict[str, set[tuple[str, ...]]]:
    fields_by_tag: dict[str, set[tuple[str, ...]]] = {}
    for value in (vars(message_heads) | vars(eager_actions) | vars(messages)).values():
        tag = getattr(getattr(value, "__struct_config__", None), "tag", None)
        if tag is not None:
            fields_by_tag.setdefault(tag, set()).add(value.__struct_fields__)
    return fields_by_tag


def rows() -> dict[str, set[tuple[str, ...]]]:
    fields_by_tag: dict[str, set[tuple[str, ...]]] = {}
    for tag, fields in re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE, re.MULTILINE):
        plain = re.sub(r"\([^)]*\)", "", fields)
        fields_by_tag.setdefault(tag, set()).add(tuple(re.findall(r"`(\w+)`", plain)))
    return fields_by_tag


def test_it_says_every_record() -> None:
    assert rows() == records()


def test_it_says_the_limits() -> None:
    said: dict[str, Any] = {
        "a header": LIMITS.header >> 20, "a frame": LIMITS.frame >> 30, "a text": LIMITS.text >> 20,
    }  # fmt: skip
    text = PAGE[PAGE.index("## Limits") :].lower()
    for what, size in said.items():
        assert re.search(rf"{what} (has at most )?{size} [mg]b", text), what
    for number in (LIMITS.frames, LIMITS.nodes, LIMITS.sessions, LIMITS.partitions):
        assert f"{number:,}" in text
