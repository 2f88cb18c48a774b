"""A run as one HTML page: source, graph, code and the report, linked as in the app. It needs no network.

A part of a run that several rows show (`Link`) has one number in the page. A click on a row, or Enter, marks all rows
that share a part with it, and scrolls each section to the first of them. The address of the page then names the row:
the first row of a break, guard, kernel, op or line has its stable id as anchor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from tcexplore.documents.breaks_view import breaks_document
from tcexplore.documents.code.kernels_view import kernels_document
from tcexplore.documents.document import Builder, Document, Row
from tcexplore.documents.graph.graph_view import graph_document
from tcexplore.documents.guards.guards_view import guards_document
from tcexplore.documents.highlight import colored
from tcexplore.documents.locations import display_path
from tcexplore.documents.source_view import source_document
from tcexplore.documents.strip import run_verdict
from tcexplore.documents.style_names import KERNELS
from tcexplore.documents.timing.timing_view import timing_document
from tcexplore.session import Snapshot
from tcexplore.session.links import Link, closure
from tcexplore.session.stable_ids import link_id

WIDTH = 110
"""Columns that documents are built for."""

MOST_LINKS = 400
"""Links of one row in the page; a row with more has the first ones."""

CLOSED = "▸"
"""Mark of a closed fold."""

BREAK_LEVELS = 2
"""Levels of folds in the list of breaks."""

SECTIONS: tuple[tuple[str, Builder], ...] = (
    ("Source", source_document), ("Graph breaks", breaks_document), ("Graph", graph_document),
    ("Code", kernels_document), ("Guards", guards_document), ("Timing", timing_document),
)  # fmt: skip

_HUES = tuple(f"hsl({(210 + 137 * n) % 360} 60% 40%)" for n in range(KERNELS))

_COLORS = {
    "break": "#b3121d", "error": "#b3121d", "slower": "#b3121d", "ok": "#0b6b2e", "faster": "#0b6b2e",
    "muted": "#667", "dim": "#889", "keyword": "#6b3fa0", "string": "#4d6b1d", "comment": "#667", "number": "#8a5a00",
    "guard": "#106a7c", "warn": "#8a5a00", "heading": "#111", "title": "#111",
}  # fmt: skip

_STYLE = """
body{font:14px/1.45 system-ui,sans-serif;margin:0;color:#223;background:#fcfcfa}
header{padding:12px 18px;border-bottom:1px solid #ccd}h1{font-size:18px;margin:0}h2{font-size:14px;margin:0 0 6px}
header div{white-space:pre-wrap}main{columns:2 560px;gap:10px;padding:10px}
section{border:1px solid #ccd;border-radius:6px;padding:8px;margin:0 0 10px;background:#fff;break-inside:avoid}
.rows{font:12px/1.4 ui-monospace,monospace;max-height:70vh;overflow:auto;position:relative}
.r{white-space:pre;width:max-content;min-width:100%}.r[data-l]{cursor:pointer}
.r.on{background:#dfe9ff}.r.at{outline:1px solid #2863ab;outline-offset:-1px}
""".strip()

_SCRIPT = """
const rows=[...document.querySelectorAll('.r[data-l]')];
const parts=new Map(rows.map(r=>[r,r.dataset.l.split(' ')]));
function mark(row){const chain=new Set(row.dataset.c.split(' '));
for(const r of rows){r.classList.toggle('on',parts.get(r).some(p=>chain.has(p)));r.classList.toggle('at',r===row)}
for(const s of document.querySelectorAll('.rows')){const first=s.querySelector('.on');
if(first&&!s.contains(row))s.scrollTop=first.offsetTop-40}
history.replaceState(null,'','#'+row.id)}
for(const r of rows){r.addEventListener('click',()=>mark(r));
r.addEventListener('keydown',e=>{if(e.key==='Enter')mark(r)})}
const start=document.getElementById(location.hash.slice(1));
if(start&&parts.has(start)){mark(start);start.scrollIntoView({block:'center'})}
""".strip()


def html_report(snapshot: Snapshot) -> str:
    """Return the page."""
    numbers = _Numbers(snapshot)
    name = escape(display_path(snapshot.file))
    sections = "\n".join(
        f'<section><h2>{escape(title)}</h2><div class="rows">{_rows(_opened(snapshot, build), numbers)}</div></section>'
        for title, build in SECTIONS
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{name}</title>\n'
        f"<style>\n{_STYLE}\n{_classes()}\n</style>\n</head>\n<body>\n"
        f"<header><h1>{name}</h1><div>{_spans(run_verdict(snapshot))}</div></header>\n<main>\n{sections}\n</main>\n"
        f"<script>\n{_SCRIPT}\n</script>\n</body>\n</html>\n"
    )


class _Numbers:
    """A number for each part of the run, and what it is linked to."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._numbers: dict[Link, int] = {}
        self._rows = 0
        self._anchors: set[str] = set()

    def attributes(self, row: Row) -> str:
        """Return `data-l`, the parts that the row stands for, and `data-c`, everything that they are linked to."""
        own = [link for link in row.links if link.kind == row.links[0].kind]
        chain = closure(self._snapshot, own)
        if not own:
            return ""
        self._rows += 1
        links = f'data-l="{self._list(own)}" data-c="{self._list(sorted(chain))}"'
        return f' id="{self._anchor(own[0])}" tabindex="0" role="button" {links}'

    def _anchor(self, link: Link) -> str:
        """Return the stable id of a part for its first row, a number for the others."""
        anchor = link_id(self._snapshot, link)
        if not anchor or anchor in self._anchors:
            return f"r{self._rows}"
        self._anchors.add(anchor)
        return anchor

    def _list(self, links: Iterable[Link]) -> str:
        numbers = (self._numbers.setdefault(link, len(self._numbers)) for link in links)
        return " ".join(str(number) for number, _ in zip(numbers, range(MOST_LINKS), strict=False))


def _opened(snapshot: Snapshot, build: Builder) -> Document:
    """Return a document; of the graph breaks with all details."""
    opened: frozenset[str] = frozenset()
    if build is breaks_document:
        for _ in range(BREAK_LEVELS):
            document = build(snapshot, opened, WIDTH)
            rows = (document.row(index) for index in range(len(document)))
            opened |= {row.fold for row in rows if row.fold and CLOSED in row.text}
    return build(snapshot, opened, WIDTH)


def _rows(document: Document, numbers: _Numbers) -> str:
    rows = (document.row(index) for index in range(len(document)))
    return "".join(
        f'<div class="r"{numbers.attributes(row)}>{_text(row) or "&nbsp;"}</div>' for row in rows if not row.keys_only
    )


def _text(row: Row) -> str:
    """Return the spans of a row, as a link if the row is an address."""
    address = (row.copy or "").startswith("https://")
    spans = _spans(row)
    return f'<a href="{escape(row.copy or "")}" rel="noreferrer">{spans}</a>' if address else spans


def _spans(row: Row) -> str:
    return "".join(_span(text, style) for span in row.spans for text, style in colored(span))


def _span(text: str, style: str) -> str:
    names = " ".join(_class(name) for name in style.split())
    return f'<span class="{names}">{escape(text)}</span>' if names else escape(text)


def _class(name: str) -> str:
    family, _, number = name.partition(".")
    return f"{family}-{int(number) % KERNELS}" if number.isdecimal() else "s-" + name.replace(".", "-")


def _classes() -> str:
    """Return the style sheet of the style names; the others are plain text."""
    return "\n".join(_class_rules())


def _class_rules() -> Iterator[str]:
    yield from (f".s-{name}{{color:{color}}}" for name, color in _COLORS.items())
    yield ".s-strong,.s-heading,.s-title,.s-break{font-weight:600}.s-extern{font-style:italic}"
    yield ".s-badge-break{background:#b3121d;color:#fff}.s-badge-ok{background:#0b6b2e;color:#fff}"
    yield from (f".kernel-{n}{{color:{hue}}}.label-{n}{{background:{hue};color:#fff}}" for n, hue in enumerate(_HUES))
