"""Sizes, theme and views that the user chose are remembered; a damaged file costs nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.pane_grid import PaneSizes
from tcexplore.ui.saved_settings import Settings, load, store
from tests import fakes
from tests.ui.app_under_test import FakeEngine, run_app


async def test_what_the_user_chose_is_there_at_the_next_start(tmp_path: Path):
    file = tmp_path / "state" / "settings.json"
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("greater_than_sign", "2", "v")
        ui.app.theme = "ansi-light"
        chosen = ui.app.settings
        store(file, chosen)
    again = ExplorerApp(FakeEngine, settings=load(file))
    assert replace(again.settings, theme="") == replace(chosen, theme="")
    assert load(file).theme == "ansi-light"
    assert again.main.grid.sizes != PaneSizes()
    assert again.main.grid.panes["graph"].view.name == "modules"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        '{"version": 99}',
        "[" * 50_000,
        json.dumps(
            {"version": 1, "sizes": {"columns": [1, 2, 97], "rows": "x", "source": 500}, "theme": 3, "views": []}
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
