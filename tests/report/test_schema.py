"""The published JSON Schema of the report and the page that documents it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tcexplore.events import Standby
from tcexplore.report.json_report import SCHEMA, report
from tcexplore.session import Snapshot
from tests import fakes
from tests.report.schema_tables import render
from tests.snapshots import gpu, measured, recompiling, training

ROOT = Path(__file__).parents[2]
MACHINE = Standby(torch="2.13.0+cpu", python="3.11.7", device="cpu", seconds=4.2)
PAGE = ROOT / "docs" / "report.md"

RUNS = {
    "complete": fakes.complete(9),
    "failed": fakes.failed(),
    "nothing_compiled": fakes.nothing_compiled(),
    "facts_missing": fakes.facts_missing(),
    "recompiled": fakes.recompiled(),
    "two_files": fakes.two_files(),
    "running": fakes.running(),
    "training": training.run(),
    "gpu": gpu.run(target="h100"),
    "measured": measured.run(),
    "recompiles": recompiling.run(),
}


def schema() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((ROOT / "tcexplore" / "report" / "schema.json").read_text())
    return content


def validate(snapshot: Snapshot, machine: Standby | None = MACHINE) -> None:
    """Raise a `ValidationError` if the report of a run does not follow the schema."""
    whole = json.loads(json.dumps(report(snapshot, machine, ["1 graph break, more than 0"], 1000)))
    jsonschema.Draft202012Validator(schema()).validate(whole)


def test_schema_is_valid_and_strict():
    jsonschema.Draft202012Validator.check_schema(schema())
    assert schema()["properties"]["schema"] == {"const": SCHEMA, "description": "Version of this format."}
    objects = [part for part in _parts(schema()) if "properties" in part]
    assert all(part["additionalProperties"] is False for part in objects)
    assert all(part["required"] == list(part["properties"]) for part in objects)


def _parts(part: Any) -> list[dict[str, Any]]:
    if isinstance(part, list):
        return [inner for item in part for inner in _parts(item)]
    if not isinstance(part, dict):
        return []
    own = [part] if part.get("type") == "object" else []
    return own + [inner for value in part.values() for inner in _parts(value)]


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_report_follows_the_schema(run: Snapshot):
    validate(run)
    validate(run, None)


def test_unknown_key_violates_the_schema():
    whole = report(RUNS["complete"], MACHINE)
    for wrong in ({**whole, "extra": 1}, {**whole, "config": {**whole["config"], "extra": 1}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(schema()).validate(json.loads(json.dumps(wrong)))


def test_page_lists_every_key():
    page = render(schema())
    if os.environ.get("TCEXPLORE_GOLDENS") == "write":
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page)
    assert page == PAGE.read_text(), "run with TCEXPLORE_GOLDENS=write after a change of the schema"
