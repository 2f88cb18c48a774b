"""Keymaps: presets, own keys, refusals, and one source for bindings, footers, help and hints."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files

import pytest
from textual.keys import _character_to_key

from tcexplore.documents.timing.accuracy_rows import accuracy_rows
from tcexplore.keymap import (
    ACTIONS,
    DEFAULTS,
    PRESETS,
    TASKS,
    AppearanceError,
    available,
    hint,
    keys_of,
    make_keymap,
    normal_keys,
    shown_key,
    use_keymap,
)
from tcexplore.ui.actions import bindings, footer
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.appearance import Appearance, read_keymap
from tcexplore.ui.screens.diff_screen import DiffScreen
from tcexplore.ui.screens.fix_screen import FixScreen
from tcexplore.ui.screens.help_screen import keys, page_text
from tcexplore.ui.screens.main_screen import MainScreen
from tests import fakes
from tests.ui.app_under_test import FakeEngine, run_app

PAGES = [page.name.removesuffix(".md") for page in files("tcexplore.ui.help").iterdir() if page.name.endswith(".md")]


@pytest.fixture(autouse=True)
def default_keymap() -> Iterator[None]:
    yield
    use_keymap({})


def test_every_action_has_a_name_of_its_own_and_a_task():
    assert [name for name, times in Counter(action.name for action in ACTIONS).items() if times > 1] == []
    assert {action.task for action in ACTIONS} == set(TASKS)
    assert all(action.pair.last in DEFAULTS for action in ACTIONS if action.pair)


def test_keys_have_the_names_of_textual():
    for character in map(chr, range(0x21, 0x7F)):
        if character != ",":
            assert normal_keys("fix", character) == _character_to_key(character)
            assert shown_key(_character_to_key(character)) == character
    assert normal_keys("fix", "F5,Ctrl+D") == "f5,ctrl+d"
    assert normal_keys("fix", "ctrl+], shift+tab ,comma") == "ctrl+right_square_bracket,shift+tab,comma"
    assert [shown_key(key) for key in ("ctrl+d", "shift+tab", "pageup", "alt+x", "comma")] == [
        "^d", "⇧tab", "PgUp", "alt+x", ",",
    ]  # fmt: skip


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_has_no_conflict_and_hides_no_action(preset: str):
    use_keymap(make_keymap(preset, {}))
    for screen in (MainScreen, DiffScreen, FixScreen):
        taken = Counter(key for action in available(screen.SCOPES) for key in action.keys)
        assert [key for key, times in taken.items() if times > 1] == []
    hidden = {action.name for action in ACTIONS if action.scope == "app"} - {
        action.name for action in available(MainScreen.SCOPES)
    }
    assert hidden == set()
    unbound = [action.name for action in ACTIONS if action.default_keys and not action.keys]
    assert unbound == []


@pytest.mark.parametrize(
    ("entries", "entry", "message"),
    [
        ({"fixx": "a"}, "fixx", "there is no action 'fixx'; did you mean 'fix'?"),
        ({"fix": "z"}, "fix", "z is the key of 'zoom' and of 'fix'; give one another key"),
        ({"zoom": "?"}, "zoom", "? is the key of 'zoom' and of 'help'"),
        ({"fix": "crtl+d"}, "fix", "there is no key 'crtl+d'"),
        ({"fix": "h,"}, "fix", "there is no key ''"),
        ({"fix": "\x1b"}, "fix", "there is no key '\\x1b'"),
        ({"fix": 3}, "fix", "keys are a text"),
        ({"preset": "emacs"}, "preset", "there is no keymap 'emacs'; use one of default, lazygit, vim"),
        ({"preset": 1}, "preset", "the name of a keymap is needed"),
    ],
)
def test_an_invalid_keymap_names_the_entry(entries: dict[str, object], entry: str, message: str):
    with pytest.raises(AppearanceError) as refused:
        read_keymap(entries)
    assert getattr(refused.value, "name", "") == entry
    assert message in str(refused.value)


def test_own_keys_come_on_top_of_a_preset():
    changes = read_keymap({"preset": "vim", "fix": ["ctrl+a", "A"], "zoom": ""})
    use_keymap(changes)
    assert keys_of("fix") == ("ctrl+a", "A")
    assert keys_of("left") == ("left", "h")
    assert keys_of("zoom") == ()
    assert hint("zoom") == ":", "without a key, the command list"


@pytest.mark.parametrize("page", PAGES)
def test_help_pages_show_the_keys_in_use(page: str):
    source = (files("tcexplore.ui.help") / f"{page}.md").read_text()
    names = re.findall(r"{([a-z-]+)}", source)
    use_keymap({name: f"f{n}" for n, name in enumerate(dict.fromkeys(names), 1)})
    text = page_text(page)
    assert "{" not in text
    assert all(f"`{hint(name)}`" in text for name in names)
    assert not re.findall(r"(?:[Pp]ress|with|and) `[a-zA-Z]`", source), "a key that a keymap can change"


async def test_the_app_uses_the_keymap_and_shows_it_everywhere():
    appearance = Appearance(keymap=read_keymap({"fix": "ctrl+a", "zoom": "Z", "next-pane": "l", "help": "f1"}))
    first = ExplorerApp(FakeEngine, appearance=appearance).main._footer._line(160).text
    assert "Z zoom" in first, "the first frame shows the keys, too"
    async with run_app(fakes.session(fakes.complete(7)), appearance=appearance) as ui:
        assert not ui.app.main.grid.zoomed
        await ui.press("z")
        assert not ui.app.main.grid.zoomed, "the default key is free"
        await ui.press("Z")
        assert ui.app.main.grid.zoomed
        await ui.press("Z")
        before = ui.current
        await ui.press("l")
        assert ui.current != before
        await ui.press("tab")
        assert ui.current != before
        assert "Z zoom" in ui.screen
        assert "f1 help" in ui.screen
        await ui.press("3")
        assert "^a: look for a fix" in ui.screen
        await ui.press("f1")
        assert "`^a`" not in ui.screen
        assert "^a shows a change of your line" in ui.screen


async def test_lazygit_moves_between_panes_and_views():
    appearance = Appearance(keymap=read_keymap("lazygit"))
    async with run_app(fakes.session(fakes.complete(7)), appearance=appearance) as ui:
        await ui.press("2", "l")
        assert ui.current == "breaks"
        await ui.press("left")
        assert ui.current == "graph"
        await ui.press("]")
        assert ui.pane("graph").view.name == "modules"
        await ui.press("[", "greater_than_sign")
        assert ui.pane("graph").view.name == "nodes"
        assert ui.view("graph").cursor == len(ui.view("graph").document) - 1
        await ui.press("less_than_sign")
        assert ui.view("graph").cursor == 0
        await ui.press("plus")
        assert ui.app.main.grid.zoomed
        await ui.press("R")
        assert ui.engine.requests == ["rerun"]


async def test_vim_scrolls_with_h_and_l_and_pages_with_ctrl():
    appearance = Appearance(keymap=read_keymap("vim"))
    async with run_app(fakes.session(fakes.complete(7)), appearance=appearance) as ui:
        await ui.press("1", "G")
        last = ui.view("source").cursor
        assert last == len(ui.view("source").document) - 1
        await ui.press("g", "g")
        assert ui.view("source").cursor == 0
        await ui.press("ctrl+d")
        assert ui.view("source").cursor > 0
        await ui.press("ctrl+u")
        assert ui.view("source").cursor == 0
        await ui.press("ctrl+w")
        assert ui.current == "graph"


def test_footers_and_help_follow_the_keymap():
    use_keymap(read_keymap({"earlier-save": "ctrl+up", "later-save": "ctrl+down", "source-pane": "f1"}))
    line = footer(MainScreen.SCOPES)(200).text
    assert "^↑ ^↓ history" in line
    assert "f1-7 pane" in line
    assert "^↑" in keys(MainScreen.SCOPES).plain


def test_class_bindings_have_the_names_of_actions_as_ids():
    assert {binding.id for binding in bindings("main") if not isinstance(binding, tuple)} == {
        action.name for action in ACTIONS if action.scope == "main"
    }


def test_hints_of_documents_follow_the_keymap():
    run = fakes.complete(7)
    assert run.accuracy is not None
    wrong = replace(run, accuracy=replace(run.accuracy, verdict="wrong"))
    use_keymap({"bisect": "f9"})
    text = "\n".join(row.text for row in accuracy_rows(wrong, 78))
    assert "f9 the compiler stage" in text
