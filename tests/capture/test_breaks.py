from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.events import FrameSkipped, GraphBreak, GraphCaptured
from tests.capture import breaking
from tests.capture.dynamo import at, broken, line_of, of, run

pytestmark = pytest.mark.torch

KINDS = [
    (breaking.prints, "print(", "GB0059", "`print`"),
    (breaking.takes_an_item, ".item()", "GB0124", "`.item()`"),
    (breaking.makes_a_list_of_a_tensor, ".tolist()", "GB0109", "`.tolist()`"),
    (breaking.branches_on_a_tensor, "if y.sum()", "GB0170", "branch"),
    (breaking.loops_on_a_tensor, "while x.sum()", "GB0170", "branch"),
    (breaking.asks_for_a_break, "graph_break()", "GB0025", "asks for"),
    (breaking.calls_what_is_disabled, "kept_out(y)", "GB0098", "torch.compiler.disable"),
    (breaking.calls_a_c_extension, "crc32", "GB0007", "`zlib.crc32`"),
    (breaking.selects_by_values, "x[x > 0]", "GB0036", "depends on the values"),
    (breaking.goes_backward, "backward()", "GB0123", "backward"),
    (breaking.breaks_in_try, "print(", "GB0059", "plain Python"),
    (breaking.breaks_in_with, "print(", "GB0059", "`with`"),
    (breaking.breaks_in_a_loop, "print(", "GB0059", "inside a loop"),
]


@pytest.mark.parametrize(("program", "line", "id_", "words"), KINDS, ids=lambda value: getattr(value, "__name__", None))
def test_each_kind_is_found_once_with_its_line_its_id_and_plain_words(
    program: Callable[..., Any], line: str, id_: str, words: str
):
    events = run(program)
    (found,) = of(GraphBreak, events)
    assert (found.id, found.location, found.count) == (id_, at(program, line), 1)
    assert words in found.reason
    assert line in found.code
    assert found.explanation
    assert id_.lower() in found.url
    assert found.stack[-1] == found.location
    assert broken(events) == []


@pytest.mark.parametrize(
    "program",
    [
        breaking.appends_to_a_list,
        breaking.catches_its_own_exception,
        breaking.consumes_a_generator,
        breaking.raises,
        breaking.passes_through,
    ],
)
def test_none_is_invented(program: Callable[..., Any]):
    assert of(GraphBreak, run(program)) == []


def test_one_in_the_resumed_part_is_found_in_the_function_itself():
    first, second = of(GraphBreak, run(breaking.breaks_twice))
    assert first.location == at(breaking.breaks_twice, '"first"')
    assert second.location == at(breaking.breaks_twice, '"second"')
    assert (first.graph, second.graph) == ("0/0", "1/0")


def test_one_that_nested_frames_report_is_one_and_has_the_whole_stack():
    (found,) = of(GraphBreak, run(breaking.calls_what_breaks))
    assert found.stack[-2:] == (at(breaking.calls_what_breaks, "helper(y)"), at(breaking.helper, "print("))


def test_a_line_reached_on_two_ways_is_reported_for_each():
    found = of(GraphBreak, run(breaking.calls_what_breaks_twice))
    assert [b.location for b in found] == [at(breaking.helper, "print(")] * 2
    assert [b.stack[-2].line for b in found] == [
        line_of(breaking.calls_what_breaks_twice, text) for text in ("helper(x.sin())", "helper(y.cos())")
    ]


def test_a_loop_around_one_reports_it_once_and_the_frame_as_skipped():
    events = run(breaking.calls_what_breaks_in_a_loop)
    (found,) = of(GraphBreak, events)
    (skipped,) = of(FrameSkipped, events)
    assert found.location == at(breaking.helper, "print(")
    assert skipped.frame.function == "calls_what_breaks_in_a_loop"
    assert "inside a loop" in skipped.reason


def test_two_methods_break_each_in_its_own():
    model = breaking.TwoMethods()
    events = run(model.forward)
    assert [b.location.function for b in of(GraphBreak, events)] == ["first", "second"]


def test_a_recompile_does_not_report_it_again():
    calls = [(torch.ones(n, 4),) for n in (4, 5)]
    events = run(breaking.prints, *calls)
    assert {graph.graph for graph in of(GraphCaptured, events)} >= {"0/0", "0/1"}
    assert len(of(GraphBreak, events)) == 1


def test_fullgraph_makes_it_an_error_that_is_still_explained():
    events = run(breaking.prints, fullgraph=True)
    (found,) = of(GraphBreak, events)
    assert (found.id, found.location) == ("GB0059", at(breaking.prints, "print("))
    assert of(FrameSkipped, events) == []
    assert of(GraphBreak, run(breaking.raises, fullgraph=True)) == []


def test_torchs_registry_is_quoted():
    (found,) = of(GraphBreak, run(breaking.branches_on_a_tensor))
    assert "torch.cond" in " ".join(found.registry_hints)
    assert "data-dependent branching" in found.registry_explanation
    assert any("torch.cond" in hint for hint in found.hints)
