"""Room of panes: a pane with few rows gives to one with more rows than lines, once, when a run is over."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from textual.geometry import Size

from tcexplore.documents.document import Row, Span, StaticDocument
from tcexplore.ui.pane_layout import CELLS, LEAST_CELLS, LEAST_LINES, Need, PaneSizes, Tiles, allot, measure
from tests import fakes
from tests.ui.app_under_test import AppUnderTest, run_app

SIX = ("source", "graph", "code", "breaks", "guards", "timing")
SCREEN = Size(160, 45)


def document(*texts: str) -> StaticDocument:
    return StaticDocument("", tuple(Row((Span(text),)) for text in texts))


@given(st.lists(st.tuples(st.integers(10, 90), st.none() | st.integers(1, 200)), min_size=1, max_size=4))
def test_room_is_moved_only_from_panes_with_too_much_to_panes_with_too_little(
    given_parts: list[tuple[int, int | None]],
):
    parts, needs = [part for part, _ in given_parts], [need for _, need in given_parts]
    allotted = allot(parts, needs, [8] * len(parts))
    assert sum(allotted) == sum(parts)
    for before, need, after in zip(parts, needs, allotted, strict=True):
        wanted = before if need is None else need
        assert before <= after <= wanted if wanted > before else max(min(wanted, before), min(8, before)) <= after


def test_the_pane_that_lacks_the_least_is_served_first():
    assert allot([60, 45, 55], [40, 48, 150], [30] * 3) == [40, 48, 72]
    assert allot([60, 45, 55], [58, 48, 150], [30] * 3) == [58, 47, 55]


def test_a_pane_whose_rows_would_lose_their_ends_gives_no_room():
    """A long source line does not take the sizes of all kernels away."""
    assert allot([64, 44, 52], [80, 44, 36], [32, 44, 32]) == [80, 44, 36]
    assert allot([64, 44, 52], [80, 44, 36], [32, 44, 48]) == [68, 44, 48]
    needs = {**dict.fromkeys(SIX, Need(12, 32, 32)), "source": Need(300, 90, 90), "code": Need(40, 36, 80)}
    columns = Tiles.of(SCREEN, "all", SIX, PaneSizes(), needs).columns
    plain = Tiles.of(SCREEN, "all", SIX, PaneSizes(), {}).columns
    assert columns[0] > plain[0], "the graph pane gives"
    assert columns[2] == plain[2]


def test_a_document_needs_all_of_its_rows_and_the_important_part_of_its_widest():
    quiet = Row((Span("a" * 20), Span("b" * 50, "muted")))
    assert measure(StaticDocument("", (quiet,) * 4), 30) == Need(9, 24, 76)
    assert measure(document(*["a" * 20] * 11, "b" * 100), 30) == Need(15, 24, 24)
    assert measure(document("a" * 30, "b" * 100), 30).cells == 104


def test_few_more_rows_move_nothing():
    assert {measure(document(*["x"] * rows), 30).lines for rows in (4, 5, 6)} == {9}


def test_panes_that_fit_or_are_all_too_small_keep_the_default_shares():
    plain = Tiles.of(SCREEN, "all", SIX, PaneSizes(), {})
    fits = Tiles.of(SCREEN, "all", SIX, PaneSizes(), dict.fromkeys(SIX, Need(12, 32)))
    cut = Tiles.of(SCREEN, "all", SIX, PaneSizes(), dict.fromkeys(SIX, Need(300, 200)))
    assert plain == fits == cut


def test_sizes_that_the_user_chose_come_before_the_content():
    needs = {**dict.fromkeys(SIX, Need(300, 200)), "breaks": Need(3, 20)}
    tiles = Tiles.of(SCREEN, "all", SIX, PaneSizes(), needs)
    assert tiles.upper[0] == SCREEN.height - LEAST_LINES
    assert tiles.upper[1:] == Tiles.of(SCREEN, "all", SIX, PaneSizes(), {}).upper[1:]
    chosen = PaneSizes((20, 40, 40), (50, None, None)).wider("graph", 1, "all", (20, 40, 40))
    assert chosen.columns is not None
    assert chosen.columns[1] == 44
    assert Tiles.of(SCREEN, "all", SIX, chosen, needs).upper[0] == SCREEN.height // 2


@given(st.integers(140, 300), st.integers(40, 90), st.lists(st.integers(1, 300), min_size=12, max_size=12))
def test_panes_cover_the_screen_without_overlap(width: int, height: int, numbers: list[int]):
    size = Size(width, height)
    needs = {name: Need(*numbers[2 * index : 2 * index + 2]) for index, name in enumerate(SIX)}
    regions = Tiles.of(size, "all", SIX, PaneSizes(), needs).regions(size, "all", SIX)
    assert sum(region.area for region in regions.values()) == size.area
    assert all(size.region.contains_region(region) for region in regions.values())
    assert min(region.width for region in regions.values()) >= LEAST_CELLS
    assert min(region.height for region in regions.values()) >= LEAST_LINES
    assert {name: (region.x > 0, region.y > 0) for name, region in regions.items()} == {
        name: (CELLS[name].column > 0, CELLS[name].row > 0) for name in SIX
    }


def heights(ui: AppUnderTest) -> dict[str, int]:
    return {pane.spec.id: pane.outer_size.height for pane in ui.app.main.grid.visible_panes}


async def test_breaks_with_few_rows_give_their_room_to_the_source_when_the_run_is_over():
    async with run_app(fakes.session(fakes.running(7))) as ui:
        before = heights(ui)
        await ui.show(fakes.session(fakes.one_graph(7)))
        over = heights(ui)
        assert over["breaks"] < before["breaks"]
        assert over["source"] > before["source"]
        assert over["source"] + over["breaks"] == before["source"] + before["breaks"]
        await ui.show(fakes.session(fakes.one_graph(7), fakes.running(8)))
        assert heights(ui) == over


async def test_rows_that_arrive_during_a_run_move_no_pane():
    run = fakes.one_graph(7)
    async with run_app(fakes.session(run)) as ui:
        before = heights(ui)
        source = run.source + "\n" * 40
        for graphs in ((), run.graphs, run.graphs * 2):
            going = replace(run, run=8, status="running", phase="dynamo", graphs=graphs, breaks=(), source=source)
            await ui.show(fakes.session(run, going))
            assert heights(ui) == before


async def test_going_through_the_history_moves_no_pane():
    runs = fakes.complete(6), fakes.one_graph(7)
    async with run_app(fakes.session(*runs)) as ui:
        before = heights(ui)
        await ui.show(fakes.session(*runs, pinned=6))
        assert heights(ui) == before


async def test_a_fold_that_the_user_opens_gets_room():
    async with run_app(fakes.session(fakes.complete(7)), (160, 50)) as ui:
        before = heights(ui)
        await ui.press("3", "enter")
        assert heights(ui)["breaks"] > before["breaks"]
        await ui.press("enter")
        assert heights(ui) == before
