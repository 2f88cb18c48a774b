"""docs/keys.md lists every action with its keys."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tcexplore.cli import main
from tcexplore.keymap import use_keymap
from tests.cli.keys_page import render

PAGE = Path(__file__).parents[2] / "docs" / "keys.md"


def test_the_page_of_keys_is_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    keymaps = {}
    for name in ("default", "lazygit", "vim"):
        assert main(["config", "--keys", "--json", "--keymap", name]) == 0
        keymaps[name] = json.loads(capsys.readouterr().out)["actions"]
    use_keymap({})
    page = render(keymaps)
    if os.environ.get("TCEXPLORE_GOLDENS") == "write":
        PAGE.write_text(page)
    assert page == PAGE.read_text(), "run with TCEXPLORE_GOLDENS=write after a change of keys"
