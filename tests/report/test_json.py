"""The JSON report: keys, order, and the reasons of nulls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tcexplore import events as ev
from tcexplore.report.json_report import report
from tcexplore.session import Snapshot
from tests import fakes
from tests.report.whole_report import MACHINE, everything
from tests.snapshots import training

PROMISED = {
    "entry": {"name", "kind", "rule", "calls"},
    "config": {"mode", "backend", "dynamic", "fullgraph", "train", "target", "device", "threads", "vary"},
    "graphs": {"id", "ops", "nodes", "code"},
    "breaks": {
        "id", "registry_id", "kind", "reason", "explanation", "hints", "file", "line", "function", "stack", "count",
        "fix", "advice",
    },
    "guards": {"id", "graph", "kind", "source", "code", "file", "line", "user_code"},
    "recompiles": {"graph", "failed_entry", "failed_guard", "reason", "file", "line"},
    "kernels": {
        "id", "name", "graph", "phase", "language", "source", "ops", "nodes", "source_lines", "lines", "bytes_read",
        "bytes_written", "bytes_saved", "flops", "fusion_kinds", "ops_inlined", "fused_nodes", "calls", "resources",
        "stages",
    },
    "wrappers": {"graph", "phase", "source"},
    "fusion_decisions": {"a", "b", "fused", "reason", "refused_by", "explanation"},
    "schedules": {"graph", "phase", "pairwise_attempts", "nodes"},
    "line_traffic": {"id", "file", "line", "calls", "bytes", "share", "extern"},
    "aten_graphs": {"graph", "stage", "phase", "nodes"},
    "timing": {
        "eager_us", "compiled_us", "speedup", "ci95", "noise_floor", "pairs", "verdict", "first_call_s", "compile_s",
        "break_even_calls", "samples",
    },
    "phase_times": {"name", "seconds", "graph"},
}  # fmt: skip


def test_every_documented_key_is_present():
    whole = report(everything(), MACHINE)
    assert (whole["schema"], whole["torch"], whole["python"]) == (3, "2.13.0+cpu", "3.11.7")
    for name, fields in PROMISED.items():
        value = whole[name][0] if isinstance(whole[name], list) else whole[name]
        assert fields <= set(value), name
    node = whole["graphs"][0]["nodes"][-2]
    assert {"id", "name", "op", "target", "args", "shape", "dtype", "file", "line"} <= set(node)


def test_every_run_has_the_same_keys():
    keys = [list(report(run, MACHINE)) for run in (everything(), fakes.failed(), fakes.nothing_compiled())]
    assert keys[0] == keys[1] == keys[2]
    assert json.loads(json.dumps(report(everything(), MACHINE))) == report(everything(), MACHINE)


def test_consecutive_kernels_have_the_reason_why_they_are_not_fused():
    run = training.run()
    neighbors = report(run, MACHINE)["unfused_neighbors"]
    assert [(pair["phase"], pair["a"], pair["b"]) for pair in neighbors] == [
        ("backward", run.code.kernels[1].name, run.code.kernels[2].name)
    ]
    assert neighbors[0]["compared"]
    assert neighbors[0]["reasons"] == ["numel/rnumel mismatch (reduce) (32768, 512), (1, 64)"]
    assert (neighbors[0]["shared_buffers"], neighbors[0]["between"]) == (["buf1"], [])


def test_sizes_are_numbers_and_symbols_text():
    snapshot = Snapshot(run=1, file="m.py", source="", config=ev.Config())
    node = ev.FxNode(name="x", op="placeholder", target="x", dtype="f32", shape=("s0", "64"), stride=("64", "1"))
    graph = ev.GraphCaptured(run=1, graph="0/0", ops=0, nodes=(node,), code="")
    (answer,) = report(snapshot.apply(graph), None)["graphs"][0]["nodes"]
    assert (answer["shape"], answer["stride"]) == (["s0", 64], [64, 1])


def test_paths_are_relative_to_the_working_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    snapshot = Snapshot(run=1, file=str(tmp_path / "models" / "net.py"), source="", config=ev.Config())
    monkeypatch.chdir(tmp_path)
    assert report(snapshot, None)["file"] == "models/net.py"
    monkeypatch.chdir("/")
    monkeypatch.chdir(tmp_path / "..")
    assert report(snapshot, None)["file"] == f"{tmp_path.name}/models/net.py"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert report(snapshot, None)["file"] == str(tmp_path / "models" / "net.py")


def test_nulls_have_a_reason_in_missing():
    whole = report(fakes.facts_missing(), None)
    explained = {entry["fact"] for entry in whole["missing"]}
    nulls = {name for name in ("accuracy", "memory") if whole[name] is None}
    assert nulls | {"kernel lines", "guard latency", "resources", "stages"} <= explained
    assert all(entry["reason"] for entry in whole["missing"])
    skipped = report(fakes.recompiled(), MACHINE)
    assert skipped["timing"] is None
    assert "timing" in {entry["fact"] for entry in skipped["missing"]}


def test_a_training_run_has_its_stages():
    whole = report(training.run(), MACHINE)
    assert [graph["stage"] for graph in whole["aten_graphs"]] == [
        "joint", "forward", "backward", "post_grad", "post_grad",
    ]  # fmt: skip
    (cut,) = whole["partitions"]
    assert [(saved["name"], saved["bytes"], saved["input"]) for saved in cut["saved_for_backward"]] == [
        ("primals_2", 131_072, True), ("mul", 131_072, False),
    ]  # fmt: skip
    assert cut["recomputed"] == ["sigmoid"]
    (changed,) = [run for run in whole["passes"] if run["changes"]]
    assert (changed["name"], changed["nodes_before"], changed["nodes_after"]) == ("remove_noop_ops", 13, 12)
    first, second, _ = whole["kernels"]
    assert first["lines"][0]["source_lines"] == [[training.FILE, training.TIMES.line]]
    assert (second["fusion_kinds"], second["fused_nodes"]) == (["pointwise"], [["op0", "op1"], ["op2"]])
    assert {entry["line"]: entry["calls"] for entry in whole["line_traffic"]} == {7: 2, 8: 2}


def test_an_error_has_its_location_and_blame():
    error = report(fakes.failed(), MACHINE)["error"]
    assert error["blame"] == "user"
    assert error["line"] == fakes.failed().failure.location.line
    assert "shapes" in error["message"]


def test_timing_has_separate_samples_of_the_control():
    timed = everything()
    samples = report(timed, MACHINE)["timing"]["samples"]
    assert len(samples["eager_us"]) == sum(len(p.eager_us) for p in timed.pairs if not p.control)
    assert len(samples["control_a_us"]) == sum(len(p.eager_us) for p in timed.pairs if p.control)
