"""No text of the user's program reaches the terminal as a control sequence."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment

from tcexplore.cli import export_command, main
from tcexplore.report import printed
from tcexplore.report.check_report import check_report
from tcexplore.session import Session, Snapshot
from tests import fakes
from tests.documents.panes import BUILDERS
from tests.faults.hostile_text import PARTS, hostile_texts, infected
from tests.faults.terminal_bytes import assert_safe, control_characters, terminal_commands
from tests.report.check_text import MACHINE
from tests.snapshots import measured, recompiling, training
from tests.ui.app_under_test import run_app

RUNS = (
    fakes.complete,
    fakes.failed,
    fakes.recompiled,
    fakes.facts_missing,
    measured.run,
    training.run,
    recompiling.run,
)
few_examples = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ALL_PARTS = "".join(PARTS)


def test_the_emulator_notices_control_sequences():
    assert terminal_commands("\x1b[2Ja") == {"erase_in_display"}
    assert terminal_commands("\x1b[31ma\n") == set()
    assert control_characters("\x1b[31ma\x9b") == ["\x9b"]


@pytest.mark.parametrize("run", RUNS)
@few_examples
@given(text=hostile_texts)
@example(text=ALL_PARTS)
def test_reports_contain_no_control_sequences(monkeypatch: pytest.MonkeyPatch, run: Callable[[], Snapshot], text: str):
    stream = io.StringIO()
    console = partial(Console, force_terminal=True, color_system="truecolor", legacy_windows=False)
    monkeypatch.setattr(printed, "Console", console)
    snapshot = infected(run(), text)
    printed.print_document(partial(check_report, snapshot, MACHINE, (), None), stream, 100)
    assert "\x1b[" in stream.getvalue(), "colors are on"
    assert_safe(stream.getvalue())


@pytest.mark.parametrize("run", RUNS)
@settings(few_examples, max_examples=2)
@given(text=hostile_texts, width=st.integers(20, 200))
@example(text=ALL_PARTS, width=80)
def test_rows_of_panes_contain_no_control_sequences(run: Callable[[], Snapshot], text: str, width: int):
    from tcexplore.ui.row_painter import flat

    snapshot = infected(run(), text)
    for build in BUILDERS.values():
        document = build(snapshot, frozenset(), width)
        for index in range(len(document)):
            for span in document.row(index).spans:
                assert_safe(flat(span.text))


async def test_the_app_sends_no_control_sequences_of_the_program():
    text = "".join(["\x1b]52;c;AAAA\x07", "\x1b[2J", "\x9b31m", "\r", "\u202e", "\ud800", "\x1bc"])
    async with run_app(Session(runs=(infected(fakes.complete(7), text),)), (160, 50)) as ui:
        for key in (*"1234567", "y", "slash", "e", "enter", "question_mark"):
            await ui.press(key)
            strips = ui.app.screen._compositor.render_strips()
            segments: list[Segment] = [segment for strip in strips for segment in strip]
            assert_safe("".join(segment.text for segment in segments))


def test_export_prints_paths_without_control_sequences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    async def finished(*_: object) -> SimpleNamespace:
        return SimpleNamespace(snapshot=snapshot)

    snapshot, model = fakes.complete(), tmp_path / "model.py"
    model.write_text("x = 1\n")
    monkeypatch.setattr(export_command, "run_once", finished)
    folder = tmp_path / "a\x1b[2J\u202e"
    assert main(["export", str(model), "--kernel", "cpp_fused_relu_0", "--to", str(folder)]) == 0
    assert list(folder.iterdir())
    assert "a␛[2J" in capsys.readouterr().out


ARGUMENTS = (
    ["check", "{}"], ["{}"], ["{}", "x"], ["check", "m.py", "--mode", "{}"], ["check", "m.py", "{}", "{}"],
    ["check", "m.py", "--{}"], ["modes", "{}.py"], ["open", "{}"], ["export", "{}"], ["check", "m.py", "--input", "{}"],
    ["check", "m.py", "--target", "{}.toml"], ["check", "m.py", "--time-for", "{}"], ["fix", "{}:N"], ["{}", "--help"],
)  # fmt: skip


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=" ".join)
@few_examples
@given(text=hostile_texts)
@example(text=ALL_PARTS)
@example(text="\x00")
def test_errors_and_help_repeat_arguments_without_control_sequences(arguments: list[str], text: str):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.suppress(SystemExit):
        main([argument.format(text) for argument in arguments])
    assert_safe(out.getvalue())
    assert_safe(err.getvalue())
