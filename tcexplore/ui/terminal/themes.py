"""The built-in themes: surfaces and frames for textual; the text on them is `palette.py`'s."""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
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

LIGHT = Theme(
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
    DARK.name: LIGHT.name,
    LIGHT.name: DARK.name,
    "ansi-dark": "ansi-light",
    "ansi-light": "ansi-dark",
}
"""The theme that the toggle changes to."""


def first_theme(color_system: str | None) -> str:
    """The theme for a terminal, by rich's word for what it can show: its own colors where it has just 16 of them."""
    return "ansi-dark" if color_system == "standard" else DARK.name
