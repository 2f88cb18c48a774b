"""The views of the panes: their keys, their titles, turning them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.ui.pane import RecordedSnapshot
from tcexplore.ui.pane_table import PANES, PaneSpec, View, heading
from tests import fakes
from tests.snapshots import training
from tests.snapshots.codes import with_code
from tests.ui.app_under_test import check_screen, run_app

VIEWS = [pytest.param(pane, view, id=f"{pane.id}-{view.name}") for pane in PANES for view in pane.views]


def texts(view: View, run: Any) -> list[str]:
    """Return the rows of a view with all folds open."""
    toggled = frozenset[str]()
    while True:
        document = view.build(run, toggled, 130)
        rows = [document.row(index) for index in range(len(document))]
        more = {row.fold for row in rows if row.fold and "▸" in row.text}
        if not more - toggled:
            return [row.text for row in rows]
        toggled |= more


@pytest.mark.parametrize(("pane", "view"), VIEWS)
@pytest.mark.parametrize("run", [fakes.complete, fakes.failed, fakes.nothing_compiled, training.run, fakes.running])
def test_a_recorded_run_has_the_same_rows(pane: PaneSpec, view: View, run: Any):
    snapshot: Snapshot = run()
    assert texts(view, RecordedSnapshot(snapshot, ())) == texts(view, snapshot), pane.id


def test_a_document_is_built_again_when_a_field_changes_that_it_reads():
    run = fakes.complete(7)
    recorded: Any = RecordedSnapshot(run, ())
    assert recorded.breaks is run.breaks
    assert recorded.code.kernels is run.code.kernels
    assert recorded.code_for("native").wrappers is run.code_for("native").wrappers
    assert recorded.fix_of(run.breaks[0]) is None
    assert recorded.moves_to(replace(run, timing=None, output=()))
    assert recorded.timing is None, "later reads are of the newer run"
    assert not recorded.moves_to(run)
    newer = replace(run, timing=None)
    assert recorded.moves_to(newer)
    assert not recorded.moves_to(replace(newer, breaks=()))
    assert not recorded.moves_to(replace(newer, codes=()))
    fix = ev.BreakFix(location=None, kind="", state="proposed")
    assert not recorded.moves_to(replace(newer, fixes=(fix,)))


def test_fields_that_change_all_the_time_count_at_the_end():
    run = fakes.running()
    recorded: Any = RecordedSnapshot(run, ("phase_times",))
    assert recorded.phase_times is run.phase_times
    timed = replace(run, phase_times=(ev.PhaseTimed(name="dynamo", seconds=1.0, graph=None, depth=0),))
    assert recorded.moves_to(timed)
    assert not recorded.moves_to(replace(timed, status="ok"))


def test_every_view_has_rows_for_every_run():
    for pane in PANES:
        for view in pane.views:
            for run in (
                fakes.running(),
                fakes.failed(),
                fakes.nothing_compiled(),
                with_code(training.run(), passes=()),
            ):
                assert len(view.build(run, frozenset(), 38)), (pane.id, view.name)


def test_titles_fit_and_name_the_view():
    for pane in PANES:
        for view in pane.views:
            for room in range(24, 90):
                title = heading(pane, view, "2 graphs", (), room).plain
                assert len(title) <= room or len(title) < 40
                assert len(pane.views) == 1 or f"[{view.name}]" in title
    graph = PANES[1]
    listed = graph.listed(graph.views[0], training.run(3))
    assert heading(graph, graph.views[0], "", (), 80, listed).plain == "2 Graph [nodes] modules aot"
    assert heading(graph, graph.views[5], "", (), 30).plain == "2 Graph nodes [passes] …"
    assert heading(graph, graph.views[0], "17 ops", ("old: run 7",), 30).plain == "2 Graph [nodes] … ─ old: run 7"


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (160, 50)], ids=str)
@pytest.mark.parametrize("view", ["code", "decomp", "aot", "passes", "fusion"])
async def test_the_screen(view: str, size: tuple[int, int]):
    pane = next(pane for pane in PANES if pane.view(view))
    async with run_app(fakes.session(training.run(3)), size) as ui:
        ui.app.main.show_view(pane.id, view)
        await ui.settle()
        check_screen(f"view_{view}_{size[0]}x{size[1]}", ui)


async def test_next_view_wraps_around():
    async with run_app(fakes.session(training.run(3))) as ui:
        await ui.press("2", "v")
        assert ui.pane("graph").view.name == "modules"
        await ui.press("V", "V")
        assert ui.pane("graph").view.name == "aot"
        await ui.press("v")
        assert ui.pane("graph").view.name == "nodes"
        await ui.press("3", "v")
        assert "No other view" in ui.notifications[-1]


def test_a_run_has_at_most_12_views_and_none_that_says_nothing():
    for run in (fakes.complete(7), training.run(3), fakes.failed(1)):
        listed = {pane.id: pane.listed(pane.views[0], run) for pane in PANES}
        assert sum(map(len, listed.values())) <= 12
        for pane, views in listed.items():
            for view in views[1:]:
                rows = [view.build(run, frozenset(), 100).row(0).text]
                assert "none in this run" not in rows[0], (pane, view.name)


async def test_a_view_is_listed_once_it_has_something_to_say():
    run = fakes.complete(7)
    async with run_app(fakes.session(run)) as ui:
        assert "check" not in str(ui.pane("guards").border_title)
        await ui.press("4", "z")
        answer = ev.RecompileAnswer(run=7, number=1, inputs=("f32[2]",))
        await ui.show(fakes.session(run.apply(answer)))
        assert "check" in str(ui.pane("guards").border_title)
        await ui.press("v")
        assert ui.pane("guards").view.name == "check"


async def test_the_graph_as_code_and_back_from_any_pane():
    async with run_app(fakes.session(training.run(3))) as ui:
        await ui.press("4")
        await ui.act("as-code")
        assert (ui.current, ui.pane("graph").view.name) == ("graph", "code")
        await ui.press("3")
        await ui.act("as-code")
        assert ui.pane("graph").view.name == "code"
        await ui.act("as-code")
        assert ui.pane("graph").view.name == "nodes"


async def test_turning_back_to_a_view_reuses_its_document():
    async with run_app(fakes.session(training.run(3))) as ui:
        await ui.press("5", "home", "down", "down", "down")
        before = ui.view("code").document
        await ui.press("v", "V")
        assert ui.view("code").document is before
