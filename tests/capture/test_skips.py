from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.capture.dynamo import skipped_frames as skips
from tcexplore.events import FrameSkipped, GraphCaptured, Recompiled
from tests.capture import breaking
from tests.capture.dynamo import of, run

pytestmark = pytest.mark.torch


def counts(x: torch.Tensor, word: str):
    return x + len(word)


def test_a_function_without_ops_is_skipped_and_nothing_is_compiled():
    events = run(breaking.passes_through)
    (skipped,) = of(FrameSkipped, events)
    assert (skipped.frame.function, skipped.reason) == ("passes_through", skips.NO_OPS)
    assert of(GraphCaptured, events) == []


def test_a_function_without_tensors_is_skipped():
    skipped = {event.frame.function: event.reason for event in of(FrameSkipped, run(breaking.breaks_in_with))}
    assert skipped["__enter__"] == skipped["__exit__"] == skips.NO_TENSORS


@torch.compiler.disable(recursive=False)
def kept_out(x: torch.Tensor):
    return breaking.generated(x)


def calls_a_generator_outside(x: torch.Tensor):
    return [y.sin() for y in kept_out(x)]


def test_a_generator_that_runs_outside_a_graph_is_skipped():
    skipped = {event.frame.function: event.reason for event in of(FrameSkipped, run(calls_a_generator_outside))}
    assert skipped["generated"] == skips.GENERATOR


def test_torch_still_sees_who_called_a_frame_that_is_not_to_be_compiled():
    with_hooks = run(calls_a_generator_outside)
    assert "kept_out" not in {graph.frame.function for graph in of(GraphCaptured, with_hooks)}


def test_what_was_given_up_half_way_is_skipped_with_the_reason():
    (skipped,) = of(FrameSkipped, run(breaking.breaks_in_try))
    assert skipped.frame.function == "breaks_in_try"
    assert "`print`" in skipped.reason


def test_what_is_left_after_a_break_and_has_no_ops_is_no_skip():
    assert of(FrameSkipped, run(breaking.goes_backward)) == []


def test_the_recompile_limit_skips_the_frame():
    calls = [(torch.ones(4), "a" * n) for n in range(torch._dynamo.config.recompile_limit + 2)]
    events = run(counts, *calls)
    (skipped,) = of(FrameSkipped, events)
    assert "limit" in skipped.reason
    hits = [event for event in of(Recompiled, events) if event.limit_hit]
    assert hits
    assert {event.graph for event in hits} == {skipped.graph}
    assert hits[0].entry_count == hits[0].limit == torch._dynamo.config.recompile_limit
