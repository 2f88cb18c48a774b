"""The published JSON Schema of the report and the page that documents it."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import jsonschema
import pytest

from tcexplore import events as ev
from tcexplore.report import json_records
from tcexplore.report.json_report import SCHEMA, report
from tcexplore.session import Snapshot
from tests import fakes
from tests.report import schema_keys
from tests.report.schema_tables import render
from tests.snapshots import gpu, measured, mlp_timing, recompiling, training

ROOT = Path(__file__).parents[2]
MACHINE = ev.Standby(torch="2.13.0+cpu", python="3.11.7", device="cpu", seconds=4.2)
SCHEMA_FILE = ROOT / "tcexplore" / "report" / "schema.json"
PAGE = ROOT / "docs" / "report.md"

RARE_EVENTS = (
    ev.StateKeys(run=9, count=1, module=("w",), compiled=("_orig_mod.w",), in_place=("w",), prefix="_orig_mod."),
    ev.CustomOpChecked(run=9, op="mylib.pooled", test="test_schema", passed=False, reason="mismatch"),
    ev.GraphSplit(run=9, graph="0/0", part="submod_0", ops=3),
    replace(mlp_timing.estimate(), run=9, memory_returned=mlp_timing.RETURNED, processes=mlp_timing.PROCESSES),
)

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
    "rare": functools.reduce(Snapshot.apply, RARE_EVENTS, fakes.complete(9)),
}


def schema() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(SCHEMA_FILE.read_text())
    return content


def validate(snapshot: Snapshot, machine: ev.Standby | None = MACHINE) -> None:
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


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[type]]:
    """Classes of the records in the reports of all runs, by the definition that describes them."""
    classes: dict[str, set[type]] = {}
    real = json_records.fields

    def fields(definition: str, record: Any, **values: Any) -> dict[str, Any]:
        if dataclasses.is_dataclass(record) and not isinstance(record, Snapshot):
            classes.setdefault(definition, set()).add(type(record))
        return real(definition, record, **values)

    for module in [module for name, module in sys.modules.items() if name.startswith("tcexplore.report.json_")]:
        if getattr(module, "fields", None) is real:
            monkeypatch.setattr(module, "fields", fields)
    for run in RUNS.values():
        report(run, MACHINE)
    return classes


def test_every_field_has_a_key_and_every_key_is_documented(records: dict[str, set[type]]):
    whole = schema_keys.complete(schema(), records)
    page = render(whole)
    if os.environ.get("TCEXPLORE_GOLDENS") == "write":
        SCHEMA_FILE.write_text(schema_keys.text(whole) + "\n")
        json_records.definitions.cache_clear()
        PAGE.write_text(page)
    assert schema_keys.text(whole) + "\n" == SCHEMA_FILE.read_text(), "run with TCEXPLORE_GOLDENS=write"
    assert page == PAGE.read_text(), "run with TCEXPLORE_GOLDENS=write"


@dataclasses.dataclass(frozen=True)
class Sizes:
    """A record with fields of every kind that gets a key by itself."""

    count: int
    """Number of buffers."""
    share: float | None = None
    names: tuple[str, ...] = ()
    kind: Literal["a", "b"] | None = None
    children: tuple[Sizes, ...] = ()


def test_a_new_field_gets_a_key():
    before = {"$defs": {"sizes": {"type": "object", "properties": {"names": {"type": "array"}}, "required": ["names"]}}}
    sizes = schema_keys.complete(before, {"sizes": {Sizes}})["$defs"]["sizes"]
    assert sizes["properties"] == {
        "names": {"type": "array"},
        "count": {"type": "integer", "description": "Number of buffers."},
        "share": {"type": ["number", "null"]},
        "kind": {"enum": ["a", "b", None]},
        "children": {"type": "array", "items": {"$ref": "#/$defs/sizes"}},
    }
    assert sizes["required"] == list(sizes["properties"])
