"""`[` goes back to runs of earlier starts; a damaged one costs one message."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tcexplore.events import Job
from tcexplore.run_store import RunStore, read_run
from tcexplore.session import Session, Snapshot
from tcexplore.session.snapshot import end_snapshot
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.pane_grid import Place
from tcexplore.ui.run_history import RunHistory
from tcexplore.ui.saved_settings import Settings, load, store
from tests import fakes
from tests.ui.app_under_test import AppUnderTest, FakeEngine

NOON = 1_700_000_000.0


@asynccontextmanager
async def app_with_history(runs: RunStore, session: Session | None = None) -> AsyncIterator[AppUnderTest]:
    engine = FakeEngine()
    app = ExplorerApp(lambda: engine, now=lambda: 0.0, history=lambda _: RunHistory(runs))
    async with app.run_test(size=(160, 50), notifications=True) as pilot:
        ui = AppUnderTest(app, engine, pilot, [0.0])
        await ui.until(lambda: app.history is not None)
        await ui.settle()
        if session is not None:
            await ui.show(replace(session, packed=app.session.packed))
        yield ui


async def test_a_run_of_an_earlier_start_is_shown_with_its_time(tmp_path: Path):
    runs = RunStore("/m.py", tmp_path)
    runs.write(replace(fakes.complete(3), began=NOON))
    runs.write(replace(fakes.one_graph(4), began=NOON + 3600))
    earlier = [stored.summary.past for stored in runs.runs().runs]
    async with app_with_history(runs, fakes.session(fakes.complete(1))) as ui:
        await ui.press("left_square_bracket")
        assert f"run of {earlier[1]}, from history" in ui.screen
        await ui.press("left_square_bracket", "left_square_bracket")
        assert f"[{earlier[0]}: 1 break" in ui.screen
        assert ui.app.session.shown is not None
        assert ui.app.session.shown.code.kernels == fakes.complete(3).code.kernels
        await ui.act("newest-save")
        assert ui.app.session.pinned is None
        await ui.press("d")
        assert f"run of {earlier[1]}" in ui.screen


async def test_a_run_is_compared_with_the_last_complete_one_also_of_an_earlier_start(tmp_path: Path):
    runs = RunStore("/m.py", tmp_path)
    runs.write(replace(fakes.complete(3), began=NOON))
    runs.write(replace(cut_off(4), began=NOON + 3600))
    earlier = [stored.summary for stored in runs.runs().runs]
    assert [summary.complete for summary in earlier] == [True, False]
    async with app_with_history(runs, fakes.session(cut_off(1), fakes.one_graph(2))) as ui:
        assert f"since run of {earlier[0].past}: breaks 1→0" in ui.screen
        assert f"{earlier[1].past}: ended early" in ui.screen
        assert "1: ended early" in ui.screen
        await ui.press("d")
        assert f"run of {earlier[0].past} → run 2" in ui.screen
        await ui.press("left_square_bracket")
        assert "No other run" in ui.notifications[-1]


async def test_a_damaged_run_is_not_compared(tmp_path: Path):
    runs = RunStore("/m.py", tmp_path)
    for number in (1, 2):
        runs.write(replace(fakes.complete(number), began=NOON + 60 * number))
    whole, damaged = runs.runs().runs
    damage(Path(damaged.file))
    async with app_with_history(runs, fakes.session(fakes.one_graph(1))) as ui:
        await ui.press("d")
        assert " is lost" in ui.notifications[0]
        assert f"{whole.summary.label.partition(' of ')[0]} of" in ui.screen
        assert "→ run 1" in ui.screen


def damage(file: Path) -> None:
    """Remove the end of a file."""
    file.write_bytes(file.read_bytes()[:-20])


def cut_off(number: int) -> Snapshot:
    """Return a run that the next one ended while it compiled, after the graphs that `complete` has."""
    return end_snapshot(replace(fakes.complete(number), status="running", phase="inductor", timing=None))


async def test_steps_faster_than_a_read_skip_runs(tmp_path: Path):
    runs = RunStore("/m.py", tmp_path)
    for number in (1, 2, 3):
        runs.write(replace(fakes.one_graph(number), began=NOON + 60 * number, source=f"# {number}"))
    async with app_with_history(runs, fakes.session(fakes.complete(1))) as ui:
        for _ in range(3):
            ui.app.action_step(-1)
        await ui.settle()
        assert ui.app.session.shown is not None
        assert ui.app.session.shown.source == "# 1"


async def test_damaged_runs_cost_one_message(tmp_path: Path):
    runs = RunStore("/m.py", tmp_path)
    for number in (1, 2):
        runs.write(replace(fakes.one_graph(number), began=NOON + number))
    first, second = (Path(stored.file) for stored in runs.runs().runs)
    first.write_bytes(b"{")
    second.write_bytes(second.read_bytes()[:-20])
    async with app_with_history(runs) as ui:
        assert ui.notifications == [
            "1 run of the history can't be read: damaged, or from another version of tcexplore."
        ]
        await ui.show(replace(fakes.session(fakes.complete(1)), packed=ui.app.session.packed))
        await ui.press("left_square_bracket")
        assert [note.partition(" is lost")[1] for note in ui.notifications] == [" is lost"]
        assert [summary.run for summary in ui.app.session.summaries] == [1]


async def test_each_run_with_a_result_is_stored_once(tmp_path: Path):
    runs = RunStore("/m.py", tmp_path)
    async with app_with_history(runs, fakes.session(fakes.complete(1), fakes.failed(2), fakes.running(3))) as ui:
        assert ui.app.history is not None
        await ui.app.history.store(ui.app.session, newest=False)
        await ui.app.history.store(ui.app.session, newest=False)
        assert [stored.summary.error for stored in runs.runs().runs] == ["", fakes.failed(2).failure.type]
        await ui.show(ui.app.session.begin(Job(run=4, file="/m.py", source=""), NOON))
        await ui.app.history.store(ui.app.session, newest=True)
        assert len(runs.runs().runs) == 2 + bool(fakes.running(3).compiled)


async def test_the_newest_run_is_stored_again_at_its_end_in_place_of_its_first_file(tmp_path: Path):
    runs = RunStore("/m.py", tmp_path)
    async with app_with_history(runs, fakes.session(fakes.complete(1))) as ui:
        ui.app._store_newest(2)
        ui.app._store_newest(1)
        await ui.settle()
        (first,) = runs.runs().runs
        await ui.show(fakes.session(replace(fakes.complete(1), source="# later")))
        assert ui.app.history is not None
        await ui.app.history.store(ui.app.session, newest=True)
        (last,) = runs.runs().runs
        assert last.file != first.file
        assert read_run(last).source == "# later"


async def test_a_folder_that_cannot_be_written_disturbs_nothing(tmp_path: Path):
    (tmp_path / "file").write_text("")
    async with app_with_history(RunStore("/m.py", tmp_path / "file"), fakes.session(fakes.complete(1))) as ui:
        assert ui.app.history is not None
        await ui.app.history.store(ui.app.session, newest=True)
        assert ui.notifications == []


async def test_a_run_knows_when_it_began(tmp_path: Path):
    async with app_with_history(RunStore("/m.py", tmp_path)) as ui:
        ui.app.deliver(Job(run=1, file="/m.py", source=""))
        await ui.settle()
        assert ui.app.session.newest is not None
        assert ui.app.session.newest.began > NOON


async def test_a_click_in_the_history_shows_an_earlier_run(tmp_path: Path):
    runs = RunStore("/m.py", tmp_path)
    runs.write(replace(fakes.complete(3), began=NOON))
    (stored,) = runs.runs().runs
    async with app_with_history(runs, fakes.session(fakes.complete(1))) as ui:
        line = next(line for line in ui.screen.split("\n") if line.startswith(" history "))
        await ui.pilot.click("#history", offset=(line.index(stored.summary.past) + 2, 0))
        await ui.settle()
        assert ui.app.session.pinned == -1


@pytest.mark.parametrize(
    ("target", "remembered"), [("h100", "h100"), ("native", ""), ("no-such-device", ""), ("gone.toml", "")]
)
def test_the_target_of_a_model_file_is_remembered(tmp_path: Path, target: str, remembered: str):
    file = tmp_path / "settings.json"
    store(file, Settings().with_target("/a.py", target).with_target("/b.py", ""))
    assert load(file).target_of("/a.py") == remembered
    assert load(file).target_of("/b.py") == ""


async def test_the_last_pane_is_the_first_one_of_the_next_start():
    app = ExplorerApp(FakeEngine, settings=Settings().with_place("/a.py", Place("timing")), file="/a.py")
    async with app.run_test(size=(100, 30)):
        assert [pane.spec.id for pane in app.main.grid.visible_panes] == ["source", "timing"]
        assert app.main.grid.current == "timing"
