"""Kinds of queues: a new kind is known at every place that lists kinds."""

from __future__ import annotations

import re
from inspect import get_annotations
from typing import get_args

import eagerflow as ef
from eagerflow.resources.queue_kinds import KINDS
from tests.source_tree import ROOT


def test_each_kind_is_in_the_signature_the_docstring_and_the_page() -> None:
    kinds = [*KINDS]
    annotation = get_annotations(ef.Queue.__init__, eval_str=True)["kind"]
    assert [*get_args(annotation)] == kinds
    described = re.search(r"\n +kind: .*?(?=\n {8}\w+: )", ef.Queue.__doc__ or "", re.DOTALL)
    assert described is not None
    assert re.findall(r'``"(\w+)"``', described[0]) == kinds
    page = (ROOT / "docs/queues.md").read_text(encoding="utf-8")
    table = page.partition("| kind | the next element |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r'^\| `"(\w+)"`', table, re.MULTILINE)) == sorted(kinds)
