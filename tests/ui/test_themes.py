"""Colors are complete, readable and distinct."""

from __future__ import annotations

import itertools

import pytest
from rich.color import ColorSystem
from rich.style import Style
from textual.color import Color
from textual.filter import ANSIToTruecolor
from textual.theme import BUILTIN_THEMES, Theme

from tcexplore.documents.document import Row, Span
from tcexplore.documents.style_names import ANSI, KERNELS, NAMES
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.row_painter import segments
from tcexplore.ui.themes import (
    DARK,
    DARK_THEME,
    LIGHT,
    LIGHT_THEME,
    PALETTES,
    configured_theme,
    contrast,
    first_theme,
    opposite,
    palette,
)
from tests.ui.app_under_test import FakeEngine

THEMES = [(DARK_THEME, DARK), (LIGHT_THEME, LIGHT)]


def test_all_themes_have_all_names():
    assert set(DARK) == set(LIGHT) == set(ANSI) <= NAMES


@pytest.mark.parametrize(("which", "table"), THEMES, ids=["dark", "light"])
def test_text_has_contrast_on_every_ground(which: Theme, table: dict[str, str]):
    colors = PALETTES[which.name]
    grounds = {name: colors.style(name).bgcolor for name in ("highlighted", "cursor")}
    plain = Color.parse(str(which.background))
    for name in table:
        style = colors.style(name)
        if style.color is None:
            continue
        own = Color.from_rich_color(style.bgcolor) if style.bgcolor else plain
        wanted = 1.5 if name == "rule" else 3.0 if name == "dim" else 4.5
        assert contrast(Color.from_rich_color(style.color), own) >= wanted, name
    for ground in grounds.values():
        assert contrast(Color.parse(str(which.foreground)), Color.from_rich_color(ground)) >= 4.5


@pytest.mark.parametrize("name", [name for name, theme in BUILTIN_THEMES.items() if not theme.ansi])
def test_the_themes_of_textual_are_readable_and_keep_their_own_colors(name: str):
    ground = Color.parse(BUILTIN_THEMES[name].to_color_system().generate()["background"])
    ratios = {
        style: contrast(Color.from_rich_color(color), ground)
        for style in DARK
        if (color := palette(name).style(style).color) is not None and not palette(name).style(style).bgcolor
    }
    low = {style: ratio for style, ratio in ratios.items() if ratio < {"rule": 1.3, "dim": 2.1}.get(style, 3.4)}
    assert low == {}
    if name in ("nord", "gruvbox", "catppuccin-mocha"):
        primary = palette(name).style("key").color
        assert primary is not None
        assert Color.from_rich_color(primary).hex6 == Color.parse(BUILTIN_THEMES[name].primary).hex6


@pytest.mark.parametrize("name", ["tcexplore-dark", "tcexplore-light", "ansi-dark"])
def test_kernels_differ_from_each_other(name: str):
    styles = [palette(name).style(f"kernel.{n}") for n in range(KERNELS)]
    assert all(a != b for a, b in itertools.combinations(styles, 2))


def test_kernel_colors_repeat_names_combine_and_unknown_names_are_plain():
    dark = palette("tcexplore-dark")
    assert dark.style("kernel.12") == dark.style("kernel.0")
    assert dark.style("kernel.3 strong") == dark.style("kernel.3") + Style(bold=True)
    assert dark.style("no such name") == Style()


def test_sixteen_colors_stay_readable():
    for name in ("tcexplore-dark", "tcexplore-light"):
        for style_name in DARK:
            style = palette(name).style(style_name)
            if style.color and style.bgcolor:
                downgraded = [c.downgrade(ColorSystem.STANDARD) for c in (style.color, style.bgcolor)]
                assert downgraded[0] != downgraded[1], style_name
    assert first_theme("standard") == "ansi-dark"
    assert first_theme("truecolor") == "tcexplore-dark"


@pytest.mark.parametrize("table", [DARK, LIGHT, ANSI], ids=["dark", "light", "ansi"])
@pytest.mark.parametrize("system", [ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT])
def test_cursor_and_highlighted_rows_differ_in_few_colors(table: dict[str, str], system: ColorSystem):
    highlighted, cursor = (Style.parse(table[name]) for name in ("highlighted", "cursor"))
    assert _shown(highlighted, system) != _shown(cursor, system)


def _shown(style: Style, system: ColorSystem) -> tuple[bool | None, object]:
    return style.reverse, style.bgcolor.downgrade(system) if style.bgcolor else None


def test_a_theme_with_colors_of_the_user_keeps_the_rest():
    theme = configured_theme("gruvbox", {"primary": "#d3869b", "background": "#000000"})
    assert (theme.primary, theme.background) == ("#d3869b", "#000000")
    assert theme.secondary == BUILTIN_THEMES["gruvbox"].secondary
    assert BUILTIN_THEMES["gruvbox"].background != "#000000"
    assert palette(theme.name).style("key") == Style.parse("bold #d3869b")
    assert configured_theme("nord", {}) is BUILTIN_THEMES["nord"]


def test_the_toggle_goes_to_the_other_brightness():
    assert opposite(BUILTIN_THEMES["nord"]) == "tcexplore-light"
    assert opposite(BUILTIN_THEMES["solarized-light"]) == "tcexplore-dark"
    assert opposite(BUILTIN_THEMES["ansi-dark"]) == "ansi-light"


@pytest.mark.parametrize("theme", [DARK_THEME.name, "ansi-dark"])
def test_dimmed_labels_have_no_background_since_terminals_do_not_dim_it(theme: str):
    row = Row((Span("▐", "kernel.0"), Span("1", "label.0"), Span("▌", "kernel.0")))
    painted = {dim: segments(row, palette(theme), Style(dim=dim)) for dim in (False, True)}
    filled = {dim: [bool(s.style and (s.style.bgcolor or s.style.reverse)) for s in painted[dim]] for dim in painted}
    assert filled == {False: [False, True, False], True: [False, False, False]}


@pytest.mark.parametrize(("first", "own_colors"), [("ansi-dark", True), (DARK_THEME.name, False)])
async def test_the_first_frame_has_the_colors_of_the_first_theme(
    first: str, own_colors: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tcexplore.ui.app.first_theme", lambda _: first)
    app = ExplorerApp(FakeEngine)
    async with app.run_test(size=(120, 40)):
        converts = any(isinstance(each, ANSIToTruecolor) for each in app.get_line_filters())
        assert (app.theme, app.native_ansi_color, converts) == (first, own_colors, not own_colors)
        assert app.has_class("-dark-mode")
