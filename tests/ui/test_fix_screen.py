"""The fix screen: the diff, its verification, and nothing written without a key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tcexplore import events as ev
from tcexplore.ui.screens.fix_screen import FixScreen
from tests.ui.app_under_test import AppUnderTest, run_app
from tests.ui.broken_model import TEXT, broken, still_there, verified


async def fixed(ui: AppUnderTest, file: Path) -> FixScreen:
    """Press h on the break, and wait for the verification."""
    ui.engine.job = ev.Job(run=1, file=str(file), source=TEXT)
    await ui.pilot.press("3", "h")
    await ui.pilot.pause()
    return await ui.study_ended(FixScreen)


def shown(screen: FixScreen) -> str:
    document = screen.reader.document
    return "\n".join(document.row(index).text for index in range(len(document)))


def footer(ui: AppUnderTest) -> str:
    return ui.screen.splitlines()[-1]


async def test_a_verified_fix_is_written_by_w_and_undone_by_u(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    async with run_app(broken(file)) as ui:
        ui.engine.story = verified
        screen = await fixed(ui, file)
        text = shown(screen)
        assert "x.max().detach()" in text
        assert "w write" in footer(ui)
        summary = "verified on 4 inputs: breaks 1 → 0, outputs bit-identical, 2.00× faster than before"
        assert text.index(summary) < text.index("w writes it") < text.index("detach")
        assert "The break is gone: 1 graph break before, 0 now" in text
        assert "200 µs before, 100 µs now: 2.00×" in text
        job = ui.engine.queues[0].jobs[0]
        assert (job.baseline, job.source) == (TEXT, TEXT.replace(".item()", ".detach()"))
        assert file.read_text() == TEXT
        assert "1 Source" not in ui.screen
        await ui.press("z")
        assert "1 Source" in ui.screen, "the panes are above the fix"
        await ui.press("z")
        assert "1 Source" not in ui.screen
        await ui.pilot.press("w")
        assert file.read_text() == TEXT.replace(".item()", ".detach()")
        assert shown(screen).count("u undoes it") == 2
        await ui.pilot.press("escape", "u")
        assert file.read_text() == TEXT


async def test_a_fix_that_is_not_verified_is_not_written(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    async with run_app(broken(file)) as ui:
        ui.engine.story = still_there
        screen = await fixed(ui, file)
        assert "the break is still there" in shown(screen)
        assert "w write" not in footer(ui)
        await ui.pilot.press("w")
        assert file.read_text() == TEXT


async def test_a_file_that_has_changed_is_not_written(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    async with run_app(broken(file)) as ui:
        ui.engine.story = verified
        await fixed(ui, file)
        file.write_text(TEXT + "# mine\n")
        await ui.pilot.press("w")
        assert file.read_text() == TEXT + "# mine\n"


async def test_h_without_a_break_opens_nothing():
    async with run_app() as ui:
        await ui.pilot.press("h")
        assert not isinstance(ui.app.screen, FixScreen)


async def test_a_break_without_a_fix_has_advice(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    session = broken(file)
    library = replace(session.runs[-1].breaks[0], location=ev.Location("/lib/site-packages/a.py", 5, "f"), kind="other")
    session = session.apply(replace(library, run=1))
    async with run_app(session) as ui:
        ui.engine.story = verified
        screen = await fixed(ui, file)
        assert "x.max().detach()" in shown(screen)
        await ui.pilot.press("escape", "3", "b", "h")
        await ui.pilot.pause()
        assert isinstance(ui.app.screen, FixScreen)
        await ui.settle()
        assert "installed library" in shown(ui.app.screen)


async def test_h_fixes_the_only_break_from_any_pane(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    async with run_app(broken(file)) as ui:
        ui.engine.story = verified
        ui.engine.job = ev.Job(run=1, file=str(file), source=TEXT)
        await ui.press("7", "h")
        assert isinstance(ui.app.screen, FixScreen)


async def test_h_during_a_run_opens_the_fix_once_the_run_is_over(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    session = broken(file)
    over = session.runs[-1]
    under_way = replace(session, runs=(*session.runs[:-1], replace(over, phase="dynamo", status="running")))
    async with run_app(under_way) as ui:
        ui.engine.story = verified
        ui.engine.job = ev.Job(run=1, file=str(file), source=TEXT)
        await ui.press("h")
        assert "the fix opens once the run is over" in ui.notifications[-1]
        assert ui.app.screen is ui.app.main
        await ui.show(session)
        assert isinstance(ui.app.screen, FixScreen)


async def test_a_fix_does_not_open_between_the_keys_of_the_user(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    session = broken(file)
    under_way = replace(session, runs=(*session.runs[:-1], replace(session.runs[-1], phase="dynamo", status="running")))
    async with run_app(under_way) as ui:
        ui.engine.job = ev.Job(run=1, file=str(file), source=TEXT)
        await ui.press("h", "down")
        await ui.show(session)
        assert ui.app.screen is ui.app.main
        assert "All graph breaks are known" in ui.notifications[-1]


async def test_h_after_a_run_that_failed_awaits_nothing(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    session = broken(file)
    failed = replace(session.runs[-1], phase="dynamo", status="failed")
    async with run_app(replace(session, runs=(*session.runs[:-1], failed))) as ui:
        ui.engine.job = ev.Job(run=1, file=str(file), source=TEXT)
        await ui.press("h")
        assert "opens once" not in ui.notifications[-1]
        await ui.show(session)
        assert ui.app.screen is ui.app.main
