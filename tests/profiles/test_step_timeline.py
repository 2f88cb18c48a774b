"""Timelines of the steps of profiles: gaps by their cause, sums, modules, and how they are drawn."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tcexplore import events as ev
from tcexplore.documents.document import with_choices
from tcexplore.documents.timing.step_timeline_view import StepTimelineDocument, printed_timeline, step_timeline_document
from tcexplore.profiles.generated_code import GeneratedCode
from tcexplore.profiles.profile_job import ProfileJob, ProfileRun, open_profiles
from tcexplore.profiles.profile_join import join
from tcexplore.profiles.profile_run import profile_events
from tcexplore.profiles.profile_table import read_profile
from tcexplore.profiles.step_timeline import modules_of, step_timelines
from tcexplore.session import Snapshot
from tcexplore.traces.trace_inputs import trace_inputs
from tcexplore.traces.trace_job import open_inputs
from tcexplore.traces.trace_run import read_snapshot
from tests.documents import golden

COMPUTE, OTHER_STREAM = 7, 20


class MadeProfile:
    """A profile that is written event by event. Times are in microseconds."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._launches = 0

    def _add(self, category: str, name: str, start: float, end: float, tid: int = 1, **arguments: Any) -> None:
        pid = 0 if category in ("kernel", "gpu_memcpy") else 100
        self.events.append({
            "ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": 1000 + start, "dur": end - start,
            "args": arguments,
        })  # fmt: skip

    def step(self, number: int, start: float, end: float) -> None:
        self._add("user_annotation", f"ProfilerStep#{number}", start, end)

    def op(self, name: str, start: float, end: float, external: int = 0, tid: int = 1) -> None:
        self._add("cpu_op", name, start, end, tid, **({"External id": external} if external else {}))

    def mark(self, name: str, start: float, end: float) -> None:
        self._add("user_annotation", name, start, end)

    def waits(self, name: str, start: float, end: float, external: int) -> None:
        self._add("cuda_runtime", name, start, end, **{"External id": external, "correlation": 9000 + external})

    def stalls(self, start: float, end: float) -> None:
        self._add("overhead", "Activity Buffer Request", start, end)

    def task(
        self, name: str, launch: float | None, start: float, end: float, stream: int = COMPUTE, category: str = "kernel"
    ) -> None:
        """Add a task of the device with its launch, if there is one."""
        self._launches += 1
        ids = {"External id": self._launches, "correlation": self._launches}  # in the order of Kineto
        self._add(category, name, start, end, stream, **ids)
        if launch is not None:
            self.op(f"launch {name}", launch, launch + 2, self._launches)
            self._add("cuda_runtime", "cudaLaunchKernel", launch, launch + 2, correlation=self._launches)

    def timelines(self) -> list[ev.StepTimeline]:
        data = json.dumps({"deviceProperties": [{"name": "GPU"}], "traceEvents": self.events}).encode()
        joined = join(read_profile("made", data), GeneratedCode([], {}))
        read = next(event for event in profile_events(joined) if isinstance(event, ev.ProfileRead))
        names = [step.name for step in read.steps]
        return step_timelines(joined, read.steps, names.index(read.median), {})


def made_step() -> MadeProfile:
    """Return a step with a gap of each cause, and with a copy and a collective alone on the device."""
    made = MadeProfile()
    made.step(0, 0, 200)
    made.op("aten::late", 2, 12)
    made.task("first", 10, 12, 22)
    made.task("second", 15, 24, 30)  # 22 to 24: its launch was there
    made.op("aten::item", 25, 34, external=50)
    made.waits("cudaStreamSynchronize", 26, 33, external=50)
    made.task("third", 40, 45, 60)  # 30 to 45: the host had waited
    made.task("Memcpy HtoD (Pinned -> Device)", 50, 60, 66, OTHER_STREAM, "gpu_memcpy")
    made.task("ncclDevKernel_AllReduce", 52, 62, 80, OTHER_STREAM + 1)
    made.stalls(81, 99)
    made.task("fourth", 100, 102, 110)  # 80 to 102: the profiler
    made.task("fifth", None, 115, 120)
    return made


def parts(timeline: ev.StepTimeline) -> dict[str, float]:
    return {part.kind: round(part.us, 3) for part in timeline.parts}


def test_time_of_a_device_is_split_by_cause():
    (timeline,) = made_step().timelines()
    assert parts(timeline) == {
        "computing": 10 + 6 + 15 + 8 + 5, "copy": 6, "collective": 14, "queued": 2, "synchronization": 15,
        "profiler": 22, "not known": 5, "host-bound": 12 + 80,
    }  # fmt: skip


