"""A run as one HTML page: source, graph, code and the report, linked as in the app. It needs no network.

A part of a run that several rows show (`Link`) has one number in the page. A click on a row, or Enter, marks all rows
that share a part with it, and scrolls each section to the first of them. The address of the page then names the row:
the first row of a break, guard, kernel, op or line has its stable id as anchor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from html import escape
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.documents.breaks_view import breaks_document
from tcexplore.documents.code.kernels_view import kernels_document
from tcexplore.documents.configurations import format_configurations, format_torch
from tcexplore.documents.document import Builder, Document, Row
from tcexplore.documents.graph.graph_view import graph_document
from tcexplore.documents.graph.modules_view import modules_document
from tcexplore.documents.guards.guards_view import guards_document
from tcexplore.documents.highlight import colored
from tcexplore.documents.locations import display_path
from tcexplore.documents.module_folds import timed_tree
from tcexplore.documents.source_view import source_document
from tcexplore.documents.strip import run_verdict
from tcexplore.documents.style_names import KERNELS
from tcexplore.documents.timing.hot_lines_view import hot_lines_document
from tcexplore.documents.timing.next_view import next_document
from tcexplore.documents.timing.timing_view import timing_document
from tcexplore.documents.verdicts import interval_text
from tcexplore.quantities import count, duration, rounded, size
from tcexplore.session import Snapshot
from tcexplore.session.economics import economics
from tcexplore.session.links import Link, closure
from tcexplore.session.next_steps import next_steps
from tcexplore.session.stable_ids import link_id

WIDTH, COLUMN = 110, 80
"""Columns that documents are built for: those that scroll, and those that are as wide as a column of the page."""

MOST_LINKS = 400
"""Links of one row in the page; a row with more has the first ones."""

CLOSED = "▸"
"""Mark of a closed fold."""

LEVELS = 2
"""Levels of folds that are opened: the page has no keys."""

OPENED = ("module ", "same kernel ", "file ")
"""Beginnings of the names of the folds that are open in all sections: of equal layers the first one is."""


class Section(NamedTuple):
    """A part of the page."""

    title: str
    build: Builder
    width: int = WIDTH
    whole: bool = False
    """Whether it is shown as a whole, without scroll bars."""
    opened: bool = False
    """Whether its folds are open."""
    closed: bool = False
    """Whether the reader has to open the section itself."""
    has: Callable[[Snapshot], object] = lambda _: True
    """Whether a run has something for it."""


SECTIONS = (
    Section("What to do next", next_document, COLUMN, whole=True, has=next_steps),
    Section("Modules", modules_document, COLUMN, whole=True, opened=True, has=lambda run: timed_tree(run).rows),
    Section("Source", source_document),
    Section("Graph breaks", breaks_document, COLUMN, opened=True),
    Section("Graph", graph_document),
    Section("Code", kernels_document),
    Section("Timing", timing_document, COLUMN, opened=True),
    Section("Time of each line", hot_lines_document, COLUMN, has=lambda run: run.eager_lines),
    Section("Guards", guards_document, closed=True),
)

_HUES = tuple((210 + 137 * n) % 360 for n in range(KERNELS))

_RED, _GREEN, _BROWN, _GRAY = (
    ("#b3121d", "#ff8f8f"),
    ("#0b6b2e", "#7fd79b"),
    ("#8a5a00", "#e3b866"),
    ("#556", "#9aa3b5"),
)
_COLORS = {
    "break": _RED, "error": _RED, "slower": _RED, "ok": _GREEN, "faster": _GREEN, "muted": _GRAY, "dim": _GRAY,
    "keyword": ("#6b3fa0", "#c9a6f5"), "string": ("#4d6b1d", "#b5d37f"), "comment": _GRAY, "number": _BROWN,
    "guard": ("#106a7c", "#7cc8d8"), "warn": _BROWN, "heading": ("#111", "#fff"), "title": ("#111", "#fff"),
    "interval": _GRAY,
}  # fmt: skip
"""Colors of styles on a light and on a dark page."""

_STYLE = """
:root{color-scheme:light dark;--page:#fafaf8;--card:#fff;--line:#d5d8e0;--text:#223;--soft:#556;--on:#dfe9ff;
--edge:#2863ab}
*{box-sizing:border-box}
body{font:14px/1.45 system-ui,sans-serif;margin:0 auto;max-width:1800px;color:var(--text);background:var(--page)}
header{padding:18px 18px 4px}h1{font-size:20px;margin:0 0 2px}
header p{margin:0;color:var(--soft)}header .verdict{white-space:pre-wrap;margin:8px 0;font-weight:600}
dl{display:flex;flex-wrap:wrap;gap:8px;margin:10px 0 0}
dl div{border:1px solid var(--line);border-radius:6px;background:var(--card);padding:6px 12px;min-width:130px}
dt,dd small{font-size:12px;color:var(--soft)}dd{margin:0;font-weight:600}dd small{display:block;font-weight:400}
main{columns:2 620px;column-gap:12px;padding:12px 18px}
details{break-inside:avoid;margin:0 0 12px;border:1px solid var(--line);border-radius:6px;background:var(--card)}
details{padding:8px 12px;min-width:0}
summary{cursor:pointer;font-weight:600}summary small{font-weight:400;color:var(--soft)}
.rows{font:12px/1.45 ui-monospace,monospace;max-height:70vh;overflow:auto;position:relative;margin-top:6px}
.whole .rows{max-height:none}
.r{white-space:pre;width:max-content;min-width:100%}.r[data-l]{cursor:pointer}
.r.on{background:var(--on)}.r.at{outline:1px solid var(--edge);outline-offset:-1px}
footer{padding:0 18px 18px;color:var(--soft);font-size:12px}
@media print{.rows{max-height:none;overflow:visible}.r{white-space:pre-wrap;width:auto}main{display:block}}
""".strip()

_DARK = ":root{--page:#15171c;--card:#1c1f26;--line:#343a46;--text:#d8dce6;--soft:#9aa3b5;--on:#26385c;--edge:#7fb0f5}"

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


def html_report(snapshot: Snapshot, machine: ev.Standby | None = None) -> str:
    """Return the page; `machine` is None if it is unknown."""
    numbers = _Numbers(snapshot)
    name = escape(display_path(snapshot.file))
    entry = f":{escape(snapshot.entry.name)}" if snapshot.entry and snapshot.entry.name else ""
    sections = "\n".join(_section(section, snapshot, numbers) for section in SECTIONS if section.has(snapshot))
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">\n<title>{name} · tcexplore</title>\n'
        f"<style>\n{_STYLE}\n{_classes()}\n</style>\n</head>\n<body>\n"
        f"<header><h1>{name}{entry}</h1><p>{escape(_conditions(snapshot, machine))}</p>"
        f'<div class="verdict">{_spans(run_verdict(snapshot))}</div>\n<dl>{_figures(snapshot)}</dl></header>\n'
        f"<main>\n{sections}\n</main>\n"
        f"<footer>{HOW}</footer>\n<script>\n{_SCRIPT}\n</script>\n</body>\n</html>\n"
    )


HOW = "A click on a row marks what belongs to it in the other sections; the address then names the row. By tcexplore."


def _conditions(snapshot: Snapshot, machine: ev.Standby | None) -> str:
    """Return the machine, the configuration and the time of the run."""
    timing = snapshot.timing
    device = snapshot.config.device or (timing.device if timing is not None else machine.device if machine else "")
    threads = count(timing.threads, "thread") if timing is not None and timing.device == "cpu" else ""
    began = f"{datetime.fromtimestamp(snapshot.began):%Y-%m-%d %H:%M}" if snapshot.began else ""
    torch = format_torch(machine) if machine is not None else ""
    return " · ".join(filter(None, (torch, device, threads, format_configurations(snapshot), began)))


def _figures(snapshot: Snapshot) -> str:
    return "".join(
        f"<div><dt>{escape(label)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"
        for label, value, note in figures(snapshot)
    )


def figures(snapshot: Snapshot) -> Iterator[tuple[str, str, str]]:
    """Yield label, value and note of what was measured, for the head of the page."""
    costs = economics(snapshot)
    timing, memory, accuracy = snapshot.timing, snapshot.memory, snapshot.accuracy
    if timing is not None and timing.verdict != "measuring":
        speedup = (
            f"{timing.speedup:.2f}× {timing.verdict}" if timing.verdict in ("faster", "slower") else timing.verdict
        )
        yield "compiled vs. eager", speedup, f"95% interval {interval_text(timing)}"
        calls = f"{duration(timing.eager_us / 1e6)} → {duration(timing.compiled_us / 1e6)}"
        yield "one call", calls, f"{count(timing.pairs, 'pair')}, noise floor {100 * timing.noise_floor:.1f}%"
    if costs.compile_s is not None:
        calls_needed = f"break-even after ~{rounded(costs.break_even_calls)} calls" if costs.break_even_calls else ""
        yield "compile time", duration(costs.compile_s), calls_needed
    if accuracy is not None and accuracy.verdict != "not judged":
        yield "results", accuracy.verdict, f"largest difference {accuracy.max_abs:.2g}" if accuracy.max_abs else ""
    if memory is not None and memory.compiled_peak is not None:
        eager = f"eager {size(memory.eager_peak)}" if memory.eager_peak is not None else ""
        yield "peak memory of a call", size(memory.compiled_peak), eager


def _section(section: Section, snapshot: Snapshot, numbers: _Numbers) -> str:
    document = _opened(snapshot, section)
    title = (
        f"{escape(section.title)} <small>{escape(document.title)}</small>" if document.title else escape(section.title)
    )
    attributes = (' class="whole"' if section.whole else "") + ("" if section.closed else " open")
    return (
        f'<details{attributes}><summary>{title}</summary><div class="rows">{_rows(document, numbers)}</div></details>'
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


def _opened(snapshot: Snapshot, section: Section) -> Document:
    """Return the document of a section."""
    opened: frozenset[str] = frozenset()
    for _ in range(LEVELS):
        document = section.build(snapshot, opened, section.width)
        rows = (document.row(index) for index in range(len(document)))
        closed = (row.fold for row in rows if row.fold and CLOSED in row.text)
        opened |= {name for name in closed if section.opened or name.startswith(OPENED)}
    return section.build(snapshot, opened, section.width)


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
    yield from (f".s-{name}{{color:{light}}}" for name, (light, _) in _COLORS.items())
    yield ".s-strong,.s-heading,.s-title,.s-break{font-weight:600}.s-extern{font-style:italic}"
    yield ".s-badge-break{background:#b3121d;color:#fff}.s-badge-ok{background:#0b6b2e;color:#fff}"
    yield ".s-badge-muted,.s-badge-warn{background:#667;color:#fff}"
    yield from (f".kernel-{n}{{color:hsl({hue} 60% 38%)}}" for n, hue in enumerate(_HUES))
    yield from (f".label-{n}{{background:hsl({hue} 60% 38%);color:#fff}}" for n, hue in enumerate(_HUES))
    yield f"@media (prefers-color-scheme:dark){{{_DARK}"
    yield from (f".s-{name}{{color:{dark}}}" for name, (_, dark) in _COLORS.items())
    yield from (f".kernel-{n}{{color:hsl({hue} 60% 72%)}}" for n, hue in enumerate(_HUES))
    yield "a{color:var(--edge)}}"
