"""The timeline of a script, in the pane, as text and as JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tcexplore import events as ev
from tcexplore.documents.timing.regions_view import FEW, draw_lane, regions_document, suggest_region_fix
from tcexplore.report.json_report import script_fields
from tcexplore.session import Snapshot, summarize
from tcexplore.session.compile_time import BACKWARD, COMPILE, RECOMPILE, timeline
from tcexplore.session.snapshot import start_snapshot
from tests.report.check_text import check_text

FILE = "/tmp/script.py"


def region_calls(region: int, calls: int, **more: Any) -> ev.RegionCalls:
    return replace(ev.RegionCalls(run=1, region=region, calls=calls, warm=calls - 2, seconds=3.0), **more)


def script_run(*extra: ev.Event) -> Snapshot:
    """Return a run with two regions, one of which compiles at calls 1 and 3 and a backward in between."""
    events = (
        ev.EntryFound(name="__main__", kind="script", rule="the file compiles something itself", calls=()),
        ev.RegionCreated(region=0, name="Net", kind="module", location=ev.Location(FILE, 7)),
        ev.RegionCreated(region=1, name="SGD.step", kind="optimizer"),
        ev.RegionGraph(region=0, graph="0/0"),
        ev.RegionCompiled(region=0, call=1, at=0.0, seconds=1.0, graphs=("0/0",)),
        ev.PhaseTimed(name="entire_backward_compile", seconds=0.5, graph="0/0", depth=0, at=1.0),
        ev.PhaseTimed(name="entire_backward_compile", seconds=0.5, graph="9/0", depth=0, at=1.0),
        ev.RegionGraph(region=0, graph="0/1"),
        ev.Recompiled(graph="0/1", failed_entry="0/0", failed_guard="size of x", reason="", old="64", new="24"),
        ev.RegionCompiled(region=0, call=3, at=3.0, seconds=1.0, graphs=("0/1",)),
        *extra,
    )
    snapshot = start_snapshot(ev.Job(run=1, file=FILE, source=""))
    for event in events:
        snapshot = snapshot.apply(replace(event, run=1))
    return snapshot


CALLS = region_calls(
    0, 10, sampled=8, median_us=84.0, low_us=80.0, high_us=92.0, entered=20, resumed=10, bin_s=0.5,
    activity=(1, 0, 0, 1, 0, 0, 1, 7),
)  # fmt: skip


def test_marks_have_kind_time_and_causes():
    result = timeline(script_run(CALLS))
    marks = [(mark.kind, mark.at, mark.call) for mark in result.regions[0].marks]
    assert marks == [(COMPILE, 0.0, 1), (BACKWARD, 1.0, None), (RECOMPILE, 3.0, 3)]
    assert result.regions[0].marks[2].causes[0].new == "24"
    assert (result.calls, result.seconds) == (10, 4.0)
    assert [region.calls is None for region in result.regions] == [False, True]


def test_the_graphs_that_a_call_compiles_again_are_counted_one_by_one():
    again = (
        ev.Recompiled(graph="0/2", failed_entry="0/1", failed_guard="size of x", reason="", old="24", new="8"),
        ev.Recompiled(graph="1/1", failed_entry="1/0", failed_guard="scale", reason="", old="1.0", new="2.0"),
        ev.RegionCompiled(region=0, call=5, at=5.0, seconds=2.0, graphs=("0/2", "1/1")),
    )
    run = script_run(CALLS, *again)
    document = regions_document(run, width=100)
    shown = "\n".join(document.row(index).text for index in range(len(document)))
    assert summarize(run).recompiles == 3
    assert "3 recompiles, 3.00 s" in shown
    assert "3 recompiles 3.00 s" in shown


def test_new_region_calls_replace_old_ones():
    snapshot = script_run(*(region_calls(0, calls) for calls in range(1, 2000)), region_calls(1, 5))
    assert [(calls.region, calls.calls) for calls in snapshot.region_calls] == [(0, 1999), (1, 5)]


def test_the_strip_shows_busy_cells_and_where_it_compiled():
    drawn = "".join(span.text for span in draw_lane(timeline(script_run(CALLS)).regions[0], 4.0, 16))
    assert drawn == "●━━━◁━━▂····↻━━━"
    busy = replace(timeline(script_run(CALLS)).regions[0], marks=())
    assert "".join(span.text for span in draw_lane(busy, 4.0, 8)) == "▂··▂··▂█"


def test_the_timeline_in_the_pane_the_report_and_json():
    run = script_run(CALLS, ev.ScriptEnded(seconds=4.0, time_limit=4.0), ev.Finished())
    document = regions_document(run, width=76)
    shown = "\n".join(document.row(index).text for index in range(len(document)))
    page = check_text(run, 100)
    for text in (
        "2 regions · 10 calls · 1 compile, 1.00 s · 1 recompile, 1.00 s",
        "stopped after 4 s: --follow S",
        "10 calls · 1 compile 1.00 s · 1 recompile 1.00 s · 1 backward compiled 500 ms",
        "warm 84.0 µs (80.0 µs to 92.0 µs)",
        "● compiled, ↻ recompiled, ◁ backward compiled, ━ until the call returns, ▁█ calls, · none",
        "2 graphs per call · 10 entries after a break",
        "call 3 at 3.00 s: recompiled 0/1, 1.00 s",
        "64 → 24: size of x",
        "no call has returned",
    ):
        assert " ".join(text.split()) in " ".join(shown.split()), shown
        assert " ".join(text.split()) in " ".join(page.split()), page
    fields = script_fields(run)
    assert fields["script_end"] == {"seconds": 4.0, "time_limit_s": 4.0, "processes_s": 0.0, "timed_out": True}
    assert [mark["kind"] for mark in fields["regions"][0]["compiles"]] == [COMPILE, BACKWARD, RECOMPILE]
    assert fields["regions"][0]["graphs"] == ["0/0", "0/1"]
    assert fields["regions"][1]["calls"] is None


def test_calls_without_a_graph_are_shown():
    document = regions_document(script_run(region_calls(0, 3, entered=1, uncompiled=2)), width=76)
    assert any("2 calls ran eagerly, without a graph" in document.row(i).text for i in range(len(document)))


def test_a_learning_rate_that_recompiles_the_optimizer_has_a_fix():
    rate = ev.Recompiled(
        graph="3/1", failed_entry="3/0", failed_guard="self.param_groups[0]['lr'] == 0.1", reason="", old="0.1",
        new="0.05",
        kind="float", name="self.param_groups[0]['lr']",
    )  # fmt: skip
    step = ev.RegionCompiled(region=1, call=2, at=2.0, seconds=1.0, graphs=("3/1",))
    regions = timeline(script_run(rate, step)).regions
    fixes = {one.region.name: bool(suggest_region_fix(one)) for one in regions}
    assert fixes == {"Net": False, "SGD.step": True}


def test_many_recompiles_are_folded():
    again = [
        ev.RegionCompiled(region=0, call=call, at=float(call), seconds=0.1, graphs=(f"0/{call}",))
        for call in range(4, 104)
    ]
    run = script_run(*again, CALLS)
    assert len(regions_document(run)) < 30
    assert len(regions_document(run, frozenset({"region 0"}))) > 100 + FEW


def test_a_module_has_no_timeline():
    plain = start_snapshot(ev.Job(run=1, file=FILE, source="")).apply(
        ev.EntryFound(run=1, name="model", kind="module", rule="", calls=())
    )
    assert "not a script" in regions_document(plain).row(0).text
    assert script_fields(plain) == {"regions": [], "steps": None, "script_end": None}


def test_a_recaptured_backward_shows_the_reason_if_torch_gives_one():
    def backward(number: int) -> tuple[ev.Event, ...]:
        made = ev.RegionCreated(region=2 + number, name=f"backward {number}", kind="compiled autograd")
        at, graph = 5.0 + number, f"!{number}/{2 + number}/0"
        return made, ev.RegionCompiled(region=2 + number, call=1, at=at, seconds=0.5, graphs=(graph,))

    because = "Cache miss due to 1 changed tensor shapes"
    run = script_run(*backward(0), ev.BackwardCaptured(backward="1", reason=because), *backward(1), *backward(2))
    captured = {one.region.name: one.marks[0].capture_reason for one in timeline(run).regions if one.marks}
    assert captured == {"Net": None, "backward 0": None, "backward 1": because, "backward 2": ""}
    document = regions_document(run, width=120)
    shown = "\n".join(document.row(index).text for index in range(len(document)))
    assert f"recaptured: {because}" in shown
    assert "recaptured: torch gives no reason" in shown
    assert [one["compiles"][0]["capture_reason"] for one in script_fields(run)["regions"] if one["compiles"]] == [
        None, None, because, "",
    ]  # fmt: skip
