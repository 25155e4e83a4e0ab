"""First paint: each view is drawn from its output alone, and layouts are sent once."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.bench.first_paint import VIEWS, first_paints, sizes
from tests.browser.lab import Lab

pytestmark = pytest.mark.browser


def test_each_view_is_drawn_and_the_layouts_are_sent_once(lab: Lab, browser: Browser) -> None:
    """Two of them have graphs; the bench measures their times."""
    times_by_view, layouts = first_paints(lab, browser, 1)
    assert {name: len(times) for name, times in times_by_view.items()} == dict.fromkeys(VIEWS, 1)
    assert layouts == 1
    assert sizes()["a view"] <= 200_000
