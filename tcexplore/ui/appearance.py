"""Appearance of the app, as the user configures it: keymap, theme, and targets to choose from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tcexplore.keymap import AppearanceError, make_keymap

COLORS = (
    "primary", "secondary", "accent", "foreground", "background", "surface", "panel", "success", "warning", "error",
)  # fmt: skip
"""Colors of a theme that a configuration file may set."""

Table = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Appearance:
    """Keymap, theme and targets."""

    theme: str = ""
    """Name of the theme; empty for the one that was used last."""
    colors: Mapping[str, str] = field(default_factory=dict)
    """Colors that replace those of the theme."""
    keymap: Mapping[str, str] = field(default_factory=dict)
    """Changes of the default keys."""
    targets: tuple[str, ...] = ()
    """Files of targets to offer next to those of the device table."""


def make_appearance(theme: str | Table | None, keymap: str | Table | None, targets: Sequence[str] = ()) -> Appearance:
    """Return the appearance of valid choices; None for the default."""
    base, colors = read_theme(theme) if theme else ("", {})
    return Appearance(base, colors, read_keymap(keymap) if keymap else {}, tuple(targets))


def read_keymap(choice: str | Table) -> dict[str, str]:
    """Return the changes of the default keys: a preset's, or a table's. Raises `AppearanceError`."""
    if isinstance(choice, str):
        return make_keymap(choice, {})
    entries = dict(choice)
    preset = entries.pop("preset", "default")
    if not isinstance(preset, str):
        raise AppearanceError("preset", "the name of a keymap is needed")
    for name, keys in entries.items():
        if not isinstance(keys, str) and not (isinstance(keys, list) and all(isinstance(key, str) for key in keys)):
            raise AppearanceError(name, "keys are a text, such as 'h' or 'ctrl+d,pagedown', or a list of them")
    return make_keymap(preset, entries)


def theme_names() -> tuple[str, ...]:
    """Return the names of all themes."""
    from tcexplore.ui.themes import themes

    return tuple(themes())


def read_theme(choice: str | Table) -> tuple[str, dict[str, str]]:
    """Return the name of a theme, and the colors of a table that replace its own. Raises `AppearanceError`."""
    if isinstance(choice, str):
        if choice not in (names := theme_names()):
            raise AppearanceError("", f"there is no theme {choice!r}; {_nearest(choice, names)}")
        return choice, {}
    entries = dict(choice)
    base = entries.pop("base", "tcexplore-dark")
    if not isinstance(base, str):
        raise AppearanceError("base", "the name of a theme is needed")
    try:
        read_theme(base)
    except AppearanceError as error:
        raise AppearanceError("base", str(error)) from None
    for name, color in entries.items():
        _check_color(name, color)
    return base, entries


def _check_color(name: str, color: Any) -> None:
    from textual.color import Color, ColorParseError

    if name not in COLORS:
        raise AppearanceError(name, f"there is no color {name!r} in a theme; {_nearest(name, COLORS)}")
    try:
        Color.parse(color if isinstance(color, str) else "")
    except ColorParseError:
        raise AppearanceError(name, f"{color!r} is not a color, such as '#87bafd'") from None


def _nearest(name: str, names: Sequence[str]) -> str:
    """Return a question with the nearest of the names, or all of them if none is near."""
    from difflib import get_close_matches

    nearest = get_close_matches(name, names, 1)
    return f"did you mean {nearest[0]!r}?" if nearest else f"use one of {', '.join(names)}"
