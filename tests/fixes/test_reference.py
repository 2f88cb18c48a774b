"""Captured breaks equal those of torch's own trace, for one program; `tests/benchmarks/fixes.py` has all."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.events import GraphBreak
from tests.capture.dynamo_capture import capture, select
from tests.fixes.programs import PROGRAMS, marked

pytestmark = pytest.mark.torch


def test_torchs_trace_and_the_capture_have_the_same_breaks(tmp_path: Path):
    text = PROGRAMS["clock"]
    file = tmp_path / "clocked.py"
    file.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "tests.fixes.reference", str(file)], capture_output=True, text=True, check=True
    )
    by_torch = {line for _, line in json.loads(done.stdout.splitlines()[-1])["places"]}
    spec = importlib.util.spec_from_file_location("clocked", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    lines = [
        event.location.line
        for event in select(GraphBreak, capture(module.model, (torch.ones(4, 4),)))
        if event.location
    ]
    assert by_torch == set(lines) == set(marked(text))
    assert len(lines) == len(set(lines))
