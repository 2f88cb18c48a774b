"""Documents on a terminal and in a pipe."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len

from tcexplore.documents.document import Row, Span, StaticDocument
from tcexplore.report.printed import print_document


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(*rows: Row, width: int | None = None, stream: io.StringIO | None = None) -> str:
    stream = stream or io.StringIO()
    print_document(lambda _: StaticDocument("", rows), stream, width)
    return stream.getvalue()


def row(text: str, style: str = "", **more: object) -> Row:
    return Row((Span(text, style),), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [20, 40, 80])
def test_wide_rows_wrap_below_their_first_line_and_nothing_is_cut(width: int):
    text = printed(row("   " + "a row 変換 that is wider " * 8), width=width)
    assert all(cell_len(line) <= width and line == line.rstrip() for line in text.splitlines())
    assert "".join(text.split()) == "arow変換thatiswider" * 8
    assert text.splitlines()[1].startswith("   ")


def test_code_and_tables_stay_on_one_line():
    assert printed(row("x = " + "1 + " * 40, no_wrap=True), width=40).count("\n") == 1


def test_rows_about_keys_are_left_out():
    assert printed(row("kept"), row("press h", keys_only=True)) == "kept\n"


def test_consecutive_blank_rows_become_one():
    assert printed(Row(()), row("a"), Row(()), row("b", keys_only=True), Row(()), row("c"), Row(())) == "a\n\nc\n"


def test_fold_marks_are_left_out():
    assert printed(Row((Span("   ▸ ", "key"), Span("3 more")), fold="more")) == "   3 more\n"


def test_a_pipe_gets_100_columns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    widths: list[int] = []
    print_document(lambda width: widths.append(width) or StaticDocument("", ()), io.StringIO())  # type: ignore[func-returns-value]
    assert widths == [100]


def test_styles_become_colors_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    rows = row("broken", "break"), row("kernel", "kernel.13 strong"), row("x = 1", "code.python")
    assert "\x1b" not in printed(*rows)
    assert "\x1b[1;31mbroken" in printed(*rows, stream=Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in printed(*rows, stream=Terminal())
