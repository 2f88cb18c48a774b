"""Limits of `check`: an unmeasured value exceeds its limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.cli.gate import judge, status
from tcexplore.cli.options import Limits, Request
from tcexplore.session import Snapshot
from tcexplore.studies.runs import Outcome
from tests.studies.playback import failed, timed

SLOW = ev.PhaseTimed(name="dynamo", seconds=12.0, graph="0/0", depth=0)
MEMORY = ev.Memory(device="cpu", method="counted", weights=0, inputs=0, eager_peak=100, compiled_peak=150)

GRAPH = ev.GraphCaptured(graph="0/0", ops=1, nodes=(), code="")
RECOMPILE = ev.Recompiled(graph="0/1", failed_entry="0/0", failed_guard="L['x'].size()[0] == 8", reason="x has 9 rows")
KERNEL = ev.Kernel(
    graph="0/0", phase="forward", name="cpp_fused_add_0", language="cpp", source="void cpp_fused_add_0()"
)
HIT = ev.CacheLookup(graph="0/0", cache="fx_graph", outcome="hit")


def exceeded_limits(limits: Limits, *events: ev.Event) -> tuple[tuple[str, ...], int]:
    snapshot = Snapshot(run=0, file="m.py", source="", config=ev.Config())
    for event in events:
        snapshot = snapshot.apply(event)
    request, outcome = Request("check", limits=limits), Outcome(snapshot)
    result = judge(request, outcome)
    return result.sentences, status(result, snapshot)


LARGE = ev.Memory(device="cpu", method="counted", weights=0, inputs=0, eager_peak=1, compiled_peak=3)
WRONG = ev.Accuracy(verdict="wrong", worst="output")


@pytest.mark.parametrize(
    ("limits", "kept", "broken", "sentence"),
    [
        (Limits(min_speedup=1.2), timed(1.3), timed(1.1), "compiled is 1.10× as fast, 1.2× required (--min-speedup)"),
        (Limits(min_speedup=1.2), timed(1.2), None, "no speedup was measured, 1.2× required (--min-speedup)"),
        (
            Limits(min_speedup=1.2), replace(timed(1.3, verdict="undecided"), low=1.25),
            replace(timed(1.5, verdict="undecided"), low=0.5, high=3.0),
            "compiled is most likely 1.50× as fast, but maybe 0.50× to 3.00×, 1.2× required (--min-speedup)",
        ),
        (
            Limits(max_compile_seconds=20), SLOW, replace(SLOW, seconds=24.0),
            "compiling took 24.0 s, 20 s allowed (--max-compile-seconds)",
        ),
        (
            Limits(max_memory_ratio=1.5), MEMORY, None,
            "peak memory was not measured, 1.5× allowed (--max-memory-ratio)",
        ),
        (
            Limits(max_memory_ratio=2), MEMORY, LARGE,
            "compiled's peak is 3.00× eager's, 2× allowed (--max-memory-ratio)",
        ),
        (
            Limits(max_graphs=0), HIT, GRAPH,
            "1 graph, 0 allowed (--max-graphs)",
        ),
        (
            Limits(max_recompiles=0), replace(RECOMPILE, limit_hit=True), RECOMPILE,
            "1 recompile, 0 allowed (--max-recompiles)",
        ),
        (
            Limits(max_unique_kernels=0), replace(KERNEL, language="extern"), KERNEL,
            "1 unique kernel, 0 allowed (--max-unique-kernels)",
        ),
        (
            Limits(min_cache_hits=0.5), HIT, None,
            "no cache was looked up, 50% hits required (--min-cache-hits)",
        ),
        (
            Limits(min_cache_hits=0.5), HIT, replace(HIT, outcome="bypass", reason="no hash"),
            "0 of 1 cache lookup hit, 50% required; fx_graph bypass in graph 0/0: no hash (--min-cache-hits)",
        ),
        (
            Limits(accuracy=True), ev.Accuracy(verdict="identical"), WRONG,
            "compiled results are wrong: they differ from eager, most in output (--accuracy)",
        ),
        (
            Limits(accuracy=True), ev.Accuracy(verdict="close to eager"), None,
            "results not compared (--accuracy)",
        ),
    ],
)  # fmt: skip
def test_limit(limits: Limits, kept: ev.Event, broken: ev.Event | None, sentence: str):
    assert exceeded_limits(limits, kept, ev.Finished()) == ((), 0)
    assert exceeded_limits(limits, *([broken] if broken else []), ev.Finished()) == ((sentence,), 1)


def test_a_failed_run_exceeds_no_other_limit():
    assert exceeded_limits(Limits(min_speedup=2, accuracy=True), failed()) == ((), 3)


def test_kernels_that_differ_only_in_name_are_one_unique_kernel():
    renamed = replace(KERNEL, graph="1/0", name="cpp_fused_add_1", source="void cpp_fused_add_1()")
    different = replace(renamed, source="void cpp_fused_add_1(float x)")
    assert exceeded_limits(Limits(max_unique_kernels=1), KERNEL, renamed, ev.Finished()) == ((), 0)
    assert exceeded_limits(Limits(max_unique_kernels=1), KERNEL, different, ev.Finished())[1] == 1


def test_a_failed_run_still_exceeds_a_count():
    assert exceeded_limits(Limits(max_graphs=0), GRAPH, failed())[0] == ("1 graph, 0 allowed (--max-graphs)",)


def test_the_checked_limits_are_listed():
    limits = Limits(max_breaks=0, max_graphs=4, accuracy=True, own=("models",))
    result = judge(
        Request("check", limits=limits), Outcome(Snapshot(run=0, file="m.py", source="", config=ev.Config()))
    )
    assert set(result.options) == {"max-breaks", "max-graphs", "accuracy"}


@pytest.mark.parametrize("requested", [True, False])
def test_a_failed_test_of_a_custom_op_is_an_exceeded_limit_if_opcheck_is_on(requested: bool):
    config = ev.Config(opcheck=requested)
    snapshot = Snapshot(run=0, file="m.py", source="", config=config)
    for passed in (True, False):
        snapshot = snapshot.apply(ev.CustomOpChecked(op="mylib.f", test="test_schema", passed=passed, reason="aliases"))
    result = judge(Request("check", config=config), Outcome(snapshot.apply(ev.Finished())))
    assert result.sentences == (("mylib.f fails test_schema: aliases (--opcheck)",) if requested else ())
    assert ("opcheck" in result.options) == requested


def on_lines(name: str, *lines: int) -> ev.Kernel:
    places = tuple(ev.Location("m.py", line) for line in lines)
    return replace(KERNEL, name=name, source=f"void {name}()", source_lines=places)


@pytest.mark.parametrize(
    ("kernels", "sentence"),
    [
        ((on_lines("a", 20, 21, 24),), ""),
        ((on_lines("a", 21), on_lines("b", 24), on_lines("c", 21, 24)), ""),
        ((on_lines("a", 20, 21), on_lines("b", 24)), "share no kernel: a and b, not compared (--must-fuse)"),
        ((on_lines("a", 21),), "share no kernel: line 24 is in no generated kernel (--must-fuse)"),
        (
            (on_lines("a", 21), replace(on_lines("b", 24), language="extern")),
            "share no kernel: line 24 is in no generated kernel (--must-fuse)",
        ),
    ],
)
def test_lines_must_share_a_kernel(kernels: tuple[ev.Kernel, ...], sentence: str):
    said, exit_status = exceeded_limits(Limits(must_fuse=((21, 24),)), *kernels, ev.Finished())
    assert said == ((f"lines 21 and 24 {sentence}",) if sentence else ())
    assert exit_status == bool(sentence)
