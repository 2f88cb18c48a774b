"""Style names, as documents use them, to rich styles.

A style in a span is one name of `NAMES`, or several with blanks between (`"kernel.3 strong"`), the later ones over the
earlier. `kernel.N` and `label.N` take any N and go round after `KERNELS`. A name that no table has is plain text.
"""

from __future__ import annotations

from rich.style import Style

from tcexplore.documents.style_names import ANSI, KERNELS
from tcexplore.ui.terminal.colors import DARK, LIGHT


class Palette:
    """The styles of one theme. `epoch` differs between palettes: a key for caches of what was styled."""

    def __init__(self, epoch: str, table: dict[str, str]) -> None:
        self.epoch = epoch
        self._styles = {name: Style.parse(text) for name, text in table.items()}
        self._known: dict[str, Style] = {"": Style()}

    def style(self, names: str) -> Style:
        """The style of a name or of several names with blanks between."""
        known = self._known.get(names)
        if known is None:
            known = self._known[names] = Style.combine(self._one(name) for name in names.split())
        return known

    def _one(self, name: str) -> Style:
        family, _, number = name.partition(".")
        if family in ("kernel", "label") and number.isdecimal():
            name = f"{family}.{int(number) % KERNELS}"
        return self._styles.get(name, Style.null())


PALETTES = {
    "tcexplore-dark": Palette("dark", DARK),
    "tcexplore-light": Palette("light", LIGHT),
    "ansi-dark": Palette("ansi", ANSI),
    "ansi-light": Palette("ansi", ANSI),
}
"""By the name of the Textual theme that they belong to."""


def palette(theme: str) -> Palette:
    """The palette of a Textual theme; one that is not ours gets the dark table."""
    return PALETTES.get(theme, PALETTES["tcexplore-dark"])
