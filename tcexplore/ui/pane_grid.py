"""The grid of all panes: their sizes, which are in view, and which one is current."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from textual import events, work
from textual.app import ComposeResult
from textual.containers import Container
from textual.geometry import Region, Size
from textual.layout import Layout
from textual.message import Message
from textual.reactive import var

from tcexplore.documents.document import Row, Span
from tcexplore.ui.pane import Pane
from tcexplore.ui.pane_layout import CELLS, Arrangement, Need, PaneLayout, PaneSizes, Tiles, measure
from tcexplore.ui.pane_table import PANES, PaneSpec

ALL = Size(140, 40)
"""Smallest terminal, in cells, that shows all panes at once."""

TWO = Size(100, 16)
"""Smallest terminal, in cells, that shows two panes."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the user is in the panes of a model file."""

    pane: str = ""
    """The current pane; empty for the first one."""
    views: dict[str, str] = field(default_factory=dict)
    """The view of each pane, by the pane's name; the first one if there is none."""


def arrange(size: Size, *, zoomed: bool) -> Arrangement:
    """Return how many panes a terminal shows."""
    if zoomed or size.width < TWO.width or size.height < TWO.height:
        return "one"
    return "all" if size.width >= ALL.width and size.height >= ALL.height else "two"


_SHARED = ("timing", "output")
"""Panes that share one cell; the one that was current last has it."""


