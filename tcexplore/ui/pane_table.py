"""The definition of a pane: its name, its views of a run, and the title in its frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len
from textual.content import Content

from tcexplore.documents.document import Builder
from tcexplore.session.links import Link
from tcexplore.ui.row_painter import flat

if TYPE_CHECKING:
    from tcexplore.session import Snapshot

MORE = "…"
"""Marks a title that has no room for all view names."""


class View(NamedTuple):
    """One view of a pane."""

    name: str
    """The view's name in the pane's title."""

    builder: str
    """`module:function` of the document's builder. It is imported at the first use, after the first frame."""

    shown_with: tuple[str, ...] = ()
    """Fields of which one must be set, or the pane still shows the previous run, marked as old. Empty: always shown."""

    kinds: frozenset[str] = frozenset()
    """Kinds of links that the rows stand for."""

    folds: str = ""
    """`module:function` that returns the folds that hide the selection; they open when the user turns to the view."""

    settling: tuple[str, ...] = ()
    """Fields that change all the time while a run compiles, of which the document waits for the end."""

    keywords: str = ""
    """More words under which the command palette finds it."""

    listed_with: tuple[str, ...] | None = ()
    """Fields of which one must be set, or the pane's title and the keys for views leave the view out.

    Empty: always there; None: only in the command list.
    """

    @property
    def build(self) -> Builder:
        """The function that builds the document of a run, with some folds toggled, for a width in cells."""
        builder: Builder = _load(self.builder)
        return builder

    def has(self, snapshot: Snapshot) -> bool:
        """Return whether the run has something to show in this view."""
        return not self.shown_with or any(attrgetter(field)(snapshot) for field in self.shown_with)

    def is_listed(self, snapshot: Snapshot | None) -> bool:
        """Return whether the pane's title and the keys for views have it for a run."""
        if not self.listed_with or snapshot is None:
            return self.listed_with == ()
        return any(attrgetter(field)(snapshot) for field in self.listed_with)

    def opens(self, snapshot: Snapshot, links: Sequence[Link]) -> frozenset[str]:
        """Return the folds that hide rows of these links."""
        folds: frozenset[str] = _load(self.folds)(snapshot, links) if self.folds else frozenset()
        return folds


def _load(path: str) -> Callable[..., Any]:
    module, _, function = path.partition(":")
    loaded: Callable[..., Any] = getattr(import_module(module), function)
    return loaded


class PaneSpec(NamedTuple):
    """One pane. `number` is its key; it opens with the first of its views."""

    id: str
    number: int
    title: str
    views: tuple[View, ...]

    def view(self, name: str) -> View | None:
        """Return the view with this name."""
        return next((view for view in self.views if view.name == name), None)

    def listed(self, view: View, snapshot: Snapshot | None) -> tuple[View, ...]:
        """Return the views that have something to say of a run, and the current one."""
        return tuple(known for known in self.views if known is view or known.is_listed(snapshot))

    def next_view(self, view: View, by: int, snapshot: Snapshot | None) -> View:
        """Return the view `by` places after another one, cyclically, of those that have something to say."""
        listed = self.listed(view, snapshot)
        return listed[(listed.index(view) + by) % len(listed)]


def heading(
    spec: PaneSpec, view: View, summary: str, notes: tuple[str, ...], room: int, listed: tuple[View, ...] = ()
) -> Content:
    """Return the title for `room` cells: number, name, views (the current one in brackets), the view's summary, notes.

    If room is scarce, the views that the next keys lead to come first, and notes come before the summary.
    """
    listed = listed or spec.views
    least = cell_len(f"{spec.number} {spec.title} [{view.name}] {MORE}")
    tail = _tail((summary, *notes))
    if least + cell_len(tail) > room:
        tail = _tail(notes) if any(notes) else tail
    left = room - cell_len(f"{spec.number} {spec.title}{tail}")
    # Content is never parsed as markup.
    return Content.assemble((str(spec.number), "bold"), f" {spec.title}", *_views(listed, view, left), tail)


def view_at(spec: PaneSpec, title: str, column: int) -> View | None:
    """Return the view whose name in the title of a pane is at this column."""
    at = title.find(spec.title) + len(spec.title)
    for view in sorted(spec.views, key=lambda view: title.find(view.name, at)):
        first = title.find(view.name, at)
        if 0 <= first <= column < first + len(view.name):
            return view
    return None


def _tail(texts: tuple[str, ...]) -> str:
    return "".join(f" ─ {flat(text)}" for text in texts if text)


def _views(listed: tuple[View, ...], view: View, room: int) -> list[tuple[str, str]]:
    """Return the view names that fit, the current one in brackets."""
    if len(listed) == 1:
        return []
    names = [known.name for known in listed]
    at = names.index(view.name)
    after = [*names[at + 1 :], *names[:at]]
    left = room - cell_len(f" [{view.name}]") - sum(cell_len(f" {name}") for name in after)
    more: list[tuple[str, str]] = []
    while after and left < 0:
        left += cell_len(f" {after.pop()}") - (0 if more else cell_len(f" {MORE}"))
        more = [(f" {MORE}", "dim")]
    named = [(f" [{n}]", "bold") if n == view.name else (f" {n}", "dim") for n in names if n in {view.name, *after}]
    return [*named, *more]


# ---- the table


_HAS_KERNELS = ("code.kernels", "code.wrappers")
_HAS_GUARDS = ("guards", "recompiles")
_KERNEL = frozenset({"kernel"})

