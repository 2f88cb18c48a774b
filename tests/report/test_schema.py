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
from tcexplore.report import schema as schema_module
from tcexplore.report.json_report import SCHEMA, report
from tcexplore.report.schema import build_schema, page_text, schema_text
from tcexplore.session import Snapshot
from tests import fakes
from tests.report.whole_report import MACHINE, SCHEMA_FILE, schema, validate
from tests.snapshots import gpu, measured, mlp_timing, recompiling, training

ROOT = Path(__file__).parents[2]
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


def test_every_record_has_the_class_that_its_definition_names(records: dict[str, set[type]]):
    definitions = json_records.read_definitions()
    named = {name: {one.__name__ for one in classes} for name, classes in records.items() if definitions[name].record}
    assert named == {name: {definitions[name].record} for name in named}


def test_the_schema_and_its_page_are_written():
    if os.environ.get("TCEXPLORE_GOLDENS") == "write":
        schema_module.main()
        json_records.definitions.cache_clear()
    whole = build_schema()
    assert schema_text(whole) == SCHEMA_FILE.read_text(), "run python -m tcexplore.report.schema"
    assert page_text(whole) == PAGE.read_text(), "run python -m tcexplore.report.schema"


@dataclasses.dataclass(frozen=True)
class Sizes:
    """A record with fields of every kind that gets a key by itself."""

    count: int
    """Number of buffers."""
    share: float | None = None
    names: tuple[str, ...] = ()
    kind: Literal["a", "b"] | None = None
    children: tuple[Sizes, ...] = ()


def test_a_new_field_gets_a_key(monkeypatch: pytest.MonkeyPatch):
    keys = (json_records.Key("names", type="[str]"),)
    definitions = json_records.read_definitions()
    sizes = json_records.Definition("sizes", "Sizes", "", keys, frozenset(), {})
    records = schema_module.record_classes()
    monkeypatch.setattr(schema_module, "read_definitions", lambda: {**definitions, "sizes": sizes})
    monkeypatch.setattr(schema_module, "record_classes", lambda: {**records, "Sizes": Sizes})
    written = build_schema()["$defs"]["sizes"]
    assert written["properties"] == {
        "names": {"type": "array", "items": {"type": "string"}},
        "count": {"type": "integer", "description": "Number of buffers."},
        "share": {"type": ["number", "null"]},
        "kind": {"enum": ["a", "b", None]},
        "children": {"type": "array", "items": {"$ref": "#/$defs/sizes"}},
    }
    assert written["required"] == list(written["properties"])
