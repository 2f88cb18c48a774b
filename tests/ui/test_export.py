"""Files that the palette saves."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests import fakes
from tests.ui.app_under_test import run_app


async def test_every_kind_is_saved_under_a_new_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        for kind in ("svg", "html", "txt", "json", "json"):
            ui.app.action_export(kind)
            await ui.settle()
        assert ui.notifications == [f"Saved {tmp_path}/mlp-run7-1.json."]
    assert set(os.listdir(tmp_path)) == {
        "mlp-run7.svg",
        "mlp-run7.html",
        "mlp-run7.txt",
        "mlp-run7.json",
        "mlp-run7-1.json",
    }
    assert ET.parse(tmp_path / "mlp-run7.svg").getroot().tag.endswith("svg")
    assert json.loads((tmp_path / "mlp-run7.json").read_text())["graphs"]
    assert "1 graph break" in (tmp_path / "mlp-run7.txt").read_text()


async def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        monkeypatch.setattr("tcexplore.ui.user_files.Path.cwd", lambda: tmp_path / "missing")
        ui.app.action_export("json")
        await ui.settle()
        assert "missing" in ui.notifications[0]
        assert "Saved" not in ui.notifications[0]


async def test_a_run_of_an_earlier_start_is_saved_under_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    past = replace(fakes.complete(-1), began=datetime(2026, 11, 21, 17, 32).timestamp(), past="Sat 17:32")
    async with run_app(fakes.session(past)) as ui:
        ui.app.action_export("txt")
        await ui.settle()
    assert os.listdir(tmp_path) == ["mlp-20261121-173200.txt"]
