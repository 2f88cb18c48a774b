"""Highlighting single lines gives the same result as the whole file."""

from __future__ import annotations

from pathlib import Path

import pytest
from pygments.lexers import PythonLexer

import tcexplore
from tcexplore.documents.highlight import _style, highlighted
from tests import fakes

FILES = sorted(Path(tcexplore.__file__).parent.rglob("*.py"))[::4]


def whole(text: str) -> list[list[tuple[str, str]]]:
    """Return characters and styles by line, without blanks, from one pass over the whole text."""
    lines: list[list[tuple[str, str]]] = [[]]
    for _, token, piece in PythonLexer(stripnl=False, ensurenl=False).get_tokens_unprocessed(text):
        for char in piece:
            if char == "\n":
                lines.append([])
            elif not char.isspace():
                lines[-1].append((char, _style(token)))
    return lines


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_same_as_the_whole_file(path: Path):
    text = path.read_text(encoding="utf-8")
    lines = highlighted(text, "python")
    expected = whole(text)
    for index, line in enumerate(lines.lines):
        spans = lines.spans(index)
        assert "".join(span.text for span in spans) == line
        styled = [(char, span.style) for span in spans for char in span.text if not char.isspace()]
        assert styled == expected[index], f"{path.name}:{index + 1}"


def test_multi_line_strings():
    lines = highlighted("x = r'''one\ntwo # no comment\n''' + 'y'  # yes\n", "python")
    assert [span.style for span in lines.spans(1)] == ["string"]
    assert lines.spans(2)[0] == ("'''", "string")
    assert lines.spans(2)[-1] == ("# yes", "comment")


def test_multi_line_comments_in_cpp():
    lines = highlighted("int a; /* one\n int b;\n*/ int c; // d\n", "cpp")
    assert [span.style for span in lines.spans(1)] == ["comment"]
    assert lines.spans(2)[0] == ("*/", "comment")
    assert ("int ", "type") in lines.spans(2)


def test_unterminated_string_extends_to_the_end():
    lines = highlighted("x = '''never\nclosed", "python")
    assert [span.style for span in lines.spans(1)] == ["string"]


def test_generated_code_keeps_its_text():
    source = fakes.complete().code.kernels[1].source
    lines = highlighted(source, "cpp")
    assert "\n".join("".join(span.text for span in lines.spans(n)) for n in range(len(lines.lines))) + "\n" == source