def test_parts_add_up_to_the_step():
    (timeline,) = made_step().timelines()
    assert sum(part.us for part in timeline.parts) == pytest.approx(timeline.us - timeline.counted_from_us)
    assert timeline.us == pytest.approx(200)


def gap_at(timeline: ev.StepTimeline, start: float) -> ev.TimelineGap:
    return next(gap for gap in timeline.gaps if gap.start_us == pytest.approx(start))


def test_a_gap_says_what_the_host_did():
    (timeline,) = made_step().timelines()
    assert (
        gap_at(timeline, 0).reason == "the next launch comes 10.0 µs after the step begins; the host is in aten::late"
    )
    assert "aten::item (cudaStreamSynchronize)" in gap_at(timeline, 30).reason
    assert "no more launches" in gap_at(timeline, 120).reason
    assert gap_at(timeline, 22).reason.startswith("launched 7.0 µs before the gap")


def test_a_wait_that_begins_on_an_idle_device_is_not_the_cause():
    made = MadeProfile()
    made.step(0, 0, 100)
    made.task("first", 0, 2, 10)
    made.op("aten::item", 20, 25, external=50)
    made.waits("cudaStreamSynchronize", 21, 24, external=50)
    made.task("second", 80, 82, 100)
    (timeline,) = made.timelines()
    assert gap_at(timeline, 10).cause == "host-bound"


def test_a_step_counts_from_the_end_of_the_work_of_the_step_before():
    made = MadeProfile()
    for number in range(3):
        begin = 50 * number
        made.step(number, begin, begin + 50)
        made.task("long", begin + 5, 10 + 100 * number, 110 + 100 * number)
    by_name = {timeline.step: timeline for timeline in made.timelines()}
    last = by_name["ProfilerStep#2"]
    assert [last.counted_from_us, last.us] == pytest.approx([110, 210])
    assert parts(last) == {"computing": 100}


def test_phases_of_the_host_are_known_by_their_ranges():
    made = MadeProfile()
    made.step(0, 0, 100)
    made.mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 10)
    made.op("aten::stack", 2, 8)
    made.op("Torch-Compiled Region: 0/0", 12, 30)
    made.op("autograd::engine::evaluate_function: AddBackward0", 35, 60, tid=2)
    made.op("AddBackward0", 36, 59, tid=2)
    made.mark("Optimizer.step#AdamW.step", 65, 90)
    made.op("aten::_foreach_add_", 66, 80)
    (timeline,) = made.timelines()
    assert parts(timeline) == {
        "data": 10, "forward": 18, "backward": 25, "optimizer": 25, "between ops": 2 + 5 + 5 + 10,
    }  # fmt: skip
    assert sum(part.us for part in timeline.parts) == pytest.approx(timeline.us)
    assert [row.name for row in timeline.rows] == ["step", "ops", "autograd"]


# ---- real profiles


def job(path: Path, trace: Path) -> ProfileJob:
    opened = open_profiles([str(path)])
    opened.trace = open_inputs(trace_inputs([str(trace)])).jobs[0]
    return opened


@pytest.fixture(scope="module")
def training(profiles: Path) -> Snapshot:
    return read_snapshot(ProfileRun(job(profiles / "gpt" / "gpt_train.json", profiles / "gpt" / "trace"), 0, 1))


def test_steps_of_a_real_profile_add_up(training: Snapshot):
    assert [known.step for known in training.step_timelines] == ["ProfilerStep#1", "ProfilerStep#0", "ProfilerStep#2"]
    assert training.step_timelines[1].odd
    for timeline in training.step_timelines:
        counted = timeline.us - timeline.counted_from_us
        assert sum(part.us for part in timeline.parts) == pytest.approx(counted)
        for row in timeline.rows:
            ends = [span.start_us + span.us for span in row.spans]
            assert all(span.start_us >= end - 0.01 for span, end in zip(row.spans[1:], ends[:-1], strict=True)), (
                row.name
            )


def test_tasks_have_kernel_line_and_module(training: Snapshot):
    stream = next(row for row in training.step_timelines[0].rows if row.name == "stream 7")
    generated = [span for span in stream.spans if span.kind == "kernel"]
    assert generated
    assert all(span.kernel and span.graph == "0/0" and span.source_lines for span in generated)
    assert {"self.blocks.0", "self.blocks.3"} <= {module for span in stream.spans for module in span.modules}


