from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.events import FrameSkipped, GraphBreak, GraphCaptured
from tests.capture import break_programs
from tests.capture.dynamo_capture import capture, hook_failures, line_number, location_of, select

pytestmark = pytest.mark.torch

KINDS = [
    (break_programs.prints, "print(", "GB0059", "`print`"),
    (break_programs.takes_an_item, ".item()", "GB0124", "`.item()`"),
    (break_programs.makes_a_list_of_a_tensor, ".tolist()", "GB0109", "`.tolist()`"),
    (break_programs.branches_on_a_tensor, "if y.sum()", "GB0170", "branch"),
    (break_programs.loops_on_a_tensor, "while x.sum()", "GB0170", "branch"),
    (break_programs.requests_a_break, "graph_break()", "GB0025", "asks for"),
    (break_programs.calls_a_disabled_function, "disabled(y)", "GB0098", "torch.compiler.disable"),
    (break_programs.calls_a_c_extension, "crc32", "GB0007", "`zlib.crc32`"),
    (break_programs.selects_by_values, "x[x > 0]", "GB0036", "depends on the values"),
    (break_programs.calls_backward, "backward()", "GB0123", "backward"),
    (break_programs.breaks_in_try, "print(", "GB0059", "plain Python"),
    (break_programs.breaks_in_with, "print(", "GB0059", "`with`"),
    (break_programs.breaks_in_a_loop, "print(", "GB0059", "inside a loop"),
]


@pytest.mark.parametrize(("program", "line", "id_", "text"), KINDS, ids=lambda value: getattr(value, "__name__", None))
def test_each_kind_is_reported_once_with_line_id_and_reason(
    program: Callable[..., Any], line: str, id_: str, text: str
):
    events = capture(program)
    (graph_break,) = select(GraphBreak, events)
    assert (graph_break.registry_id, graph_break.location, graph_break.count) == (id_, location_of(program, line), 1)
    assert text in graph_break.reason
    assert line in graph_break.code
    assert graph_break.explanation
    assert id_.lower() in graph_break.url
    assert graph_break.stack[-1] == graph_break.location
    assert hook_failures(events) == []


@pytest.mark.parametrize(
    "program",
    [
        break_programs.appends_to_a_list,
        break_programs.catches_its_own_exception,
        break_programs.consumes_a_generator,
        break_programs.raises,
        break_programs.passes_through,
    ],
)
def test_programs_without_breaks_report_none(program: Callable[..., Any]):
    assert select(GraphBreak, capture(program)) == []


def test_a_break_in_a_resume_function_has_the_line_of_the_original_function():
    first, second = select(GraphBreak, capture(break_programs.breaks_twice))
    assert first.location == location_of(break_programs.breaks_twice, '"first"')
    assert second.location == location_of(break_programs.breaks_twice, '"second"')
    assert (first.graph, second.graph) == ("0/0", "1/0")


def test_each_expression_of_a_line_that_breaks_is_reported():
    first, second = select(GraphBreak, capture(break_programs.breaks_twice_in_a_line))
    assert first.location == second.location
    assert (first.graph, second.graph) == ("0/0", "1/0")


def test_a_break_in_a_helper_is_reported_once_with_the_whole_stack():
    (graph_break,) = select(GraphBreak, capture(break_programs.calls_helper))
    assert graph_break.stack[-2:] == (
        location_of(break_programs.calls_helper, "helper(y)"),
        location_of(break_programs.helper, "print("),
    )


def test_a_line_with_two_callers_is_reported_for_each():
    breaks = select(GraphBreak, capture(break_programs.calls_helper_twice))
    assert [b.location for b in breaks] == [location_of(break_programs.helper, "print(")] * 2
    assert [b.stack[-2].line for b in breaks] == [
        line_number(break_programs.calls_helper_twice, text) for text in ("helper(x.sin())", "helper(y.cos())")
    ]


@pytest.mark.skipif(not hasattr(torch._dynamo.config, "nested_graph_breaks"), reason="this torch has no such option")
def test_breaks_have_the_same_places_with_nested_graph_breaks():
    places = []
    for nested in (False, True):
        with torch._dynamo.config.patch(nested_graph_breaks=nested):
            events = capture(break_programs.calls_helper_twice)
        assert hook_failures(events) == []
        breaks = select(GraphBreak, events)
        places.append([(b.registry_id, [(frame.function, frame.line) for frame in b.stack[-2:]]) for b in breaks])
    assert places[0] == places[1]
    assert len(places[0]) == 2


def test_a_break_called_from_a_loop_is_reported_once_and_skips_the_frame():
    events = capture(break_programs.calls_helper_in_a_loop)
    (graph_break,) = select(GraphBreak, events)
    (skipped,) = select(FrameSkipped, events)
    assert graph_break.location == location_of(break_programs.helper, "print(")
    assert skipped.frame.function == "calls_helper_in_a_loop"
    assert "inside a loop" in skipped.reason


def test_breaks_in_two_methods_have_their_own_locations():
    model = break_programs.TwoMethods()
    events = capture(model.forward)
    assert [b.location.function for b in select(GraphBreak, events)] == ["first", "second"]


def test_a_recompile_does_not_report_a_break_again():
    calls = [(torch.ones(n, 4),) for n in (4, 5)]
    events = capture(break_programs.prints, *calls)
    assert {graph.graph for graph in select(GraphCaptured, events)} >= {"0/0", "0/1"}
    assert len(select(GraphBreak, events)) == 1


def test_fullgraph_errors_are_reported_as_breaks():
    events = capture(break_programs.prints, fullgraph=True)
    (graph_break,) = select(GraphBreak, events)
    assert (graph_break.registry_id, graph_break.location) == ("GB0059", location_of(break_programs.prints, "print("))
    assert select(FrameSkipped, events) == []
    assert select(GraphBreak, capture(break_programs.raises, fullgraph=True)) == []


def test_breaks_have_the_text_of_torchs_registry():
    (graph_break,) = select(GraphBreak, capture(break_programs.branches_on_a_tensor))
    assert "torch.cond" in " ".join(graph_break.registry_hints)
    assert "data-dependent branching" in graph_break.registry_explanation
    assert any("torch.cond" in hint for hint in graph_break.hints)


class Tagger(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = torch.nn.LSTM(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return self.rnn(x)[0].relu()


def test_a_module_that_dynamo_cannot_trace_is_a_break_like_any_other():
    events = capture(Tagger(), (torch.ones(2, 3, 4),))
    assert hook_failures(events) == []
    assert [event.registry_id for event in select(GraphBreak, events)] == [
        "GB0025",
        "GB0014" if torch.__version__ < "2.15" else "GB0148",
    ]


class WithoutTruth(torch.nn.Module):
    def __bool__(self) -> bool:
        raise TypeError("it has no truth, as a compiled module without a length")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x.relu()


def test_the_truth_of_a_module_is_not_asked():
    events = capture(WithoutTruth())
    assert hook_failures(events) == []
    assert [event.registry_id for event in select(GraphBreak, events)] == ["GB0025"]
