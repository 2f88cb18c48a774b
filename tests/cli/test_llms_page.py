"""docs/llms.txt describes the commands, options and JSON keys that exist."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.cli.llms_page import render

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "llms.txt"


def test_the_page_for_programs_is_current() -> None:
    page = render(json.loads((ROOT / "tcexplore" / "report" / "schema.json").read_text()))
    if os.environ.get("TCEXPLORE_GOLDENS") == "write":
        PAGE.write_text(page)
    assert page == PAGE.read_text(), "run with TCEXPLORE_GOLDENS=write after a change of options or of the schema"
