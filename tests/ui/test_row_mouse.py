"""Dragging the mouse over a pane selects and copies."""

from __future__ import annotations

from tests import fakes
from tests.ui.app_under_test import AppUnderTest, run_app


async def drag(ui: AppUnderTest, start: tuple[int, int], *stops: tuple[int, int]) -> None:
    view = ui.view("source")
    await ui.pilot.mouse_down(view, offset=start)
    for stop in stops:
        await ui.pilot.hover(view, offset=stop)
    await ui.pilot.mouse_up(view, offset=stops[-1])
    await ui.settle()


async def test_a_part_of_a_row_is_copied_as_it_is_seen():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        view = ui.view("source")
        line = next(y for y in range(view.size.height) if "fc1(x)" in view.document.row(view.scroll_offset.y + y).text)
        left = view.document.row(view.scroll_offset.y + line).text.index("self")
        cursor = view.cursor
        await drag(ui, (left, line), (left + 3, line), (left + 10, line))
        assert ui.app.clipboard == "self.fc1(x)"
        assert ui.notifications == ["Copied."]
        assert view.cursor == cursor, "a drag is no click"


async def test_several_rows_are_copied_without_the_gutter():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        view = ui.view("source")
        top = view.scroll_offset.y
        await drag(ui, (20, 4), (3, 2))
        lines = fakes.SOURCE.split("\n")[top + 2 : top + 5]
        assert ui.app.clipboard == "\n".join(lines)
        strips = view.render_lines(view.size.region)
        reversed_lines = [
            y for y, strip in enumerate(strips) if any(segment.style and segment.style.reverse for segment in strip)
        ]
        assert reversed_lines == [y for y in (2, 3, 4) if view.document.row(top + y).text.strip()]


async def test_the_expression_that_breaks_the_graph_is_underlined():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        view = ui.view("source")
        texts = [
            segment.text
            for strip in view.render_lines(view.size.region)
            for segment in strip
            if segment.style and segment.style.underline
        ]
        assert "".join(texts) == 'print("mean", h.mean())'


async def test_a_click_copies_nothing_and_moves_the_cursor():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        view = ui.view("source")
        await ui.pilot.click(view, offset=(20, 5))
        await ui.settle()
        assert ui.app.clipboard == ""
        assert view.cursor == view.scroll_offset.y + 5
        await drag(ui, (20, 5), (30, 7))
        await ui.pilot.click(view, offset=(20, 8))
        await ui.settle()
        assert view.cursor == view.scroll_offset.y + 8
        assert view.selection.ends is None


async def test_the_view_scrolls_while_the_mouse_is_below_it():
    async with run_app(fakes.session(fakes.complete(7)), (100, 30)) as ui:
        await ui.press("home")
        view = ui.view("source")
        await ui.pilot.mouse_down(view, offset=(20, 3))
        for _ in range(2):
            await ui.pilot.hover(offset=(20, 29))
        await ui.pilot.mouse_up(offset=(20, 29))
        await ui.settle()
        assert view.scroll_offset.y > 0
        assert ui.app.clipboard.count("\n") >= view.size.height - 4