def test_a_wait_in_item_has_its_line(profiles: Path):
    run = read_snapshot(ProfileRun(job(profiles / "gpu" / "conv_0.json", profiles / "gpu" / "t_conv"), 0, 1))
    waits = [gap for gap in run.step_timelines[0].gaps if gap.cause == "synchronization"]
    assert [gap.location.line for gap in waits if gap.location] == [21]
    assert "aten::item" in waits[0].reason


# ---- the view


def text(rows: Iterable[Any]) -> str:
    return "\n".join(row.text.rstrip() for row in rows if not row.keys_only) + "\n"


@pytest.mark.parametrize("width", [78, 158])
def test_picture(training: Snapshot, width: int):
    document = step_timeline_document(training, frozenset(), width)
    golden.check(f"step_timeline-{width}", golden.text(document))
    assert all(len(document.row(index).text.rstrip()) <= width for index in range(11))


def test_printed_timeline_has_no_mark_and_no_keys(training: Snapshot):
    printed = text(printed_timeline(training, 78))
    assert "▾" not in printed
    assert "AT " not in printed
    assert "host-bound  7.46 ms" in printed


def document(run: Snapshot, toggled: frozenset[str]) -> StepTimelineDocument:
    built = step_timeline_document(run, toggled, 78)
    assert isinstance(built, StepTimelineDocument)
    return built


def row_of(shown: StepTimelineDocument, name: str) -> int:
    return max(index for index in range(12) if shown.row(index).text.startswith(f" {name}"))


def test_zoom_keeps_the_mark_in_its_cell(training: Snapshot):
    toggled = frozenset[str]()
    before = document(training, toggled)
    place = before.row(2).text.index("▾")
    for by in (1, 1, 1, -1, 1, 1):
        toggled = with_choices(toggled, document(training, toggled).steer("zoom", by, 0))
    assert abs(document(training, toggled).row(2).text.index("▾") - place) <= 1
    for _ in range(9):
        toggled = with_choices(toggled, document(training, toggled).steer("zoom", -1, 0))
    assert golden.text(document(training, toggled)) == golden.text(before)


def test_the_mark_reaches_each_task_of_a_zoomed_stream(training: Snapshot):
    toggled = frozenset(["timeline window=700.0:900.0", "timeline mark=701.0"])
    shown = document(training, toggled)
    row = row_of(shown, "stream 7")
    names = []
    for _ in range(8):
        toggled = with_choices(toggled, shown.steer("along", 8, row))
        shown = document(training, toggled)
        names += [span.text for span in shown.row(row).spans if span.style == "match.current"]
        if shown.row(row).links:
            names.append(shown.row(row).links[-1].name)
    assert "triton_per_fused__fused_rms_norm_embedding_0" in names
    assert "triton_poi_fused_addmm_clone_permute_select_view_1" in names


def test_the_mark_goes_on_to_the_next_task_outside_the_window(training: Snapshot):
    toggled = frozenset(["timeline window=7000.0:7100.0", "timeline mark=7050.0"])
    shown = document(training, toggled)
    moved = document(training, with_choices(toggled, shown.steer("along", 8, row_of(shown, "stream 7"))))
    assert moved.row(row_of(moved, "stream 7")).links or "8.25 ms" in golden.text(moved)


def test_zoom_on_a_listed_gap_shows_it(training: Snapshot):
    shown = document(training, frozenset())
    first = next(i for i in range(len(shown)) if "Longest gaps" in shown.row(i).text) + 1
    zoomed = document(training, with_choices(frozenset(), shown.steer("zoom", 1, first)))
    assert "h host-bound  1.37 ms" in golden.text(zoomed)
    assert "2.74 ms of it" in golden.text(zoomed)


def test_another_step_can_be_shown(training: Snapshot):
    shown = document(training, frozenset())
    fold = next(row.fold for row in map(shown.row, range(len(shown))) if row.fold and row.fold.endswith("#0"))
    assert document(training, frozenset([fold])).title.startswith("ProfilerStep#0")


def test_modules_have_their_paths_from_the_outermost_module():
    source = "args[0].model.layers.0"
    captured = ev.GraphCaptured(
        graph="0/0", ops=0, nodes=(), code="",
        modules=(ev.CapturedModule(source=source, type="Layer", path="model.layers.0", root="Llama"),),
    )  # fmt: skip
    nodes = tuple(
        ev.FxNode(name=name, op="call_function", target="", module=module)
        for name, module in (("mm", source), ("add", "self.other"))
    )
    graph = ev.AtenGraph(graph="0/0", stage="post_grad", phase="forward", nodes=nodes)
    assert modules_of([captured, graph]) == {
        ("0/0", "forward", "mm"): "model.layers.0", ("0/0", "forward", "add"): "self.other",
    }  # fmt: skip
