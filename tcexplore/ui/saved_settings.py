"""The user's choices for the screen, remembered in a file from one start to the next."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tcexplore.targets.target_names import target_names
from tcexplore.ui.pane_grid import Place
from tcexplore.ui.pane_layout import LEAST, PaneSizes

VERSION = 1

MOST_BYTES = 65_536
"""A larger file is not read."""

MOST_COMMANDS = 100
"""Commands of the palette whose uses are counted."""

MOST_FILES = 50
"""Model files whose targets and places are remembered."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Choices of the user; the defaults until there are any."""

    sizes: PaneSizes = field(default_factory=PaneSizes)
    theme: str = ""
    used_commands: dict[str, int] = field(default_factory=dict)
    """How often each command of the palette was chosen."""
    targets: dict[str, str] = field(default_factory=dict)
    """The target that the user chose for each model file, as in `Config.target`; the newest choice is last."""
    places: dict[str, Place] = field(default_factory=dict)
    """Where the user was last in each model file; the newest is last."""

    def target_of(self, file: str) -> str:
        """Return the target that the user chose for a model file; empty if there is none, or if its file is gone."""
        target = self.targets.get(os.path.realpath(file), "")
        return target if target in target_names() or os.path.isfile(target) else ""

    def with_target(self, file: str, target: str) -> Settings:
        """Return the settings with the target of a model file; an empty target changes nothing."""
        path = os.path.realpath(file)
        target = os.path.abspath(target) if target.endswith(".toml") else target
        others = {other: name for other, name in self.targets.items() if other != path}
        return replace(self, targets={**others, path: target} if target else self.targets)

    def place_in(self, file: str) -> Place:
        """Return where the user was last in a model file; the default place if it is new."""
        return self.places.get(os.path.realpath(file), Place())

    def with_place(self, file: str, place: Place) -> Settings:
        """Return the settings with the place in a model file."""
        path = os.path.realpath(file)
        others = {other: known for other, known in self.places.items() if other != path}
        return replace(self, places={**others, path: place})


def settings_file() -> Path:
    """Return the file in the user's folder for state."""
    from platformdirs import user_state_path

    return user_state_path("tcexplore", appauthor=False) / "settings.json"


def load(file: Path) -> Settings:
    """Return the settings of a file; the defaults for what is missing or damaged."""
    with suppress(OSError, ValueError, RecursionError):
        if file.stat().st_size <= MOST_BYTES:
            return _decoded(json.loads(file.read_text(encoding="utf-8")))
    return Settings()


def store(file: Path, settings: Settings) -> None:
    """Write the settings; a folder that refuses them costs only their memory."""
    from tcexplore.files import NotWrittenError, create, private_folder  # not imported before the first frame

    used = sorted(settings.used_commands.items(), key=lambda item: -item[1])[:MOST_COMMANDS]
    record = {
        "version": VERSION,
        "shares": settings.sizes._asdict(),
        "theme": settings.theme,
        "used_commands": dict(used),
        "targets": dict(list(settings.targets.items())[-MOST_FILES:]),
        "places": {
            file: {"pane": place.pane, "views": place.views}
            for file, place in list(settings.places.items())[-MOST_FILES:]
        },
    }
    with suppress(OSError, NotWrittenError):
        private_folder(file.parent)
        create(file, json.dumps(record, indent=1), force=True, private=True)


def _decoded(record: Any) -> Settings:
    if not isinstance(record, dict) or record.get("version") != VERSION:
        return Settings()
    theme = record.get("theme")
    return Settings(
        _sizes(record.get("shares")),
        theme if isinstance(theme, str) else "",
        _entries(record.get("used_commands"), int),
        _entries(record.get("targets"), str),
        {file: _place(place) for file, place in _entries(record.get("places"), dict).items()},
    )


def _place(record: dict[str, Any]) -> Place:
    pane = record.get("pane")
    return Place(pane if isinstance(pane, str) else "", _entries(record.get("views"), str))


def _entries(record: Any, kind: type) -> dict[str, Any]:
    known = record if isinstance(record, dict) else {}
    return {key: value for key, value in known.items() if isinstance(value, kind)}


def _sizes(record: Any) -> PaneSizes:
    """Return the shares of a record; those that are missing or damaged follow the content."""
    if not isinstance(record, dict):
        return PaneSizes()
    columns: Any = record.get("columns")
    upper: Any = record.get("upper")
    first, second, third = map(_share, upper if isinstance(upper, list) and len(upper) == 3 else (None,) * 3)
    return PaneSizes(_columns(columns), (first, second, third), _share(record.get("source")) or 50)


def _share(value: Any) -> int | None:
    return value if isinstance(value, int) and LEAST <= value <= 100 - LEAST else None


def _columns(value: Any) -> tuple[int, int, int] | None:
    """Return the shares of a list of three that make 100 percent."""
    shares = [_share(share) for share in value] if isinstance(value, list) else []
    known = [share for share in shares if share is not None]
    return (known[0], known[1], known[2]) if len(shares) == len(known) == 3 and sum(known) == 100 else None
