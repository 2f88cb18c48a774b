"""One table of actions: every key does something, and does one thing."""

from __future__ import annotations

from collections import Counter

from tcexplore.ui.actions import ACTIONS
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.footer import footer
from tcexplore.ui.line_view import LineView
from tcexplore.ui.panes import PANES
from tcexplore.ui.screens.help import text_of
from tcexplore.ui.screens.main import MainScreen

_CLASSES = {"view": LineView, "screen": MainScreen, "app": ExplorerApp}


def test_every_action_exists_where_its_key_is_bound():
    for action in ACTIONS:
        assert hasattr(_CLASSES[action.scope], f"action_{action.run.partition('(')[0]}"), action.run


def test_no_key_does_two_things():
    keys = Counter(key for action in ACTIONS for key in action.keys.split(","))
    assert [key for key, times in keys.items() if times > 1] == []


def test_every_pane_has_a_key_and_a_help_page():
    assert [pane.number for pane in PANES] == list(range(1, 8))
    for pane in PANES:
        assert any(action.run == f"show_pane('{pane.id}')" for action in ACTIONS)
        assert text_of(pane.id)


def test_the_footer_fits_and_keeps_the_way_out():
    for width in (20, 40, 80, 120, 200):
        text = footer(width).text
        assert len(text.rstrip()) <= width
        assert "q quit" in text or width < 40
    assert "1-7 pane" in footer(80).text
