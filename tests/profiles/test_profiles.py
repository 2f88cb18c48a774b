"""Profiles joined to traces: shares on a line, hand-labeled lines, CUDA graphs, ranks, other writers, bad input."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tcexplore import events as ev
from tcexplore.cli import main
from tcexplore.profiles.generated_code import GeneratedCode
from tcexplore.profiles.profile_job import ProfileJob, ProfileRun, open_profiles
from tcexplore.profiles.profile_join import JoinedProfile, join
from tcexplore.profiles.profile_run import profile_events
from tcexplore.profiles.profile_table import NoProfileError, read_profile
from tcexplore.profiles.speedscope import stack_events
from tcexplore.traces.trace_inputs import trace_inputs
from tcexplore.traces.trace_job import open_inputs


def job(*paths: Path, trace: Path | None = None) -> ProfileJob:
    opened = open_profiles([str(path) for path in paths])
    if trace is not None:
        opened.trace = open_inputs(trace_inputs([str(trace)])).jobs[0]
    return opened


def read(opened: ProfileJob, rank: int = 0) -> tuple[JoinedProfile, ev.ProfileRead]:
    run = ProfileRun(opened, rank, 1)
    run.start()
    events = [event for batch in run.batches() for event in batch]
    assert run.joined is not None
    return run.joined, next(event for event in events if isinstance(event, ev.ProfileRead))


def test_kernels_of_a_training_step_are_on_lines(profiles: Path):
    _, profile = read(job(profiles / "gpt" / "gpt_train.json", trace=profiles / "gpt" / "trace"))
    assert profile.device == "NVIDIA H200"
    assert [step.name for step in profile.steps] == ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"]
    assert profile.median == "ProfilerStep#1"
    assert "work of the profiler" in profile.steps[0].odd
    assert not profile.steps[1].odd
    assert profile.compiled_on_lines_us == pytest.approx(profile.compiled_us)
    assert profile.work_on_lines_us > 0.95 * profile.work_us
    assert {item.reason for item in profile.unjoined} == {
        "the profile has no Python functions: record it with with_stack=True"
    }


def library_lines() -> Iterator[tuple[str, int]]:
    """Yield op and line of each library call in the order of the program, labeled by hand from its text."""
    layer = [("mm", 17), ("bmm", 18), ("bmm", 19), ("mm", 19), ("mm", 21), ("mm", 21), ("mm", 21)]
    yield from layer * 4
    yield "mm", 34
    backward = [("mm", 21)] * 6 + [("mm", 19)] * 2 + [("bmm", 19)] * 2 + [("bmm", 18)] * 2 + [("mm", 17)] * 2
    # In the first layer, Inductor runs the weight's gradient of line 19 late, between those of line 17.
    first = (
        [("mm", 21)] * 6 + [("mm", 19)] + [("bmm", 19)] * 2 + [("bmm", 18)] * 2 + [("mm", 17), ("mm", 19), ("mm", 17)]
    )
    yield from [("mm", 34)] * 2 + backward * 3 + first


def test_library_calls_have_the_lines_of_a_label_by_hand(profiles: Path):
    joined, _ = read(job(profiles / "gpt" / "gpt_train.json", trace=profiles / "gpt" / "trace"))
    calls = sorted((call for call in joined.graph_calls), key=lambda call: joined.table.events["op"].starts[call.op])
    found: list[tuple[str, int]] = []
    for call in calls[:2]:
        for child in call.children:
            place = joined.places[joined.op_places[child]]
            assert place.call is not None
            if not place.call.kernel.generated:
                found.append((place.call.op.removeprefix("aten::").replace("addmm", "mm"), place.lines[0].line))
                assert len(place.lines) == 1
    assert found == list(library_lines())


FIRST_LAYER = (
    ("triton_per_fused__fused_rms_norm_embedding_0", {31, 17}),
    ("extern_kernels.mm", {17}),
    ("triton_poi_fused_addmm_clone_permute_select_view_1", {17, 18}),
    ("triton_poi_fused_addmm_clone_permute_select_transpose_view_2", {17, 18}),
    ("extern_kernels.bmm", {18}),
    ("triton_per_fused__softmax_amax_div_mul_sub_view_3", {18}),
    ("triton_poi_fused_addmm_clone_permute_select_view_4", {17, 19}),
    ("extern_kernels.bmm", {19}),
    ("triton_poi_fused_clone_transpose_view_5", {19}),
    ("extern_kernels.addmm", {19}),
    ("triton_per_fused__fused_rms_norm_add_view_6", {19, 20}),
    ("extern_kernels.addmm", {21}),
    ("extern_kernels.addmm", {21}),
    ("triton_poi_fused_mul_silu_view_7", {21}),
    ("extern_kernels.mm", {21}),
    ("triton_per_fused__fused_rms_norm_add_addmm_view_8", {19, 21, 17}),
)
"""The kernels of the first layer in the forward with their lines, labeled by hand: the norms of lines 17 and 20 run in
library code, and the last kernel belongs to the next layer's norm, too."""