# fmt: off
PANES: tuple[PaneSpec, ...] = (
    PaneSpec("source", 1, "Source", (
        View("source", "tcexplore.documents.source_view:source_document",
             kinds=frozenset({"line"}), keywords="file code line bytes traffic"),
    )),
    PaneSpec("graph", 2, "Graph", (
        View("nodes", "tcexplore.documents.graph.graph_view:graph_document",
             shown_with=("graphs",), kinds=frozenset({"node"}), keywords="fx dynamo ops shapes"),
        View("modules", "tcexplore.documents.graph.modules_view:modules_document",
             shown_with=("graphs",), kinds=frozenset({"node"}), keywords="layers tree repeated odd time"),
        View("code", "tcexplore.documents.graph.graph_view:readable_document",
             shown_with=("graphs",), kinds=frozenset({"node"}), listed_with=None),
        View("decomp", "tcexplore.documents.graph.decomposition_view:decomposition_document",
             shown_with=("graphs",), kinds=frozenset({"line", "node", "aten"}), keywords="aten decomposition",
             listed_with=None),
        View("aot", "tcexplore.documents.graph.aot_view:aot_document",
             shown_with=("code.aten_graphs",), kinds=frozenset({"aten"}),
             keywords="autograd forward backward joint saved memory"),
        View("passes", "tcexplore.documents.graph.passes_view:passes_document",
             shown_with=("code.passes",), keywords="inductor pattern rewrite", listed_with=None),
    )),
    PaneSpec("breaks", 3, "Breaks", (
        View("breaks", "tcexplore.documents.breaks_view:breaks_document",
             shown_with=("breaks", "graphs", "skipped_frames", "restarts"), kinds=frozenset({"break", "line"}),
             keywords="graph fix reason item print where"),
        View("bytecode", "tcexplore.documents.bytecode_view:bytecode_document",
             shown_with=("rewritten", "graphs"), kinds=frozenset({"break", "line"}),
             keywords="resume function dynamo rewritten instructions dis", listed_with=None),
    )),
    PaneSpec("guards", 4, "Guards", (
        View("guards", "tcexplore.documents.guards.guards_view:guards_document",
             shown_with=_HAS_GUARDS, kinds=frozenset({"guard"}), keywords="conditions recompile shapes line causes"),
        View("entries", "tcexplore.documents.guards.cache_entries_view:cache_entries_document",
             shown_with=_HAS_GUARDS, kinds=frozenset({"entry", "guard"}), settling=("phase_times",),
             keywords="cache frames recompile cause avoid stop", listed_with=("recompiles", "regions")),
        View("symbols", "tcexplore.documents.guards.symbols_view:symbols_document",
             shown_with=_HAS_GUARDS, keywords="dynamic shapes batch symbolic",
             listed_with=("symbols", "recompiles")),
        View("check", "tcexplore.documents.guards.recompile_check_view:recompile_check_document",
             shown_with=(*_HAS_GUARDS, "recompile_answers"), kinds=frozenset({"entry"}),
             keywords="recompile inputs batch", listed_with=("recompile_answers",)),
    )),
    PaneSpec("code", 5, "Code", (
        View("kernels", "tcexplore.documents.code.kernels_view:kernels_document",
             shown_with=_HAS_KERNELS, kinds=frozenset({"kernel", "aten"}), keywords="triton cpp generated code ops"),
        View("fusion", "tcexplore.documents.code.fusion_view:fusion_document",
             shown_with=_HAS_KERNELS, kinds=_KERNEL, keywords="fused kernels ops together apart"),
        View("device", "tcexplore.documents.code.device_view:device_document",
             shown_with=_HAS_KERNELS, kinds=frozenset({"statement", "kernel"}),
             folds="tcexplore.documents.code.stages_view:find_hiding_folds",
             keywords="ptx sass assembly llvm gpu stages resources registers shared memory occupancy spills roofline "
             "flops bytes bandwidth bound autotuning choices configs benchmark",
             listed_with=("code.assembled", "code.not_assembled", "code.roofline", "autotuned")),
    )),
    PaneSpec("timing", 6, "Timing", (
        View("timing", "tcexplore.documents.timing.timing_view:timing_document",
             shown_with=("timing", "pairs", "timing_skipped", "regions", "profile"),
             keywords="speedup measure memory peak profile latency steps ranks waiting"),
        View("lines", "tcexplore.documents.timing.hot_lines_view:hot_lines_document",
             shown_with=("eager_lines", "profile"), kinds=frozenset({"line"}),
             keywords="slow hot line expensive cost most time eager compiled profile",
             listed_with=("eager_lines", "profile")),
        View("next", "tcexplore.documents.timing.next_view:next_document",
             shown_with=("graphs",), keywords="advice recommend step gain faster what to do"),
        View("timeline", "tcexplore.documents.timing.step_timeline_view:step_timeline_document",
             shown_with=("step_timelines", "complete"), kinds=frozenset({"line"}),
             keywords="step host device streams gaps idle waiting synchronization launches phases profile zoom",
             listed_with=("step_timelines",)),
        View("regions", "tcexplore.documents.timing.regions_view:regions_document",
             shown_with=("regions", "complete"), keywords="timeline calls compiles recompiles time",
             listed_with=("regions",)),
        View("state dict", "tcexplore.documents.timing.state_dict_view:state_dict_document",
             shown_with=("state_keys", "complete"), keywords="parameters keys checkpoint",
             listed_with=None),
    )),
    PaneSpec("output", 7, "Output", (
        View("output", "tcexplore.documents.output_view:output_document",
             keywords="print log error trace"),
    )),
)
# fmt: on
"""In the order of their numbers."""
