from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.capture.dynamo import graph_breaks
from tcexplore.events import FrameSkipped, GraphCaptured, Job, Recompiled
from tcexplore.session.ranked_breaks import uncompiled_functions
from tcexplore.session.snapshot import start_snapshot
from tests.capture import break_programs
from tests.capture.dynamo_capture import capture, capture_events, select

pytestmark = pytest.mark.torch


def counts(x: torch.Tensor, word: str):
    return x + len(word)


def test_a_function_without_ops_is_skipped_and_not_compiled():
    events = capture(break_programs.passes_through)
    (skipped,) = select(FrameSkipped, events)
    assert (skipped.frame.function, skipped.reason) == ("passes_through", graph_breaks.NO_OPS)
    assert select(GraphCaptured, events) == []


def test_a_function_without_tensors_is_skipped():
    skipped = {
        event.frame.function: event.reason for event in select(FrameSkipped, capture(break_programs.breaks_in_with))
    }
    assert skipped["__enter__"] == skipped["__exit__"] == graph_breaks.NO_TENSORS


@torch.compiler.disable(recursive=False)
def not_compiled(x: torch.Tensor):
    return break_programs.generated(x)


def calls_a_generator_outside(x: torch.Tensor):
    return [y.sin() for y in not_compiled(x)]


def test_a_generator_outside_a_graph_is_skipped():
    skipped = {event.frame.function: event.reason for event in select(FrameSkipped, capture(calls_a_generator_outside))}
    assert skipped["generated"] == graph_breaks.GENERATOR


def test_hooks_keep_the_callers_that_torch_inspects():
    with_hooks = capture(calls_a_generator_outside)
    assert "not_compiled" not in {graph.frame.function for graph in select(GraphCaptured, with_hooks)}


def test_a_partly_traced_frame_is_skipped_with_its_reason():
    (skipped,) = select(FrameSkipped, capture(break_programs.breaks_in_try))
    assert skipped.frame.function == "breaks_in_try"
    assert "`print`" in skipped.reason


def test_a_resume_function_without_ops_is_not_reported():
    assert select(FrameSkipped, capture(break_programs.calls_backward)) == []


def test_the_recompile_limit_skips_the_frame():
    calls = [(torch.ones(4), "a" * n) for n in range(torch._dynamo.config.recompile_limit + 2)]
    events = capture(counts, *calls)
    (skipped,) = select(FrameSkipped, events)
    assert "limit" in skipped.reason
    hits = [event for event in select(Recompiled, events) if event.limit_hit]
    assert hits
    assert {event.graph for event in hits} == {skipped.graph}
    assert hits[0].entry_count == hits[0].limit == torch._dynamo.config.recompile_limit


def fails_to_compile(x: torch.Tensor):
    return x.sin().cos()


def test_a_function_whose_compile_fails_silently_is_not_compiled():
    def backend(*_: object) -> None:
        raise RuntimeError("the backend is broken")

    with capture_events(__file__) as events, torch._dynamo.config.patch(suppress_errors=True):
        torch.compile(fails_to_compile, backend=backend)(torch.ones(3))
    (skipped,) = select(FrameSkipped, events)
    assert skipped.frame.function == "fails_to_compile"
    assert skipped.reason.endswith("hides that: RuntimeError: the backend is broken")
    run = start_snapshot(Job(run=0, file=__file__, source=""))
    for event in events:
        run = run.apply(event)
    assert [frame.frame.function for frame in uncompiled_functions(run)] == ["fails_to_compile"]
