"""The views of cache entries, symbols and recompile checks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.documents.document import Builder
from tcexplore.documents.guards.cache_entries_view import cache_entries_document, guard_diff_document
from tcexplore.documents.guards.guards_view import describe_guard_cost, guards_document
from tcexplore.documents.guards.recompile_check_view import answer_rows, recompile_check_document
from tcexplore.documents.guards.symbols_view import symbols_document
from tcexplore.documents.style_names import NAMES
from tcexplore.session.economics import GuardCost
from tests import fakes
from tests.documents import golden
from tests.documents.views import opened, rows
from tests.snapshots import recompiling

EVERY: dict[str, Builder] = {
    "cache_entries": cache_entries_document,
    "symbols": symbols_document,
    "recompile_check": recompile_check_document,
}


@pytest.mark.parametrize("view", EVERY)
def test_views(view: str):
    run, build = recompiling.run(), EVERY[view]
    closed, whole = build(run, frozenset(), 78), build(run, opened(build, run), 78)
    golden.check(f"view-{view}", golden.text(closed) + "\n== all open\n" + golden.text(whole))


@pytest.mark.parametrize("view", EVERY)
@pytest.mark.parametrize("run", [recompiling.run, fakes.running, fakes.failed, fakes.nothing_compiled, fakes.complete])
def test_rows_are_single_lines_in_known_styles(view: str, run):  # noqa: ANN001
    opened_rows = rows(EVERY[view], run(), opened(EVERY[view], run(), 60), 60)
    assert opened_rows
    for row in opened_rows:
        assert "\n" not in row.text
        assert {name for span in row.spans for name in span.style.split()} <= NAMES


def test_the_guards_view_shows_how_to_avoid_the_recompiles():
    texts = [row.text for row in rows(guards_document, recompiling.run(), frozenset(), 78)]
    first = next(index for index, text in enumerate(texts) if text == "   to avoid it:")
    assert any("↻" in text for text in texts[:first])
    assert texts[first - 1].strip(), "there is no blank row between a recompile and the ways to avoid it"
    assert texts[first + 1].startswith("   · ")
    advice = [text for text in texts if text.startswith("   · ")]
    assert len(advice) == len(set(advice)), "the ways for a size are below its first recompile only"


def test_an_answer_of_several_frames_begins_with_the_whole_call():
    reused = ev.FrameAnswer(number="0", verdict="matches", graph="0/1")
    unknown = ev.FrameAnswer(number="1", verdict="unknown", note="it resumes after a graph break")
    new = ev.FrameAnswer(number="1", verdict="recompiles")

    def first(*frames: ev.FrameAnswer) -> str:
        answer = ev.RecompileAnswer(number=1, inputs=("f32[3]",), frames=frames)
        return next(answer_rows(answer, recompiling.run(), 78)).text.strip()

    assert first(reused, unknown) == "No recompile in 1 of 2 frames; not known for the rest."
    assert first(reused, new) == "This call would recompile."
    assert first(reused, replace(reused, number="1")) == "This call would not recompile."
    not_entered = ev.FrameAnswer(number="1", verdict="not entered")
    assert first(reused, not_entered) == "This call would not recompile, with the values of the nearest one."
    assert first(reused, replace(new, verdict="limit")).startswith("A part of this call would run eagerly: no entry")
    assert first(unknown, unknown) == "Whether this call would recompile is not known."
    assert first(new, unknown) == "↻ would recompile"
    assert first(reused) == "✔ 0/1 would be reused"


def test_the_limit_of_a_dynamic_size_names_the_condition_that_makes_it():
    """As in a training step on an H200: 32-bit indexing and a fusion limit the batch, the fusion more."""
    codes = ("16384*s23 <= 2147483647", "s23*s25 <= s25 + 2147483519", "16384*s23 < 5242880", "128*s23 <= 2147483647")
    conditions = tuple(ev.SymbolCondition(code=code, library_place=f"place {n}") for n, code in enumerate(codes))
    size = ev.SymbolSource(name="x", kind="size", dim=0)
    run = recompiling.run()

    def text(*conditions: ev.SymbolCondition) -> str:
        symbol = ev.Symbol(name="s23", lower="2", upper="319", sources=(size,), conditions=conditions)
        limited = replace(run, symbols=(ev.GraphSymbols(graph="0/1", symbols=(symbol,)),))
        return " ".join(row.text.strip() for row in rows(symbols_document, limited, frozenset(), 300))

    assert "one graph for sizes from 2 to 319, from the first compile" in text(*conditions)
    assert "Larger ones compile again: the graph needs 16384*s23 < 5242880 (place 2)." in text(*conditions)
    assert "Larger ones compile again. It" in text(*conditions[:2])


def test_guard_differences_of_two_entries():
    document = guard_diff_document(recompiling.run(), "0/1", "0/2")
    assert [document.row(index).text for index in range(len(document))] == [
        " 2 guards differ between 0/1 and 0/2",
        " − 0/1 self.steps == 1",
        " + 0/2 self.steps == 2",
        " − 0/1 lr == 0.1",
        " + 0/2 lr type is float",
    ]


def test_a_cost_of_guards_that_varies_from_call_to_call_is_no_figure():
    steady, disturbed = (GuardCost(us=90.0, share=0.09, cold=False, shares=s) for s in ((0.08, 0.1), (0.02, 0.41)))
    assert describe_guard_cost(steady) == "Checking guards takes 90.0 µs, 9% of a compiled call."
    assert describe_guard_cost(disturbed).startswith("What checking guards costs is unclear: between 2% and 41% of a ")
