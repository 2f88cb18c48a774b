"""Sizes, theme and views that the user chose are remembered; a damaged file costs nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.pane_grid import Place
from tcexplore.ui.pane_layout import PaneSizes
from tcexplore.ui.saved_settings import Settings, load, store
from tests import fakes
from tests.ui.app_under_test import FakeEngine, run_app


async def test_what_the_user_chose_is_there_at_the_next_start(tmp_path: Path):
    file = tmp_path / "state" / "settings.json"
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.app.file = "/models/a.py"
        await ui.act("wider")
        await ui.press("2", "v")
        ui.app.theme = "ansi-light"
        chosen = ui.app.chosen_settings(Settings())
        store(file, chosen)
    again = ExplorerApp(FakeEngine, settings=load(file), file="/models/a.py")
    assert replace(again.chosen_settings(load(file)), theme="") == replace(chosen, theme="")
    assert load(file).theme == "ansi-light"
    assert again.main.grid.sizes != PaneSizes()
    assert again.main.grid.place == chosen.place_in("/models/a.py")
    assert again.main.grid.panes["graph"].view is not again.main.grid.panes["graph"].spec.views[0]


def test_another_file_opens_with_the_default_pane_and_views():
    settings = Settings().with_place("/models/a.py", Place("output", {"timing": "timeline"}))
    other = ExplorerApp(FakeEngine, settings=settings, file="/models/b.py").main.grid
    assert other.current == "source"
    assert all(pane.view is pane.spec.views[0] for pane in other.panes.values())


async def test_a_file_opened_later_gets_its_own_place_and_target():
    place = Place("output", {"graph": "code"})
    settings = Settings().with_place("/models/b.py", place).with_target("/models/b.py", "h100")
    engine = FakeEngine()
    app = ExplorerApp(lambda: engine, settings=settings, file="/models/a.py")
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.press("6")
        await pilot.pause()
        app.open_file("/models/b.py")
        await pilot.pause()
        assert engine.requests == ["open /models/b.py h100"]
        assert (app.main.grid.current, app.main.grid.panes["graph"].view.name) == ("output", "code")
        app.open_file("/models/a.py")
        await pilot.pause()
        assert app.main.grid.current == "timing"
        stored = Settings().with_place("/models/c.py", Place("code"))
        chosen = app.chosen_settings(stored)
        assert [chosen.place_in(f"/models/{name}.py").pane for name in "abc"] == ["timing", "output", "code"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        '{"version": 99}',
        "[" * 50_000,
        json.dumps(
            {"version": 1, "shares": {"columns": [1, 2, 97], "upper": "x", "source": 500}, "theme": 3, "places": []}
        ),
    ],
)
def test_a_damaged_file_gives_the_defaults(tmp_path: Path, text: str):
    file = tmp_path / "settings.json"
    file.write_text(text)
    assert load(file) == Settings()


def test_settings_that_cannot_be_written_are_dropped(tmp_path: Path):
    (tmp_path / "file").write_text("mine")
    store(tmp_path / "file" / "settings.json", Settings(theme="nord"))
    assert load(tmp_path / "file" / "settings.json") == Settings()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file": "mine"}
