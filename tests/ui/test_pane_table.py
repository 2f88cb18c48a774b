"""The views of the panes: their keys, their titles, turning them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from tcexplore.session import Snapshot
from tcexplore.ui.panes.pane_spec import PaneSpec, View, heading
from tcexplore.ui.panes.pane_table import PANES
from tests import fakes
from tests.snapshots import training
from tests.snapshots.codes import with_code
from tests.ui.app_under_test import check_screen, run_app

VIEWS = [pytest.param(pane, view, id=f"{pane.id}-{view.name}") for pane in PANES for view in pane.views]
GIVEN = {"run", "file", "source", "config", "target", "trace"}
"""Fields that a run has from its beginning."""
DERIVED = {"compiled": "graphs", "code_for": "other_codes", "fix_of": "fixes"}
"""Properties with the field that they are derived from."""
WAITING = {"phase", "phase_graph", "status"}
"""Fields shown while a run has nothing for a view."""


class Watched:
    """A snapshot, or its code, that records which fields are read."""

    def __init__(self, record: Any, read: set[str] | None = None, prefix: str = "") -> None:
        self._record = record
        self._prefix = prefix
        self.read: set[str] = set() if read is None else read

    def __getattr__(self, name: str) -> Any:
        if name == "code" and not self._prefix:
            return Watched(self._record.code, self.read, "code.")
        if name not in ("target", "for_target"):
            self.read.add(self._prefix + name)
        return getattr(self._record, name)


def read(view: View, run: Snapshot) -> set[str]:
    """Return the fields that a view reads to build its document with all folds open."""
    watched, toggled = Watched(run), frozenset[str]()
    while True:
        document = view.build(watched, toggled, 130)  # type: ignore[arg-type]
        rows = [document.row(index) for index in range(len(document))]
        more = {row.fold for row in rows if row.fold and "▸" in row.text}
        if not more - toggled:
            return watched.read
        toggled |= more


@pytest.mark.parametrize(("pane", "view"), VIEWS)
@pytest.mark.parametrize("run", [fakes.complete, fakes.failed, fakes.nothing_compiled, training.run])
def test_cache_keys_cover_all_fields_that_a_view_reads(pane: PaneSpec, view: View, run: Any):
    watched = Watched(run())
    view.key(watched)  # type: ignore[arg-type]
    known = {name for name, field in DERIVED.items() if field in watched.read}
    assert read(view, run()) - watched.read - known - GIVEN - WAITING == set(), pane.id


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


def test_names_of_fields_are_those_of_snapshots():
    assert {field.name for field in fields(Snapshot)} >= GIVEN | WAITING


def test_titles_fit_and_name_the_view():
    for pane in PANES:
        for view in pane.views:
            for room in range(24, 90):
                title = heading(pane, view, "2 graphs", (), room).plain
                assert len(title) <= room or len(title) < 40
                assert len(pane.views) == 1 or f"[{view.name}]" in title
    graph = PANES[1]
    assert heading(graph, graph.views[0], "", (), 80).plain == "2 Graph [nodes] code decomp aot passes"
    assert heading(graph, graph.views[4], "", (), 30).plain == "2 Graph nodes code [passes] …"
    assert heading(graph, graph.views[0], "17 ops", ("old: run 7",), 30).plain == "2 Graph [nodes] … ─ old: run 7"


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (160, 50)], ids=str)
@pytest.mark.parametrize("view", ["code", "decomp", "aot", "passes", "fusion"])
async def test_the_screen(view: str, size: tuple[int, int]):
    pane = next(pane for pane in PANES if pane.view(view))
    names = [known.name for known in pane.views]
    async with run_app(fakes.session(training.run(3)), size) as ui:
        await ui.press(str(pane.number), *"v" * names.index(view))
        check_screen(f"view_{view}_{size[0]}x{size[1]}", ui)


async def test_next_view_wraps_around():
    async with run_app(fakes.session(training.run(3))) as ui:
        await ui.press("2", "v")
        assert ui.pane("graph").view.name == "code"
        await ui.press("V", "V")
        assert ui.pane("graph").view.name == "passes"
        await ui.press("v")
        assert ui.pane("graph").view.name == "nodes"
        await ui.press("3", "v")
        assert "one view only" in ui.notifications[-1]


async def test_the_graph_as_code_and_back_from_any_pane():
    async with run_app(fakes.session(training.run(3))) as ui:
        await ui.press("4", "c")
        assert (ui.current, ui.pane("graph").view.name) == ("graph", "code")
        await ui.press("3", "c")
        assert ui.pane("graph").view.name == "code"
        await ui.press("c")
        assert ui.pane("graph").view.name == "nodes"


async def test_turning_back_to_a_view_reuses_its_document():
    async with run_app(fakes.session(training.run(3))) as ui:
        await ui.press("5", "home", "down", "down", "down")
        before = ui.view("code").document
        await ui.press("v", "V")
        assert ui.view("code").document is before
