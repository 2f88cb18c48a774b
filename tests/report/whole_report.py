"""A run that fills every list of the report, and the check of a report against the schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

from tcexplore import events as ev
from tcexplore.report.json_report import report
from tcexplore.session import Snapshot
from tests import fakes

SCHEMA_FILE = Path(__file__).parents[2] / "tcexplore" / "report" / "schema.json"
MACHINE = ev.Standby(torch="2.13.0+cpu", python="3.11.7", device="cpu", seconds=4.2)
FUSION = ev.FusionDecision(run=9, graph="0/0", phase="forward", a="op0", b="op1", fused=False, reason="no shared data")
SCHEDULE = ev.ScheduleMade(
    run=9, graph="0/0", phase="forward", nodes=(ev.SchedulerNode(name="op0"),), pairwise_attempts=64
)


def everything() -> Snapshot:
    """A run in which each list has something in it."""
    timed = fakes.complete(9)
    events = (
        FUSION,
        SCHEDULE,
        *fakes.recompiled(9).recompiles,
        ev.CacheLookup(run=9, graph="0/0", cache="fx", outcome="bypass"),
    )
    for event in events:
        timed = timed.apply(event)
    return timed


def schema() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(SCHEMA_FILE.read_text())
    return content


def validate(snapshot: Snapshot, machine: ev.Standby | None = MACHINE) -> None:
    """Raise a `ValidationError` if the report of a run does not follow the schema."""
    whole = json.loads(json.dumps(report(snapshot, machine, ["1 graph break, more than 0"], 1000)))
    jsonschema.Draft202012Validator(schema()).validate(whole)
