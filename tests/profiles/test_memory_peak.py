"""What lives at the peak of memory, from the generated code, against peaks that torch measured on a CPU and an H100."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tcexplore import events as ev
from tcexplore.cli import main
from tcexplore.documents.timing.memory_peak_rows import PEAK, chart, memory_peak_rows
from tcexplore.events.result_events import TensorKind
from tcexplore.session import Snapshot
from tcexplore.session.memory_peak import KEPT, LiveTensor, MemoryPeak, evaluate, memory_peak
from tcexplore.traces.trace_inputs import trace_inputs
from tcexplore.traces.trace_job import open_inputs
from tcexplore.traces.trace_run import TraceRun, read_snapshot
from tests.snapshots.codes import with_code


def run_of(folder: Path) -> Snapshot:
    return read_snapshot(TraceRun(open_inputs(trace_inputs([str(folder)])).jobs[0].ranks[0], 1))


def peak_in(run: Snapshot) -> MemoryPeak:
    peak = memory_peak(run)
    assert peak is not None
    return peak


def peak_of(folder: Path) -> MemoryPeak:
    return peak_in(run_of(folder))


def tensors_of(run: Snapshot, kind: TensorKind) -> list[LiveTensor]:
    """Return the tensors of a kind that live at the peak of a run."""
    return [tensor for tensor in peak_in(run).tensors if tensor.kind == kind]


@pytest.mark.parametrize(
    "name", ["mlp_train_cpu", "attn_train_cuda", "drop_train_cpu", "conv_infer_cuda", "mlp_infer_cpu"]
)
def test_the_peak_agrees_with_the_measured_one(profiles: Path, name: str):
    peak = peak_of(profiles / "memory" / name)
    measured = json.loads((profiles / "memory" / "peaks.json").read_text())[name]
    # The measured program drops its output before the backward.
    dropped = sum(tensor.bytes for tensor in peak.tensors if tensor.kind == "output") if "train" in name else 0
    assert peak.bytes - dropped == pytest.approx(measured, rel=0.02)
    allocated = [tensor for tensor in peak.tensors if tensor.kind not in ("parameter", "input")]
    assert sum(tensor.bytes for tensor in allocated) == peak.bytes
    assert not peak.unknown
    assert len(peak.history) == peak.steps


def test_a_library_may_allocate_more_than_the_code(profiles: Path):
    peak = peak_of(profiles / "memory" / "conv_train_cpu")
    measured = json.loads((profiles / "memory" / "peaks.json").read_text())["conv_train_cpu"]
    assert "convolution_backward" in peak.kernel
    assert 0.8 < peak.bytes / measured < 0.9


def test_activations_have_their_line_module_and_why_they_are_saved(profiles: Path):
    peak = peak_of(profiles / "gpt" / "trace")
    by_node = {tensor.name: tensor for tensor in peak.tensors}
    gate = by_node["buf18 (addmm_2)"]
    assert (gate.kind, gate.op, gate.module) == ("activation", "aten.addmm", "self.blocks.0.gate")
    assert gate.location is not None
    assert gate.location.line == 21
    assert gate.reason.startswith("never computed again, since addmm is compute-intensive; saved for triton_red_fused")
    assert (gate.bytes, gate.born) == (8 * 1024 * 1024, 11)
    assert gate.dies is not None
    assert gate.dies > peak.step > 11
    # A matmul of the backward reads it: the partitioner does not compute again what must be in memory in any case.
    assert by_node["buf20 (mul_4)"].reason.startswith("not computed again, since extern_kernels.mm:34 needs it")
    assert any(tensor.reason.startswith("min-cut") for tensor in peak.tensors)
    parameter = by_node["self.blocks.0.gate.weight"]
    assert (parameter.kind, parameter.born, parameter.dies) == ("parameter", None, None)
    assert {tensor.name for tensor in peak.tensors if tensor.kind == "input"} == {"idx", "targets"}


def test_memory_that_is_kept_to_be_used_again_is_not_still_read(profiles: Path):
    run = run_of(profiles / "gpt" / "trace")

    def product(of: Snapshot) -> LiveTensor:
        peak = peak_in(of)
        assert peak.step == 74
        return next(tensor for tensor in peak.tensors if tensor.name == "buf5 (mul_28)")

    reader = "triton_per_fused__fused_rms_norm_backward_add_view_7"
    read = product(run)
    assert read.dies == 81, "the kernel that stores its sum there reads it in place"
    assert read.reason.startswith(reader)
    assert read.reason.endswith("still reads it")
    # The same kernel, if it only wrote there.
    kernels = tuple(
        replace(kernel, source=kernel.source.replace("in_out_ptr", "out_ptr9")) if kernel.name == reader else kernel
        for kernel in run.code.kernels
    )
    kept = product(with_code(run, kernels=kernels))
    assert kept.dies == 72
    assert kept.reason.startswith(f"{KEPT}: {reader} ")
    assert kept.reason.endswith("reuses its memory, as kernel 82")


def test_a_saved_value_that_the_call_also_returns_hides_no_other(profiles: Path):
    """The graph names such a value once, the generated code returns it twice."""
    run = run_of(profiles / "memory" / "mlp_train_cpu")

    def saved(of: Snapshot) -> set[str]:
        return {tensor.name for tensor in tensors_of(of, "activation")}

    (forward,) = (wrapper for wrapper in run.code.wrappers if wrapper.phase == "forward")
    returned = next(line for line in forward.source.splitlines() if line.strip().startswith("return ("))
    first = returned.partition("(")[2].partition(",")[0]
    again = f"{returned.rstrip(' )')} {first}, )"
    twice = replace(forward, source=forward.source.replace(returned, again))
    wrappers = tuple(twice if wrapper is forward else wrapper for wrapper in run.code.wrappers)
    assert saved(with_code(run, wrappers=wrappers)) == saved(run) != set()


def test_what_a_graph_before_a_break_returns_is_not_an_output_of_the_call(profiles: Path):
    run = run_of(profiles / "memory" / "mlp_train_cpu")

    def reasons(of: Snapshot) -> set[str]:
        return {tensor.reason for tensor in tensors_of(of, "output")}

    assert reasons(run) == {"an output of the call: it counts to the end, since the caller may hold it"}
    forward = next(wrapper for wrapper in run.code.wrappers if wrapper.phase == "forward")
    before_a_break = f"an output of graph {forward.graph}: it counts to the end, since later graphs may read it"
    number = forward.graph.partition("/")[0]
    later = f"{int(number) + 1}/0"
    resumed = ev.FrameEntered(run=run.run, graph=later, resumed=True)
    assert before_a_break in reasons(run.apply(resumed))
    assert before_a_break not in reasons(run.apply(replace(resumed, resumed=False))), "another program"


def test_a_recompile_whose_backward_is_not_compiled_yet_is_not_the_peak(profiles: Path):
    run = run_of(profiles / "memory" / "attn_train_cuda")
    peak, forward = memory_peak(run), next(w for w in run.code.wrappers if w.phase == "forward")
    recompiled = run.apply(replace(forward, graph=f"{forward.graph.partition('/')[0]}/9"))
    assert memory_peak(recompiled) == peak


def test_in_inference_only_temporaries_and_outputs_live(profiles: Path):
    peak = peak_of(profiles / "memory" / "mlp_infer_cpu")
    assert {tensor.kind for tensor in peak.tensors} <= {"parameter", "input", "temporary", "output"}
    assert peak.phase == "forward"


def test_json_has_the_peak_of_a_trace(profiles: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["open", str(profiles / "gpt" / "trace"), "--json"]) == 0
    memory = json.loads(capsys.readouterr().out)["memory"]
    assert memory["compiled_peak_bytes"] is None
    first = memory["peak"][0]
    assert set(first) == {"name", "bytes", "kind", "op", "file", "line", "module", "born", "dies", "reason"}
    allocated = (tensor["bytes"] for tensor in memory["peak"] if tensor["kind"] not in ("parameter", "input"))
    assert sum(allocated) == memory["peak_of_code_bytes"]


@pytest.mark.parametrize("width", [40, 80, 160])
def test_rows_fit_and_explain(profiles: Path, width: int):
    run = run_of(profiles / "gpt" / "trace")
    rows = [row.text for row in memory_peak_rows(run, frozenset([PEAK]), width)]
    text = "\n".join(rows)
    assert "187.7 MiB in the generated code" in text
    assert "gpt_train.py:21" in text
    assert len(rows[1].strip()) <= max(width - 8, 16)


def test_the_chart_keeps_the_highest_value():
    assert chart([1, 8, 1, 1], 4) == "▂█▂▂"
    assert "█" in chart([0] * 500 + [7] + [0] * 500, 20)
    assert chart([], 10) == ""


def test_sizes_with_symbols_need_their_values():
    assert evaluate("s77*(4 + u0)", {"s77": "3", "u0": "1"}) == 15
    assert evaluate("s77", {}) is None
    assert evaluate("__import__('os')", {}) is None
