"""The content of the panes for sample runs, as readable text."""

from __future__ import annotations

import pytest

from tcexplore.documents.document import Document
from tcexplore.documents.strip import Elapsed, history_row, title_row, verdict_row
from tcexplore.events import Standby
from tests import fakes
from tests.documents import golden
from tests.documents.panes import BUILDERS

RUNS = {
    "complete": fakes.complete,
    "one_graph": fakes.one_graph,
    "recompiled": fakes.recompiled,
    "running": fakes.running,
    "failed": fakes.failed,
    "nothing_compiled": fakes.nothing_compiled,
    "facts_missing": fakes.facts_missing,
}

WIDE, NARROW = 78, 38


@pytest.mark.parametrize("pane", BUILDERS)
@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_complete_run(pane: str, width: int):
    golden.check(f"{pane}-{width}", golden.text(BUILDERS[pane](fakes.complete(), frozenset(), width)))


@pytest.mark.parametrize(
    ("pane", "run"),
    [
        ("breaks", "one_graph"), ("breaks", "nothing_compiled"), ("graph", "failed"), ("graph", "running"),
        ("graph", "recompiled"), ("guards", "recompiled"), ("code", "facts_missing"), ("timing", "nothing_compiled"),
        ("timing", "running"), ("output", "failed"), ("output", "facts_missing"), ("output", "nothing_compiled"),
    ],
)  # fmt: skip
def test_other_runs(pane: str, run: str):
    golden.check(f"{pane}-{run}", golden.text(BUILDERS[pane](RUNS[run](), frozenset(), WIDE)))


def test_lines_of_another_module():
    run = fakes.two_files()
    source = BUILDERS["source"](run, frozenset({f"file {fakes.FOLDER}/samples/layers.py"}), WIDE)
    golden.check("two_files", golden.text(source) + golden.text(BUILDERS["graph"](run, frozenset(), WIDE)))


def test_open_folds():
    texts = []
    for pane, build in BUILDERS.items():
        run, opened = fakes.complete(), frozenset[str]()
        while more := _closed(build(run, opened, WIDE)):
            opened |= more
        texts += [f"== {pane}\n{golden.text(build(run, opened, WIDE))}"] if opened else []
    golden.check("folds", "\n".join(texts))


def _closed(document: Document) -> frozenset[str]:
    rows = (document.row(index) for index in range(len(document)))
    return frozenset(row.fold for row in rows if row.fold and "▸" in row.text)


@pytest.mark.parametrize("width", [NARROW, WIDE, 150])
def test_lines_of_the_screen(width: int):
    machine = Standby(torch="2.13.0", python="3.11.7", device="cpu", seconds=3.0)
    sitting = fakes.sitting()
    sessions = (
        fakes.session(),
        fakes.session(fakes.running()),
        sitting,
        fakes.session(*sitting.runs[:4]),
        fakes.session(*sitting.runs, pinned=7),
        fakes.session(fakes.complete(), fakes.failed(9)),
        fakes.session(fakes.recompiled()),
    )
    rows = [
        (title_row(s, machine, Elapsed(1.2, 0.8), width), verdict_row(s, width), history_row(s, width))
        for s in sessions
    ]
    assert all(len(row.text) <= width for three in rows for row in three)
    golden.check(f"lines-{width}", "\n".join(golden.lines(*three) for three in rows))
