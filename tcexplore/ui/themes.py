"""The built-in themes: Textual themes for surfaces and frames, palettes for the text on them, and their colors.

A span's style is one name of `style_names.NAMES`, or several with blanks in between (`"kernel.3 strong"`), later ones
over earlier ones. `kernel.N` and `label.N` accept any N and wrap around after `KERNELS`. An unknown name is plain text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from rich.style import Style
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from tcexplore.documents.style_names import ANSI, KERNELS, kernel_colors

_STYLES = {
    "muted": ("#8b93a1", "#5d6470"),
    "dim": ("#626b7a", "#868d99"),
    "strong": ("bold", "bold"),
    "heading": ("bold #e6e9ef", "bold #1a1d23"),
    "title": ("bold #e6e9ef", "bold #1a1d23"),
    "key": ("bold #87bafd", "bold #2863ab"),
    "rule": ("#434b59", "#b9bec7"),
    "location": ("#8b93a1 underline", "#5d6470 underline"),
    "keyword": ("#b189dd", "#7a2e96"),
    "string": ("#a3b97c", "#3d6b10"),
    "comment": ("italic #7f8896", "italic #6b727e"),
    "number": ("#d8a867", "#8d5406"),
    "function": ("#87bafd", "#2863ab"),
    "type": ("#72c3d6", "#0e6f81"),
    "operator": ("#a7aebb", "#444a54"),
    "builtin": ("#72c3d6", "#0e6f81"),
    "decorator": ("#cab952", "#716400"),
    "node": ("#e6e9ef", "#1a1d23"),
    "target": ("#87bafd", "#2863ab"),
    "dtype": ("#72c3d6", "#0e6f81"),
    "shape": ("#d8a867", "#8d5406"),
    "value": ("#a3b97c", "#3d6b10"),
    "break": ("bold #ff7a76", "bold #bb1622"),
    "error": ("bold #ff7a76", "bold #bb1622"),
    "slower": ("bold #ff7a76", "bold #bb1622"),
    "ok": ("bold #71d98a", "bold #0b6b2e"),
    "faster": ("bold #71d98a", "bold #0b6b2e"),
    "warn": ("#f2c14e", "#8a5a00"),
    "guard": ("#72c3d6", "#0e6f81"),
    "recompile": ("#f2c14e", "#8a5a00"),
    "extern": ("italic #a7aebb", "italic #444a54"),
    "running": ("bold #f2c14e", "bold #8a5a00"),
    "old": ("italic #8b93a1", "italic #5d6470"),
    "added": ("#71d98a", "#0b6b2e"),
    "removed": ("#ff7a76 strike", "#bb1622 strike"),
    "changed": ("bold #f2c14e", "bold #8a5a00"),
    "plot.eager": ("#a7aebb", "#444a54"),
    "plot.compiled": ("#87bafd", "#2863ab"),
    "interval": ("#8b93a1", "#5d6470"),
    "badge.ok": ("bold #0f1a12 on #71d98a", "bold #ffffff on #0b6b2e"),
    "badge.break": ("bold #240808 on #ff7a76", "bold #ffffff on #bb1622"),
    "badge.warn": ("bold #241a04 on #f2c14e", "bold #ffffff on #8a5a00"),
    "badge.muted": ("bold #e6e9ef on #343b47", "bold #1a1d23 on #dfe2e7"),
    "highlighted": ("bold on #1f2c4a", "bold on #d8e6fa"),
    "match": ("underline on #4b4014", "underline on #f6e7ae"),
    "match.current": ("bold #14110a on #f2c14e", "bold #ffffff on #8a5a00"),
    "cursor": ("on #3a3f47", "on #c9cdd4"),
}
"""The styles of each name in the dark and in the light theme."""

DARK = {name: dark for name, (dark, _) in _STYLES.items()} | kernel_colors(
    ("#87bafd", "#eea65b", "#5cd1a3", "#db9de9", "#cab952", "#39cbe9",
     "#d57db0", "#84ae57", "#9792e9", "#08b6af", "#c29733", "#b189dd"), "#0d1014 on"
)  # fmt: skip
LIGHT = {name: light for name, (_, light) in _STYLES.items()} | kernel_colors(
    ("#2863ab", "#8d5406", "#007654", "#834791", "#716400", "#0e6f81",
     "#7b285d", "#375800", "#483e90", "#085955", "#624902", "#5e3685"), "#ffffff on"
)  # fmt: skip

DARK_THEME = Theme(
    name="tcexplore-dark",
    primary="#87bafd",
    secondary="#9792e9",
    accent="#87bafd",
    warning="#f2c14e",
    error="#ff7a76",
    success="#71d98a",
    foreground="#c9ced6",
    background="#12151b",
    surface="#171b22",
    panel="#1c212a",
    dark=True,
    variables={"frame": "#353c49", "frame-focus": "#87bafd", "footer-background": "#171b22"},
)

LIGHT_THEME = Theme(
    name="tcexplore-light",
    primary="#2863ab",
    secondary="#483e90",
    accent="#2863ab",
    warning="#8a5a00",
    error="#bb1622",
    success="#0b6b2e",
    foreground="#2b3038",
    background="#fcfcfa",
    surface="#f3f3f0",
    panel="#ebedf1",
    dark=False,
    variables={"frame": "#c6cad1", "frame-focus": "#2863ab"},
)

OTHER = {
    DARK_THEME.name: LIGHT_THEME.name,
    LIGHT_THEME.name: DARK_THEME.name,
    "ansi-dark": "ansi-light",
    "ansi-light": "ansi-dark",
}
"""The theme that the toggle switches to."""


def first_theme(color_system: str | None) -> str:
    """Return the theme for a terminal's color system, as Rich names it: the terminal's own colors if it has only 16."""
    return "ansi-dark" if color_system == "standard" else DARK_THEME.name


class Palette:
    """The styles of one theme."""

    def __init__(self, table: dict[str, str]) -> None:
        self._styles = {name: Style.parse(text) for name, text in table.items()}
        self._combined: dict[str, Style] = {"": Style()}

    def style(self, names: str) -> Style:
        """Return the style of a name, or of several names with blanks in between."""
        style = self._combined.get(names)
        if style is None:
            style = self._combined[names] = Style.combine(self._one(name) for name in names.split())
        return style

    def _one(self, name: str) -> Style:
        family, _, number = name.partition(".")
        if family in ("kernel", "label") and number.isdecimal():
            name = f"{family}.{int(number) % KERNELS}"
        return self._styles.get(name, Style.null())


PALETTES = {
    DARK_THEME.name: Palette(DARK),
    LIGHT_THEME.name: Palette(LIGHT),
    "ansi-dark": Palette(ANSI),
    "ansi-light": Palette(ANSI),
}
"""By the name of the Textual theme that they belong to."""


def themes() -> dict[str, Theme]:
    """Return tcexplore's themes and Textual's, by name."""
    return {DARK_THEME.name: DARK_THEME, LIGHT_THEME.name: LIGHT_THEME, **BUILTIN_THEMES}


def configured_theme(name: str, colors: Mapping[str, str]) -> Theme:
    """Return a theme by name; with colors of the user, a theme of another name."""
    base = themes()[name]
    if not colors:
        return base
    theme = replace(base, name=f"{name}, changed", variables=dict(base.variables))
    for field, color in colors.items():
        setattr(theme, field, color)
    if "primary" in colors and "frame-focus" in theme.variables:
        theme.variables["frame-focus"] = colors["primary"]
    PALETTES[theme.name] = Palette(_table(theme))
    return theme


def opposite(theme: Theme) -> str:
    """Return the name of the theme that the toggle switches to."""
    return OTHER.get(theme.name) or (LIGHT_THEME if theme.dark else DARK_THEME).name


def frame_colors(theme: Theme) -> dict[str, str]:
    """Return the colors of frames in a theme that has none for them."""
    if theme.ansi:
        return {"frame": "ansi_bright_black", "frame-focus": "ansi_blue"}
    return {"frame": f"{theme.to_color_system().generate()['foreground']} 30%", "frame-focus": theme.primary}


def palette(theme: str) -> Palette:
    """Return the palette of a theme by its name; an unknown one gets the dark one."""
    if theme not in PALETTES and theme in BUILTIN_THEMES:
        PALETTES[theme] = Palette(_table(BUILTIN_THEMES[theme]))
    return PALETTES.get(theme, PALETTES[DARK_THEME.name])


_COLORS = {
    "primary": ("key", "function", "target", "plot.compiled"),
    "success": ("ok", "faster", "added"),
    "error": ("break", "error", "slower", "removed"),
    "warning": ("warn", "recompile", "running", "changed"),
    "foreground": ("heading", "title", "node"),
}
"""Styles that have a color of the theme if it is readable; the others have those of the dark or the light palette."""

_SHARES = ((0.7, 4.0, ("muted", "location", "old", "interval")), (0.55, 3.0, ("dim",)), (0.25, 1.4, ("rule",)))
"""Styles between background and foreground: the share of the foreground, the least contrast, the styles."""

READABLE = 4.0
"""Least contrast of a theme's color that replaces one of a palette."""


def _table(theme: Theme) -> dict[str, str]:
    """Return the styles for a theme of Textual or of the user."""
    if theme.ansi:
        return ANSI
    table, generated = dict(DARK if theme.dark else LIGHT), theme.to_color_system().generate()
    background, foreground = Color.parse(generated["background"]), Color.parse(generated["foreground"])
    colors = [(Color.parse(generated[field]), names, READABLE) for field, names in _COLORS.items()]
    colors += [(background.blend(foreground, share), names, least) for share, least, names in _SHARES]
    for color, names, least in colors:
        if contrast(color, background) >= least:
            table.update((name, re.sub("#[0-9a-f]{6}", color.hex6.lower(), table[name])) for name in names)
    return table


def contrast(one: Color, other: Color) -> float:
    """Return the contrast of two colors as the WCAG defines it, from 1 to 21."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: Color) -> float:
    parts = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in color.normalized)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))