class PaneGrid(Container):
    """Shows as many panes as fit."""

    BLANK = True  # the panes cover it; Textual would render each of its lines

    current: var[str] = var("source")
    """The pane that gets the keys, also while the user types a search."""
    zoomed: var[bool] = var(False)
    late: var[bool] = var(False)
    """Whether panes mark documents of older runs."""
    sizes: var[PaneSizes] = var(PaneSizes)
    needs: var[Mapping[str, Need]] = var(dict)
    """What the panes need, as far as it has been measured."""
    suggested: var[str] = var("graph")
    """The pane beside the source pane where two fit, until the user goes to another one."""

    @dataclass
    class Arranged(Message):
        """Other panes are in view, or another one is current."""

        current: str
        arrangement: Arrangement

    def __init__(self) -> None:
        super().__init__(id="panes")
        self.panes = {spec.id: Pane(spec) for spec in PANES}
        self.arrangement: Arrangement = "all"
        self._layout = PaneLayout(self)
        self._run_over = False
        """Whether the rows of a run that was over have been measured."""
        self._shared = "timing"
        self._second = ""
        """The pane beside the source pane that the user went to last."""

    def compose(self) -> ComposeResult:
        yield from (self.panes[name] for name in CELLS)

    @property
    def pane(self) -> Pane:
        """The current pane."""
        return self.panes[self.current]

    def remove_marks(self) -> None:
        """Forget what is marked to be compared: in another run or code, a name stands for another kernel or entry."""
        for pane in self.panes.values():
            pane.rows.marked, pane.note = None, ""

    @property
    def visible_panes(self) -> list[Pane]:
        return [pane for pane in self.panes.values() if pane.display]

    def open_with(self, name: str) -> None:
        """Make a pane the current one before the grid is mounted."""
        self.set_reactive(PaneGrid.current, name)
        self._remember(name)

    @property
    def place(self) -> Place:
        """The current pane, and the view of each."""
        return Place(self.current, {name: pane.view.name for name, pane in self.panes.items()})

    def go_to(self, place: Place) -> None:
        """Go to the pane of a place, and show its views; the first ones where it names none."""
        for name, pane in self.panes.items():
            pane.show_view(pane.spec.view(place.views.get(name, "")) or pane.spec.views[0])
        self.current = place.pane if place.pane in self.panes else next(iter(self.panes))

    def next_pane(self, by: int) -> None:
        """Switch to the pane `by` numbers after the current one, cyclically."""
        names = list(self.panes)
        self.current = names[(names.index(self.current) + by) % len(names)]

    def lay_out(self) -> None:
        """Show the panes that fit the terminal."""
        self.arrangement = arrange(self.app.size, zoomed=self.zoomed)
        visible = self._visible()
        for name, pane in self.panes.items():
            pane.display = name in visible
            pane.single = self.arrangement == "one"
        self.set_class(self.arrangement == "one", "-single")
        self._arrange_panes()
        self.pane.rows.focus()
        self.post_message(self.Arranged(self.current, self.arrangement))

    def _visible(self) -> set[str]:
        if self.arrangement == "one":
            return {self.current}
        if self.arrangement == "two":
            return {"source", self._second or self.suggested}
        return {name for name in self.panes if name not in _SHARED or name == self._shared}

    # ---- room

    @property
    def layout(self) -> Layout:
        return self._layout

    def places(self, size: Size) -> dict[str, Region]:
        """Return the region of each pane in view, by its id."""
        return self._tiles(size).regions(size, self.arrangement, self._in_view)

    def _tiles(self, size: Size) -> Tiles:
        return Tiles.of(size, self.arrangement, self._in_view, self.sizes, self.needs)

    @property
    def _in_view(self) -> list[str]:
        """The names of the visible panes in the order of their cells."""
        return [name for name in CELLS if self.panes[name].display]

    def _arrange_panes(self) -> None:
        # Textual caches the arrangement of a container until one of its children asks for a layout.
        self.pane.refresh(layout=True)

    def resize(self, wider: int = 0, taller: int = 0) -> None:
        """Make the current pane wider or taller, or with -1 narrower or lower."""
        if self.arrangement == "one":
            return
        tiles = self._tiles(self.size)
        if wider:
            self.sizes = self.sizes.wider(self.current, wider, self.arrangement, tiles.shares())
        elif self.arrangement == "all":
            upper = round(100 * tiles.upper[CELLS[self.current].column] / max(1, self.size.height))
            self.sizes = self.sizes.taller(self.current, taller, upper)

    @work(group="fit", exit_on_error=False)
    async def fit(self, names: Collection[str], *, lines_only: bool = False) -> None:
        """Give these panes the room that their rows need, once they show them: one needs less, another one more.

        It is called when a run is over and when the user changes what a pane shows, so that no pane moves meanwhile.
        With `lines_only`, all panes keep their width, so that no other document is built anew.
        """
        self._run_over = True
        if self.arrangement != "all":  # they are measured when all are in view
            self.needs = {}
            return
        measured: dict[str, Need] = {}
        for pane in self.visible_panes:
            if pane.spec.id in names:
                await pane.ready()
                need = measure(pane.rows.document, self.size.height)
                known = self.needs.get(pane.spec.id)
                measured[pane.spec.id] = known._replace(lines=need.lines) if known and lines_only else need
        in_view = {name: need for name, need in self.needs.items() if self.panes[name].display}
        self.needs = {**in_view, **measured}

    def on_pane_changed(self, message: Pane.Changed) -> None:
        message.stop()
        if self._run_over:
            self.fit((message.pane,), lines_only=True)

    def on_pane_shown(self, message: Pane.Shown) -> None:
        # The rows of the timing come after the run.
        if self._run_over and message.pane not in self.needs and message.pane != "timing":
            self.fit((message.pane,))

    def on_mount(self) -> None:
        self.lay_out()

    def _remember(self, current: str) -> None:
        if current in _SHARED:
            self._shared = current
        if current != "source":
            self._second = current

    def watch_current(self, current: str) -> None:
        self._remember(current)
        if self.is_mounted:
            self.lay_out()

    def watch_late(self, late: bool) -> None:
        for pane in self.panes.values():
            pane.late = late

    def watch_sizes(self) -> None:
        if self.is_mounted:
            self._arrange_panes()

    watch_needs = watch_sizes

    def watch_suggested(self) -> None:
        if self.is_mounted and self.arrangement == "two" and not self._second:
            self.lay_out()

    def watch_zoomed(self) -> None:
        if self.is_mounted:
            self.lay_out()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        pane = event.widget.parent
        if isinstance(pane, Pane):
            self.current = pane.spec.id


def tabs(current: str) -> Callable[[int], Row]:
    """Return the line of pane names for a single pane; names that do not fit are abbreviated."""

    def row(width: int) -> Row:
        short = sum(len(pane.title) + 4 for pane in PANES) > width
        return Row(tuple(_tab(pane, current=pane.id == current, short=short) for pane in PANES))

    return row


def _tab(pane: PaneSpec, *, current: bool, short: bool) -> Span:
    if current:
        return Span(f"[{pane.number} {pane.title}]", "badge.muted")
    return Span(f" {pane.number} {pane.title[:3] if short else pane.title} ", "muted")