LAST_LAYER_BACKWARD = (
    ("triton_per_fused__fused_rms_norm_backward_view_1", {34}),
    ("triton_red_fused__fused_rms_norm_backward_view_2", {34}),
    ("triton_per_fused__fused_rms_norm_backward_view_3", {34}),
    ("extern_kernels.mm", {21}),
    ("extern_kernels.mm", {21}),
    ("triton_red_fused_sum_view_4", {21}),
    ("triton_per_fused__fused_rms_norm_backward_view_3", {21}),
    ("triton_red_fused_mul_silu_silu_backward_sum_view_5", {21}),
    ("extern_kernels.mm", {21}),
    ("extern_kernels.mm", {21}),
    ("triton_per_fused_mul_silu_sum_view_6", {21}),
    ("extern_kernels.mm", {21}),
    ("extern_kernels.mm", {21}),
    ("triton_per_fused_mul_silu_sum_view_6", {21}),
    ("triton_per_fused__fused_rms_norm_backward_add_view_7", {21, 20}),
    ("triton_red_fused__fused_rms_norm_backward_add_view_8", {21, 20}),
    ("triton_per_fused__fused_rms_norm_backward_view_3", {21, 20}),
    ("extern_kernels.mm", {19}),
    ("extern_kernels.mm", {19}),
    ("triton_red_fused_sum_view_4", {19}),
    ("triton_per_fused__fused_rms_norm_backward_view_3", {19}),
)
"""The same for the beginning of the backward, after the loss and the head: one kernel reduces several sums."""


def test_generated_kernels_have_the_lines_of_a_label_by_hand(profiles: Path):
    joined, _ = read(job(profiles / "gpt" / "gpt_train.json", trace=profiles / "gpt" / "trace"))
    for phase, first, labels in (("forward", 0, FIRST_LAYER), ("backward", 3, LAST_LAYER_BACKWARD)):
        call = next(call for call in joined.graph_calls if call.module and call.module.phase == phase)
        assert call.module is not None
        own = call.module.calls[first : first + len(labels)]
        found = [
            (known.kernel.name.partition(":")[0], {place.line for place in known.call.source_lines}) for known in own
        ]
        assert found == list(labels)


def test_nodes_have_the_modules_of_their_parameters(profiles: Path):
    run = ProfileRun(job(profiles / "gpt" / "gpt_train.json", trace=profiles / "gpt" / "trace"), 0, 1)
    run.start()
    events = [event for batch in run.batches() for event in batch]
    (graph,) = (event for event in events if isinstance(event, ev.GraphCaptured))
    modules = {node.name: node.module for node in graph.nodes}
    assert modules["rms_norm"] == "self.blocks.0.n1"
    assert modules["matmul"] == "self.blocks.0"
    assert modules["x_2"] == "self.blocks.0", "the sum at the end of a block is on a later line than its other ops"
    backward = next(
        e for e in events if isinstance(e, ev.AtenGraph) and (e.stage, e.phase) == ("post_grad", "backward")
    )
    assert {node.module for node in backward.nodes if node.name.startswith("bmm")} == {
        f"self.blocks.{layer}" for layer in range(4)
    }


