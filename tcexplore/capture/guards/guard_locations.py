"""Where in the user's file each guard of a compiled frame comes from, for as long as torch keeps the guards."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from tcexplore.capture.fx.fx_text import readable_source
from tcexplore.events import Guard, Location

_PLACES: WeakKeyDictionary[Any, dict[str, Location]] = WeakKeyDictionary()


def remember(manager: Any, guards: tuple[Guard, ...]) -> None:
    """Keep the lines of the guards of torch's guard manager, by what they look at."""
    _PLACES[manager] = {readable_source(g.source): g.location for g in reversed(guards) if g.source and g.location}


def place_of(manager: Any, what: str) -> Location | None:
    """The line that made it necessary to guard `what` (`x`, `self.scale`)."""
    return _PLACES.get(manager, {}).get(what)
