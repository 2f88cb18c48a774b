"""The fix screen: the diff, its verification, and nothing written without a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tcexplore import events as ev
from tcexplore.session import Session
from tcexplore.ui.screens.fix_screen import FixScreen
from tests.ui.stage import Stage, stage

TEXT = "import torch\n\n\ndef model(x):\n    return x / x.max().item()\n\n\ninputs = (torch.ones(4),)\n"
KIND = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
GRAPH = ev.GraphCaptured(graph="0/0", ops=1, nodes=(), code="")


def broken(file: Path) -> Session:
    job = ev.Job(run=1, file=str(file), source=TEXT)
    at = ev.Location(str(file), 5, "model")
    graph_break = ev.GraphBreak(
        graph="0/0", id="GB0124", kind=KIND, reason="no number", location=at, code="return x / …"
    )
    session = Session().begin(job)
    for event in (GRAPH, graph_break, ev.PhaseStarted(phase="timing", at=1.0)):
        session = session.apply(replace(event, run=1))
    return session


def verified(_: ev.Job) -> Sequence[ev.Event]:
    judged = ev.ChangeChecked(verdict="identical", calls=1, varied=3)
    timed = ev.ChangeTimed(before_us=200, after_us=100, speedup=2.0, low=1.9, high=2.1, verdict="faster", pairs=20)
    return (GRAPH, judged, timed, ev.Finished())


def still_there(job: ev.Job) -> Sequence[ev.Event]:
    at = ev.Location(job.file, 5, "model")
    return (GRAPH, ev.GraphBreak(graph="0/0", id=None, kind=KIND, reason="no", location=at), ev.Finished())


async def fixed(staged: Stage, file: Path) -> FixScreen:
    """Press h on the break, and wait for the verification."""
    staged.engine.job = ev.Job(run=1, file=str(file), source=TEXT)
    await staged.pilot.press("3", "b", "h")
    await staged.pilot.pause()
    screen = staged.app.screen
    assert isinstance(screen, FixScreen)
    assert screen.study_task is not None
    await screen.study_task.ended()
    await staged.settle()
    return screen


def shown(screen: FixScreen) -> str:
    document = screen.reader.document
    return "\n".join(document.row(index).text for index in range(len(document)))


async def test_a_verified_fix_is_written_by_w_and_undone_by_u(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    async with stage(broken(file)) as staged:
        staged.engine.story = verified
        screen = await fixed(staged, file)
        text = shown(screen)
        assert "x.max().detach()" in text
        summary = "verified on 4 inputs: breaks 1 → 0, outputs bit-identical, 2.00×, faster"
        assert text.index(summary) < text.index("w writes it") < text.index("detach")
        assert "The break is gone: 1 graph break before, 0 now" in text
        assert "200 µs before, 100 µs now: 2.00×" in text
        job = staged.engine.queues[0].jobs[0]
        assert (job.baseline, job.source) == (TEXT, TEXT.replace(".item()", ".detach()"))
        assert file.read_text() == TEXT
        await staged.pilot.press("w")
        assert file.read_text() == TEXT.replace(".item()", ".detach()")
        assert shown(screen).count("u undoes it") == 2
        await staged.pilot.press("escape", "u")
        assert file.read_text() == TEXT


async def test_a_fix_that_is_not_verified_is_not_written(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    async with stage(broken(file)) as staged:
        staged.engine.story = still_there
        screen = await fixed(staged, file)
        assert "the break is still there" in shown(screen)
        await staged.pilot.press("w")
        assert file.read_text() == TEXT


async def test_a_file_that_has_changed_is_not_written(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    async with stage(broken(file)) as staged:
        staged.engine.story = verified
        await fixed(staged, file)
        file.write_text(TEXT + "# mine\n")
        await staged.pilot.press("w")
        assert file.read_text() == TEXT + "# mine\n"


async def test_h_without_a_break_opens_nothing():
    async with stage() as staged:
        await staged.pilot.press("h")
        assert not isinstance(staged.app.screen, FixScreen)


async def test_a_break_without_a_fix_has_advice(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    session = broken(file)
    library = replace(session.runs[-1].breaks[0], location=ev.Location("/lib/site-packages/a.py", 5, "f"), kind="other")
    session = session.apply(replace(library, run=1))
    async with stage(session) as staged:
        staged.engine.story = verified
        screen = await fixed(staged, file)
        assert "x.max().detach()" in shown(screen)
        await staged.pilot.press("escape", "3", "b", "h")
        await staged.pilot.pause()
        assert isinstance(staged.app.screen, FixScreen)
        await staged.settle()
        assert "installed library" in shown(staged.app.screen)


async def test_h_fixes_the_only_break_from_any_pane(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    async with stage(broken(file)) as staged:
        staged.engine.story = verified
        staged.engine.job = ev.Job(run=1, file=str(file), source=TEXT)
        await staged.press("7", "h")
        assert isinstance(staged.app.screen, FixScreen)