def test_kernels_of_a_replayed_cuda_graph_have_the_recorded_order(profiles: Path):
    joined, profile = read(job(profiles / "gpu" / "graphs_0.json", trace=profiles / "gpu" / "t_graphs"))
    assert profile.compiled_on_lines_us == pytest.approx(profile.compiled_us)
    tasks, names = joined.table.events["task"], joined.table.names
    replayed = [
        (names[tasks.names[task]], joined.places[joined.task_places[task]])
        for task, launcher in enumerate(joined.task_launchers)
        if launcher in {call.op for call in joined.graph_calls}
    ]
    assert len(replayed) == 3 * 21
    for name, place in replayed:
        assert place.call is not None
        assert place.call.op == name or (not place.call.kernel.generated and "gemm" in name)


def with_annotated_graphs(profile: Path, to: Path) -> Path:
    """Write a profile as with `record_shapes=True`: the call of a graph is an annotation, and no id is its own."""
    content = json.loads(profile.read_bytes())
    events = content["traceEvents"]
    regions = [event for event in events if event["name"].startswith("Torch-Compiled Region")]
    around: dict[int, int] = {}
    for event in events:
        if event["name"].startswith("## Call CompiledFxGraph"):
            event["cat"] = "user_annotation"
            for region in regions:
                if region["ts"] <= event["ts"] < region["ts"] + region["dur"]:
                    around[event["args"]["External id"]] = region["args"]["External id"]
    for event in events:
        if event.get("cat") in ("kernel", "cuda_runtime"):
            number = event["args"].get("External id")
            event["args"]["External id"] = around.get(number, number)
    to.write_text(json.dumps(content))
    return to


@pytest.mark.parametrize(
    ("profile", "trace"), [("gpt/gpt_train.json", "gpt/trace"), ("gpu/graphs_0.json", "gpu/t_graphs")]
)
def test_a_profile_with_shapes_is_joined_alike(profiles: Path, tmp_path: Path, profile: str, trace: str):
    annotated = with_annotated_graphs(profiles / profile, tmp_path / "profile.json")
    known, other = (read(job(path, trace=profiles / trace))[1] for path in (profiles / profile, annotated))
    assert other.compiled_on_lines_us == pytest.approx(known.compiled_on_lines_us) == pytest.approx(known.compiled_us)


BACKWARD = """\
def step():
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
"""


REPEATED = """\
import torch
from torch.profiler import ProfilerActivity, profile

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    @torch.compiler.nested_compile_region
    def forward(self, x):
        y = torch.relu(self.up(x))
        return torch.sin(x) + self.down(y)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.exp()

torch._inductor.config.cpp.enable_kernel_profile = True
compiled, x = torch.compile(Net()), torch.randn(8, 16)
with torch.no_grad():
    compiled(x)
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        compiled(x)
recorded.export_chrome_trace("profile.json")
"""


