"""Phases, stages and blames are closed sets."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import tcexplore
from tcexplore.documents.empty_states import PHASES as PHASE_NAMES
from tcexplore.events import PHASES, Failed, PhaseStarted, decode
from tcexplore.events.codec import HEADER, ProtocolError, encode
from tcexplore.torch_text.dynamo_names import PHASE_OF

WORKER = Path(tcexplore.__file__).parent / "worker"


def entered_phases() -> set[str]:
    """Return the phases that the worker's code enters."""
    calls = [
        node for file in WORKER.glob("*.py") for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "enter"
    ]  # fmt: skip
    return {str(call.args[0].value) for call in calls if call.args and isinstance(call.args[0], ast.Constant)}


def test_every_phase_that_is_entered_is_a_phase() -> None:
    phases = entered_phases() | set(PHASE_OF.values()) | {"trace", "profile"}  # entered by `tcexplore open`
    assert {"importing", "answering", "switching", "inductor"} <= phases
    assert phases == set(PHASES)


def test_every_phase_has_a_name_on_the_screen() -> None:
    assert set(PHASES) <= set(PHASE_NAMES)


@pytest.mark.parametrize(
    ("event", "field"),
    [
        (PhaseStarted(phase="eager", at=0.0), "phase"),
        (Failed(stage="worker", blame="user", type="E", message=""), "stage"),
        (Failed(stage="worker", blame="user", type="E", message=""), "blame"),
    ],
)
def test_an_unknown_value_is_rejected(event: PhaseStarted | Failed, field: str) -> None:
    data = json.loads(encode(event)[HEADER.size :])
    with pytest.raises(ProtocolError):
        decode(json.dumps({**data, field: "unknown"}).encode())
