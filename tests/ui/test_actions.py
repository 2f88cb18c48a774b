"""The table of actions, its keys and its footers."""

from __future__ import annotations

from collections import Counter

import pytest

from tcexplore.keymap import ACTIONS, TASKS, Action, available, grouped
from tcexplore.ui.actions import footer
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.pane_table import PANES
from tcexplore.ui.row_view import RowView
from tcexplore.ui.screens.bisect_screen import BisectScreen
from tcexplore.ui.screens.diff_screen import DiffScreen
from tcexplore.ui.screens.fix_screen import FixScreen
from tcexplore.ui.screens.help_screen import keys, page_text
from tcexplore.ui.screens.main_screen import MainScreen
from tcexplore.ui.screens.modes_screen import EnvironmentsScreen, ModesScreen
from tcexplore.ui.screens.ranks_screen import RanksScreen
from tcexplore.ui.screens.reading_screen import AnswerScreen, ReadingScreen
from tcexplore.ui.screens.studies_screen import StudiesScreen
from tcexplore.ui.screens.study_screen import StudyScreen
from tcexplore.ui.screens.target_screens import TargetDiffScreen, TargetScreen
from tests.documents.golden import check
from tests.ui.app_under_test import GOLDENS

_CLASSES = {
    "view": RowView,
    "timeline": RowView,
    "reading": ReadingScreen,
    "main": MainScreen,
    "diff": DiffScreen,
    "answer": AnswerScreen,
    "target": TargetScreen,
    "target_diff": TargetDiffScreen,
    "study": StudyScreen,
    "modes": ModesScreen,
    "environments": EnvironmentsScreen,
    "bisect": BisectScreen,
    "fix": FixScreen,
    "ranks": RanksScreen,
    "studies": StudiesScreen,
    "app": ExplorerApp,
}
_STUDIES = (StudyScreen, ModesScreen, EnvironmentsScreen, BisectScreen, FixScreen)
_SCREENS = (MainScreen, DiffScreen, AnswerScreen, TargetScreen, TargetDiffScreen, StudiesScreen, *_STUDIES)


def test_every_bound_action_exists():
    for action in ACTIONS:
        assert hasattr(_CLASSES[action.scope], f"action_{action.run.partition('(')[0]}"), action.run


@pytest.mark.parametrize("screen", _SCREENS)
def test_keys_are_unique_on_each_screen(screen: type[ReadingScreen]):
    keys = Counter(key for action in available(screen.SCOPES) for key in action.keys)
    assert [key for key, times in keys.items() if times > 1] == []


def test_every_pane_has_a_key_and_a_help_page():
    assert [pane.number for pane in PANES] == list(range(1, 8))
    for pane in PANES:
        assert any(action.run == f"show_pane('{pane.id}')" for action in ACTIONS)
        assert page_text(pane.id)
    assert page_text("diff")


def test_the_footer_of_a_pane_begins_with_its_keys():
    assert "R recompile check  S studies" in footer(MainScreen.SCOPES, "guards")(80).text
    assert "T target" in footer(MainScreen.SCOPES, "code")(80).text
    assert "S studies" in footer(MainScreen.SCOPES, "timing")(80).text
    assert all(": commands" in footer(MainScreen.SCOPES, pane.id)(80).text for pane in PANES)
    text = footer(MainScreen.SCOPES, "graph")(160).text
    assert text.index("v view") < text.index("z zoom")


def test_the_footers_of_all_screens_and_panes():
    """`goldens/footers.txt`, which a change of one label changes; the goldens of screens have no footer."""
    lines = []
    for screen in _SCREENS:
        for pane in [pane.id for pane in PANES] if screen is MainScreen else [""]:
            lines.append(f"[{screen.__name__} {pane}".rstrip() + "]")
            lines += [footer(screen.SCOPES, pane)(width).text.rstrip() for width in (80, 120, 160)]
    lines += ["[MainScreen of a trace]", footer(MainScreen.SCOPES, "graph", trace=True)(160).text.rstrip()]
    check("footers", "\n".join(lines) + "\n", GOLDENS)


def test_the_help_lists_each_key_once_under_a_task():
    text = keys(MainScreen.SCOPES).plain
    groups = grouped(_live())
    for group in groups:
        assert text.count(group[0].help if len(group) < 3 else "Go to a pane:") == 1, group[0].help
    assert Counter(key for group in groups for action in group for key in action.keys) == Counter(
        key for action in _live() for key in action.keys
    )
    assert [task for task in TASKS if f"{task}\n" in text] == [*TASKS]


def test_a_user_has_to_know_at_most_30_keys():
    assert len(grouped(_live())) <= 30


def _live() -> list[Action]:
    """Return the actions that the main screen of a live program has."""
    return [action for action in available(MainScreen.SCOPES) if not action.of_trace]


def test_w_only_writes():
    assert {action.run for action in ACTIONS if "w" in action.keys} == {"write"}


def test_the_footer_fits_and_always_shows_how_to_leave():
    for width in (20, 40, 80, 120, 200):
        texts = {screen: footer(screen.SCOPES)(width).text for screen in _SCREENS}
        assert all(len(text.rstrip()) <= width for text in texts.values())
        assert "q quit" in texts[MainScreen] or width < 40
        assert "esc" in texts[DiffScreen] or width < 40
        assert "esc" in texts[AnswerScreen]
    assert "1-7 pane" in footer(MainScreen.SCOPES)(80).text