@pytest.mark.torch
def test_a_nested_compile_region_is_joined_each_time_that_it_runs(tmp_path: Path):
    """C++ kernels are named with the number of their graph, those of the region without one."""
    (tmp_path / "program.py").write_text(REPEATED)
    environment = {**os.environ, "TORCH_TRACE": str(tmp_path / "trace"), "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=environment, check=True, capture_output=True)
    joined, profile = read(job(tmp_path / "profile.json", trace=tmp_path / "trace"))
    assert profile.compiled_on_lines_us == pytest.approx(profile.compiled_us)
    (call,) = joined.graph_calls
    places = [joined.places[joined.op_places[child]] for child in call.children]
    products = [place for place in places if place.call is not None and place.call.op == "aten::addmm"]
    assert [{line.line for line in place.lines} for place in products] == [{11}, {12}] * 4


def test_what_a_backward_runs_besides_forward_ops_is_on_its_line():
    spans = [
        ("python_function", 1, "program.py(1): step", 0, 100),
        ("python_function", 1, "torch/_tensor.py(570): backward", 20, 60),
        ("cpu_op", 2, "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 30, 8),
        ("cpu_op", 2, "torch::autograd::AccumulateGrad", 31, 6),
        ("cpu_op", 2, "c10d::allreduce_", 50, 5),
        ("cpu_op", 2, "aten::late", 90, 5),
    ]
    events = [
        {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": start, "dur": length, "args": {}}
        for category, thread, name, start, length in spans
    ]
    table = read_profile("a", json.dumps({"traceEvents": events}).encode())
    joined = join(table, GeneratedCode([], {}), {"/project/program.py": BACKWARD})
    lines = {place.name: [line.line for line in place.lines] for place in joined.places}
    assert lines == {"torch::autograd::AccumulateGrad": [3], "c10d::allreduce_": [3], "aten::late": []}


def test_eager_ops_have_the_line_of_the_only_call_in_their_function(profiles: Path):
    joined, profile = read(job(profiles / "gpu" / "conv_0.json", trace=profiles / "gpu" / "t_conv"))
    assert profile.compiled_on_lines_us > 0.99 * profile.compiled_us
    lines = {place.name: place.location.line for place in joined.places if place.location is not None}
    means = {place.location.line if place.location else None for place in joined.places if place.name == "aten::mean"}
    assert lines["aten::square"] == lines["PowBackward0"] == lines["aten::ones_like"] == 35
    assert lines["aten::item"] == 21
    assert lines["aten::_foreach_add_"] == 37
    assert means == {35, None}, "the module's function calls it on two lines"


def test_ranks_are_compared_and_waiting_is_named(profiles: Path):
    opened = job(*(profiles / "gpu" / f"ddp_{rank}.json" for rank in (0, 1)), trace=profiles / "gpu" / "t_ddp")
    _, profile = read(opened, 1)
    assert profile.compiled_on_lines_us == pytest.approx(profile.compiled_us)
    ranks = opened.compare()
    assert ranks is not None
    first, second = ranks.ranks
    assert (first.rank, second.rank) == (0, 1)
    assert second.waits_for == 0
    assert 0 < second.waiting_us < second.communication_us


def test_without_a_trace_kernels_have_names_graphs_and_times(profiles: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["open", str(profiles / "gpt" / "gpt_train.json"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert all(kernel["measured"] for kernel in report["kernels"])
    assert {(kernel["graph"], kernel["phase"]) for kernel in report["kernels"]} == {
        ("0/0", "forward"),
        ("0/0", "backward"),
    }
    assert report["profile"]["compiled_on_lines_us"] == 0
    assert "--trace" in report["profile"]["unjoined"][0]["reason"]


def test_json_has_the_time_of_each_kernel_in_the_median_step(profiles: Path, capsys: pytest.CaptureFixture[str]):
    folder = profiles / "gpt"
    assert main(["open", str(folder / "gpt_train.json"), "--trace", str(folder / "trace"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["file"].endswith("prof.py")
    assert all(kernel["measured"]["us"] > 0 for kernel in report["kernels"])
    measured = sum(kernel["measured"]["us"] for kernel in report["kernels"])
    parts = report["call_account"]["parts"]
    assert measured == pytest.approx(sum(part["us"] for part in parts if part["kind"] == "kernel"))
    assert sum(part["us"] for part in parts) + report["call_account"]["rest_us"] == pytest.approx(
        report["call_account"]["total_us"]
    )
    assert report["line_times"][0]["line"] == 21
    assert {row["fact"] for row in report["missing"]}.isdisjoint({"call profile", "time per line"})


def test_the_printed_report_shows_steps_and_what_is_on_no_line(profiles: Path, capsys: pytest.CaptureFixture[str]):
    folder = profiles / "gpu"
    assert main(["open", *(str(folder / f"ddp_{rank}.json") for rank in (0, 1)), "--trace", str(folder / "t_ddp")]) == 0
    text = capsys.readouterr().out
    assert "Rank 1 waits" in text
    assert "c10d::allreduce_" in text
    assert "100.0%  of 1.24 ms of compiled code" in text


def written(profile: Path, form: Any) -> bytes:
    """Return a profile as another program would write it."""
    return json.dumps(json.loads(profile.read_bytes()), **form).encode()


@pytest.mark.parametrize("form", [{}, {"indent": 1}, {"separators": (",", ":")}, {"sort_keys": True}])
def test_profiles_of_other_writers_are_read_alike(profiles: Path, form: dict[str, Any]):
    profile = profiles / "gpu" / "graphs_0.json"
    known = read_profile("a", profile.read_bytes())
    other = read_profile("b", written(profile, form))
    for kind in ("op", "task", "launch", "annotation"):
        columns = [
            sorted(zip(e.starts, e.lengths, e.ids, (table.names[n] for n in e.names), strict=True))
            for table in (known, other)
            for e in [table.events[kind]]
        ]
        assert columns[0] == columns[1]
    assert known.device == other.device == "NVIDIA H100 80GB HBM3"


def test_blocks_do_not_cut_events(profiles: Path, monkeypatch: pytest.MonkeyPatch):
    profile = (profiles / "gpu" / "graphs_0.json").read_bytes()
    known = read_profile("a", profile)
    monkeypatch.setattr("tcexplore.profiles.profile_table.BLOCK", 700)
    cut = read_profile("a", profile)
    assert {kind: len(events) for kind, events in cut.events.items()} == {
        kind: len(events) for kind, events in known.events.items()
    }


def test_a_truncated_profile_is_read_as_far_as_it_goes(profiles: Path):
    data = (profiles / "gpt" / "gpt_train.json").read_bytes()
    table = read_profile("cut", data[: len(data) // 5])
    assert 0 < len(table.events["op"]) < 2781
    assert profile_events(join(table, GeneratedCode([], {})))


@pytest.mark.parametrize("content", ["{}", '{"traceEvents": []}', "[1, 2", '{"traceEvents": [{"ph": "X"}]}'])
def test_what_is_no_profile_ends_with_status_2(tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "profile.json.gz"
    with gzip.open(path, "wt") as file:
        file.write(content)
    assert main(["open", str(path), "--report"]) == 2
    assert "profile.json.gz" in capsys.readouterr().err


def test_a_missing_profile_and_a_wrong_rank_are_named(profiles: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["open", "no.json", "--report"]) == 2
    assert "no.json does not exist" in capsys.readouterr().err
    assert main(["open", str(profiles / "gpu" / "ddp_1.json"), "--rank", "5", "--report"]) == 2
    assert "the profiles are of 1" in capsys.readouterr().err


def test_names_are_cleaned(profiles: Path):
    text = (profiles / "gpu" / "graphs_0.json").read_text()
    table = read_profile("a", text.replace("aten::sum", "a\\u001b[31mred").encode())
    assert not any("\x1b" in name for name in table.names)


def test_a_file_without_events_is_no_profile():
    with pytest.raises(NoProfileError):
        read_profile("a", b'{"traceEvents": []}')


def exported(profile: Path, trace: Path, out: Path) -> dict[str, Any]:
    assert main(["export", str(profile), "--trace", str(trace), "--perfetto", str(out)]) == 0
    content = out.read_bytes()
    written: dict[str, Any] = json.loads(gzip.decompress(content) if out.suffix == ".gz" else content)
    return written


@pytest.mark.parametrize("name", ["out.json", "out.json.gz"])
def test_the_exported_trace_has_all_events_in_order_with_lines(profiles: Path, tmp_path: Path, name: str):
    source = profiles / "gpt" / "gpt_train.json"
    written = exported(source, profiles / "gpt" / "trace", tmp_path / name)
    original = json.loads(source.read_bytes())
    assert {key for key in original if key != "traceName"} == set(written)
    events = written["traceEvents"]
    assert len(events) == len(original["traceEvents"])
    times = [event["ts"] for event in events if event["ph"] != "M"]
    assert times == sorted(times)

    def plain(event: dict[str, Any]) -> str:
        known = {key: value for key, value in event.get("args", {}).items() if not key.startswith("tcexplore ")}
        return json.dumps({**event, "args": known}, sort_keys=True)

    assert sorted(map(plain, events)) == sorted(map(plain, original["traceEvents"]))
    kernels = [event for event in events if event.get("cat") == "kernel"]
    arguments = next(e["args"] for e in kernels if e["args"].get("tcexplore module") == "self.blocks.0.gate")
    assert arguments["tcexplore line"].endswith("gpt_train.py:21")
    assert arguments["tcexplore ops"] == "aten.addmm"
    assert arguments["tcexplore graph"] == "0/0 forward"
    assert all("tcexplore line" in event["args"] or "tcexplore no line" in event["args"] for event in kernels)
    flows = [event for event in events if event["ph"] == "s"]
    assert len(flows) == 782


def test_an_exported_trace_can_be_opened_again(profiles: Path, tmp_path: Path):
    exported(profiles / "gpu" / "conv_0.json", profiles / "gpu" / "t_conv", tmp_path / "out.json")
    for path in (profiles / "gpu" / "conv_0.json", tmp_path / "out.json"):
        _, profile = read(job(path, trace=profiles / "gpu" / "t_conv"))
        assert profile.work_us == pytest.approx(3167.8, abs=0.1)
        assert profile.compiled_on_lines_us > 0.99 * profile.compiled_us


def test_stacks_for_speedscope_nest_and_have_lines(profiles: Path, tmp_path: Path):
    out = tmp_path / "stacks.json"
    source = profiles / "gpt" / "gpt_train.json"
    assert main(["export", str(source), "--trace", str(profiles / "gpt" / "trace"), "--speedscope", str(out)]) == 0
    written = json.loads(out.read_text())
    frames = written["shared"]["frames"]
    for thread in written["profiles"]:
        opened, last = [], thread["startValue"]
        for event in thread["events"]:
            assert event["at"] >= last - 0.001
            last = event["at"]
            if event["type"] == "O":
                opened.append(event["frame"])
            else:
                assert opened.pop() == event["frame"]
        assert not opened
        assert last <= thread["endValue"] + 0.001
    kernel = next(frame for frame in frames if frame["name"].startswith("triton_per_fused__fused_rms_norm_backward"))
    assert kernel["file"].endswith("gpt_train.py")
    assert kernel["name"].endswith(f"gpt_train.py:{kernel['line']}")
    original = json.loads(source.read_bytes())["traceEvents"]
    ops = sum(event.get("cat") == "cpu_op" for event in original)
    assert sum(event["type"] == "O" for thread in written["profiles"] for event in thread["events"]) > ops


def test_a_call_that_outlives_the_one_around_it_ends_with_that():
    events = stack_events([(0.0, -10.0, 0, 0), (2.0, -12.0, 2, 1), (11.0, -12.0, 2, 2)])
    assert list(events) == [
        ("O", 0, 0.0),
        ("O", 1, 2.0),
        ("C", 1, 10.0),
        ("C", 0, 10.0),
        ("O", 2, 11.0),
        ("C", 2, 12.0),
    ]


def test_export_refuses_what_it_cannot_write(profiles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source = tmp_path / "profile.json"
    source.write_bytes((profiles / "gpu" / "graphs_0.json").read_bytes())
    assert main(["export", str(source), "--perfetto", str(source), "--force"]) == 2
    (tmp_path / "out.json").write_text("mine")
    assert main(["export", str(source), "--perfetto", str(tmp_path / "out.json")]) == 2
    assert (tmp_path / "out.json").read_text() == "mine"
    assert main(["export", __file__, "--perfetto", str(tmp_path / "other.json")]) == 2
    assert "is not a profile" in capsys.readouterr().err
    for options in ([], ["--perfetto", "a.json", "--speedscope", "b.json"]):
        with pytest.raises(SystemExit):
            main(["export", str(source), *options])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json", "profile.json"]
