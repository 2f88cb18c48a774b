"""Names of the styles that a document may use, each with its style on a terminal of 16 colors."""

from __future__ import annotations

KERNELS = 12
"""Number of kernel colors; they repeat."""


def kernel_colors(colors: tuple[str, ...], label: str) -> dict[str, str]:
    """Return the styles of text and of labels in the color of each kernel."""
    text = {f"kernel.{n}": color for n, color in enumerate(colors)}
    return text | {f"label.{n}": f"{label} {color}" for n, color in enumerate(colors)}


ANSI = {
    "muted": "dim",
    "dim": "dim",
    "strong": "bold",
    "heading": "bold",
    "title": "bold",
    "key": "bold blue",
    "rule": "dim",
    "location": "underline",
    "keyword": "magenta",
    "string": "green",
    "comment": "italic dim",
    "number": "yellow",
    "function": "blue",
    "type": "cyan",
    "operator": "default",
    "builtin": "cyan",
    "decorator": "yellow",
    "node": "default",
    "target": "blue",
    "dtype": "cyan",
    "shape": "yellow",
    "value": "green",
    "break": "bold red",
    "error": "bold red",
    "slower": "bold red",
    "ok": "bold green",
    "faster": "bold green",
    "warn": "yellow",
    "guard": "cyan",
    "recompile": "yellow",
    "extern": "italic",
    "running": "bold yellow",
    "old": "italic dim",
    "added": "green",
    "removed": "red strike",
    "changed": "bold yellow",
    "plot.eager": "default",
    "plot.compiled": "blue",
    "interval": "dim",
    "badge.ok": "bold reverse green",
    "badge.break": "bold reverse red",
    "badge.warn": "bold reverse yellow",
    "badge.muted": "bold reverse",
    "highlighted": "bold underline",
    "match": "underline",
    "match.current": "bold reverse yellow",
    "cursor": "reverse",
    **kernel_colors(
        ("blue", "yellow", "cyan", "magenta", "bright_blue", "bright_yellow",
         "bright_cyan", "bright_magenta", "bold blue", "bold yellow", "bold cyan", "bold magenta"), "reverse"
    ),
}  # fmt: skip
"""Styles in the 16 colors of the terminal."""

NAMES = frozenset(ANSI) | {"code.cpp", "code.python"}
"""Every style name; text in a `code` style gets the colors of its language when drawn."""
