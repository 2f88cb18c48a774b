"""The run as one HTML page: balanced, without network use, with links between its sections."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import html5lib
import pytest

from tcexplore import events as ev
from tcexplore.report.html_report import figures, html_report
from tcexplore.session import Snapshot
from tests import fakes

VOID = {"meta"}


class Balance(HTMLParser):
    """Checks that every element is closed in order, and collects rows with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[tuple[str, dict[str, str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), attrs
        if tag not in VOID:
            self.open.append(tag)
        if tag == "div" and dict(attrs).get("class") == "r":
            self.rows.append(("", {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.rows:
            text, attributes = self.rows[-1]
            self.rows[-1] = text + data, attributes


def parsed(page: str) -> Balance:
    parser = Balance()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


@pytest.mark.parametrize("run", [fakes.complete(7), fakes.failed(4), fakes.nothing_compiled(5), fakes.running(9)])
def test_the_page_is_balanced_and_uses_no_network(run: Snapshot):
    page = html_report(run)
    parsed(page)
    assert not re.search(r"<(link|img|iframe|script src)|@import|url\(", page)


@pytest.mark.parametrize("run", [fakes.complete(7), fakes.failed(4), fakes.nothing_compiled(5), fakes.recompiled(9)])
def test_the_page_is_valid_html(run: Snapshot):
    html5lib.HTMLParser(strict=True).parse(html_report(run))


def test_each_row_has_an_address_and_breaks_show_their_details():
    page = html_report(fakes.complete(7))
    ids = re.findall(r' id="(r\d+)"', page)
    assert len(ids) == len(set(ids)) > 20
    assert '<a href="https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html"' in page
    assert "reorderable_logging_functions" in page


def test_a_line_is_linked_to_its_kernel():
    rows = parsed(html_report(fakes.complete(7))).rows
    line = next(attributes for text, attributes in rows if "F.gelu" in text and "data-l" in attributes)
    kernel = next(attributes for text, attributes in rows if "cpp_fused_gelu" in text and "data-l" in attributes)
    assert set(kernel["data-l"].split()) <= set(line["data-c"].split())


def test_text_of_the_user_is_escaped():
    run = replace(fakes.complete(7), source="x = '</div><script>alert(1)</script>'\n")
    page = html_report(run)
    parsed(page)
    assert page.count("<script>") == 1


def test_the_page_begins_with_what_was_measured_and_what_to_do_next():
    page = html_report(fakes.complete(7), ev.Standby(torch="2.13.0", python="3.11.7", device="cpu", seconds=1.0))
    text = re.sub(r"<[^>]+>", " ", page[page.index("<body>") :])
    assert "torch 2.13.0 · cpu · 2 threads · inductor · default" in text
    places = [text.index(part) for part in ("1.31× faster", "95% interval [1.28, 1.34]", "What to do next", "Source")]
    assert places == sorted(places)
    assert "tries a step" not in text, "the page has no keys"


def test_figures_that_were_not_measured_are_left_out():
    assert {label for label, _, _ in figures(fakes.complete(7))} == {
        "compiled vs. eager", "one call", "compile time", "results", "peak memory of a call",
    }  # fmt: skip
    assert list(figures(fakes.failed(4))) == []


def test_sections_without_rows_are_left_out():
    assert "<summary>Modules" not in html_report(fakes.nothing_compiled(5))
    assert "<summary>What to do next" not in html_report(fakes.nothing_compiled(5))
