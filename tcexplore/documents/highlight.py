"""Syntax highlighting of single lines, correct inside multi-line strings and comments."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache, cached_property, lru_cache
from typing import NamedTuple

from pygments.lexer import RegexLexer
from pygments.lexers import CppLexer, PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Token, _TokenType

from tcexplore.documents.document import Span

_STYLES = {
    Comment: "comment",
    Comment.Preproc: "decorator",
    Comment.PreprocFile: "string",
    Keyword: "keyword",
    Keyword.Type: "type",
    Name.Builtin: "builtin",
    Name.Class: "type",
    Name.Decorator: "decorator",
    Name.Function: "function",
    Number: "number",
    Operator: "operator",
    Operator.Word: "keyword",
    String: "string",
    Token: "",
}

_LEXERS: dict[str, RegexLexer] = {
    "python": PythonLexer(stripnl=False, ensurenl=False),
    "cpp": CppLexer(stripnl=False, ensurenl=False),
}

_PYTHON = re.compile(
    r"""\#[^\n]*
    |(?P<many>[bBfFrRuU]{0,2}('''|\"\"\")(?s:[^\\'"]++|\\.|(?!\2).)*+(?:\2|\Z))
    |'(?:\\[\s\S]|[^'\\\n])*'?
    |"(?:\\[\s\S]|[^"\\\n])*"?""",
    re.VERBOSE,
)
_CPP = re.compile(
    r"""//[^\n]*
    |(?P<many>/\*(?:[^*]++|\*(?!/))*+(?:\*/|\Z))
    |'(?:\\.|[^'\\\n])*'?
    |"(?:\\.|[^"\\\n])*"?""",
    re.VERBOSE,
)
_LONG = {"python": (_PYTHON, ("'''", '"""'), "string"), "cpp": (_CPP, ("/*",), "comment")}
"""Per language: the pattern of tokens, the marks that start a multi-line token, the style of such tokens."""


class _Stretch(NamedTuple):
    """A multi-line string or comment: first line and column, last line and the column after it."""

    first: int
    column: int
    last: int
    end: int


class Highlighted:
    """A text in `python` or `cpp`, line by line."""

    def __init__(self, text: str, language: str) -> None:
        self.lines = text.removesuffix("\n").split("\n")
        self.language = language
        self._text = text

    @cached_property
    def _stretches(self) -> list[_Stretch]:
        """The multi-line tokens: most texts of a large run are never shown."""
        return _stretches(self._text, self.language)

    @cached_property
    def _firsts(self) -> list[int]:
        return [stretch.first for stretch in self._stretches]

    def spans(self, index: int) -> tuple[Span, ...]:
        """Return the line at `index`, from 0, in colored spans with exactly its text."""
        return tuple(drawn for span in self.raw(index) for drawn in colored(span))

    def raw(self, index: int) -> tuple[Span, ...]:
        """Return the line in spans that get their colors when drawn, so that reading all lines is cheap."""
        line = self.lines[index]
        code = f"code.{self.language}"
        spans: list[Span] = []
        done = 0
        for stretch in self._over(index):
            start = stretch.column if stretch.first == index else 0
            end = stretch.end if stretch.last == index else len(line)
            if start > done:
                spans.append(Span(line[done:start], code))
            if end > start:
                spans.append(Span(line[start:end], _LONG[self.language][2]))
            done = end
        return (*spans, Span(line[done:], code))

    def _over(self, index: int) -> list[_Stretch]:
        """Return the multi-line tokens that touch a line, in order."""
        at = bisect_right(self._firsts, index)
        begin = at
        while begin and self._stretches[begin - 1].last >= index:
            begin -= 1
        return self._stretches[begin:at]


def colored(span: Span) -> tuple[Span, ...]:
    """Return a span as drawn: `code.python` and `code.cpp` in the colors of the language, others unchanged."""
    family, _, language = span.style.partition(".")
    return lexed(span.text, language) if family == "code" else (span,)


@lru_cache(maxsize=64)
def highlighted(text: str, language: str) -> Highlighted:
    """Return the highlighted text, cached."""
    return Highlighted(text, language)


@lru_cache(maxsize=16_384)
def lexed(line: str, language: str) -> tuple[Span, ...]:
    """Return one line that neither begins nor ends inside a string or comment, highlighted."""
    merged: list[Span] = []
    for _, token, text in _LEXERS[language].get_tokens_unprocessed(line):
        style = _style(token)
        if merged and (merged[-1].style == style or text.isspace()):
            merged[-1] = Span(merged[-1].text + text, merged[-1].style)
        else:
            merged.append(Span(text, style))
    return tuple(merged)


@cache
def _style(token: _TokenType) -> str:
    return next(_STYLES[kind] for kind in reversed(token.split()) if kind in _STYLES)


def _stretches(text: str, language: str) -> list[_Stretch]:
    pattern, marks, _ = _LONG[language]
    if not any(mark in text for mark in marks):
        return []
    stretches: list[_Stretch] = []
    line = at = 0
    for match in pattern.finditer(text):
        if match["many"] is None or "\n" not in match["many"]:
            continue
        start, end = match.span()
        first = line + text.count("\n", at, start)
        last = first + text.count("\n", start, end)
        line, at = last, end
        stretches.append(
            _Stretch(first, start - text.rfind("\n", 0, start) - 1, last, end - text.rfind("\n", 0, end) - 1)
        )
    return stretches
