"""The counters study: which kernels are counted, what limits one, and its document."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.studies.counters import (
    STUDY,
    CountedKernel,
    CounterOptions,
    chosen,
    conclusion,
    missing,
    wait_of,
)
from tcexplore.studies.runs import RefusedError
from tcexplore.studies.study import StudyState
from tests.studies.playback import GRAPH, printed

SOURCE = "def softmax(in_ptr0):\n    tmp0 = tl.load(in_ptr0)\n    tmp1 = tl.exp(tmp0)\n"
AT = ev.Location(file="/tmp/model.py", line=7)


def kernel(name: str, moved: int = 100, language: str = "triton") -> ev.Kernel:
    return ev.Kernel(
        graph="0/0", phase="forward", name=name, language=language, source=SOURCE, bytes_read=moved, bytes_written=0,
        source_lines=(AT,), lines=(ev.KernelLine(n=3, nodes=("exp",), source=(AT,)),),
    )  # fmt: skip


def counters(name: str, **values: object) -> ev.KernelCounters:
    known = ev.KernelCounters(
        graph="0/0", phase="forward", kernel=name, target="native", us=11.0, compute_share=0.2, memory_share=0.6,
        dram_share=0.6, l2_share=None, l1_share=0.1, occupancy=0.7,
        statements=(
            ev.StatementCounters(line=2, instructions=10, samples=20, stalls=(("selected", 15), ("wait", 5))),
            ev.StatementCounters(line=3, instructions=30, samples=80, stalls=(("not_selected", 40), ("long_sb", 39))),
        ),
    )  # fmt: skip
    return replace(known, **values)  # type: ignore[arg-type]


def run_of(*events: ev.Event) -> Snapshot:
    run = Snapshot(run=1, file="/tmp/model.py", source="", config=ev.Config())
    for event in (GRAPH, *events):
        run = run.apply(replace(event, run=1))
    return run


def state_of(run: Snapshot) -> StudyState[CounterOptions, Snapshot]:
    job = ev.Job(run=1, file="/tmp/model.py", source="")
    return StudyState(job, CounterOptions(), results=[run])


def test_without_names_the_kernels_that_move_most_are_counted_if_none_was_measured():
    run = run_of(*(kernel(f"k{n}", moved=n) for n in range(5)), kernel("mm", language="extern"))
    assert [one.name for one in chosen(run, ())] == ["k4", "k3", "k2"]
    assert [one.name for one in chosen(run, ("k1",))] == ["k1"]
    assert [one.name for one in chosen(run, ("kernel 1",))] == ["k0"]


def test_a_name_that_is_no_triton_kernel_is_refused_with_what_there_is():
    with pytest.raises(RefusedError, match="no Triton kernel mm"):
        chosen(run_of(kernel("k0"), kernel("mm", language="extern")), ("mm",))
    with pytest.raises(RefusedError, match="has no Triton kernels"):
        chosen(run_of(kernel("cpp_fused_0", language="cpp")), ())


def test_a_warp_that_could_issue_does_not_wait():
    assert wait_of((("not_selected", 50), ("selected", 30))) is None
    assert wait_of((("not_selected", 50), ("long_sb", 30), ("barrier", 31))) == ("a barrier", 31)
    assert wait_of((("a reason of a later GPU", 3),)) == ("a reason of a later GPU", 3)


def test_the_conclusion_names_a_resource_near_its_peak_or_else_what_warps_wait_for():
    def of(**values: object) -> str:
        return conclusion(CountedKernel(kernel("k"), counters("k", **values)))

    assert of(dram_share=0.91, memory_share=0.91).startswith("DRAM is at 91% of its peak")
    assert of(compute_share=0.84).startswith("compute is at 84%")
    assert of() == (
        "no resource is near its peak; in 39% of the samples warps wait for global memory, most at line 3 of the kernel"
    )
    assert of(statements=()) == "no resource is near its peak"


def test_the_document_has_shares_and_the_statements_with_their_lines():
    text = printed("counters", state_of(run_of(kernel("k"), counters("k"))))
    assert "DRAM" in text
    assert "L2" not in text, "a share that this GPU does not count has no column"
    first = next(line for line in text.splitlines() if "tmp1" in line)
    assert first.split()[:2] == ["80%", "75%"]
    assert "global memory 49%" in first
    assert " 7 " in first


def test_a_machine_that_does_not_count_gives_its_reason_and_status_1():
    fact = ev.FactMissing(fact="hardware counters of kernels", symbol="ncu", reason="they need an NVIDIA GPU")
    state = state_of(run_of(kernel("k"), fact, ev.Finished()))
    assert missing(state.results[0]) == "they need an NVIDIA GPU"
    assert "they need an NVIDIA GPU" in printed("counters", state)
    assert STUDY.exit_status(state) == 1
    assert STUDY.fields(state)["missing"] == "they need an NVIDIA GPU"


def test_the_json_has_every_statement_with_its_stalls():
    (one,) = STUDY.fields(state_of(run_of(kernel("k"), counters("k"))))["kernels"]
    assert [statement["line"] for statement in one["statements"]] == [3, 2]
    assert one["statements"][0]["source"] == [{"file": "/tmp/model.py", "line": 7}]
    assert one["statements"][0]["stalls"] == {"not_selected": 40, "long_sb": 39}
