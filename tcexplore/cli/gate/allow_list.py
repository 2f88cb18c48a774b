"""The allow-list of graph breaks: `--allow FILE`, a TOML file."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from fnmatch import fnmatch
from typing import Any

from tcexplore import events as ev
from tcexplore.cli.file_argument import BadFileError
from tcexplore.documents.locations import display_path
from tcexplore.files import NotWrittenError, read

KEYS = ("file", "line", "text", "kind", "reason", "expires")


@dataclass(frozen=True, slots=True)
class AllowEntry:
    """A graph break that is allowed for a reason, until a date."""

    file: str
    """Path as in the report, relative to the working directory, or a pattern such as `models/*.py`."""
    reason: str
    line: int | None = None
    """None: every line."""
    text: str = ""
    """A part of the source line; empty: every line."""
    kind: str = ""
    """torch's `gb_type`, or the id of the break (`GB0059`); empty: every kind."""
    expires: date | None = None
    """Last day on which the break is allowed; None: no end."""

    def covers(self, graph_break: ev.GraphBreak) -> bool:
        """Return whether the entry describes a break, expired or not."""
        place = graph_break.location
        if place is None or not _is_file(place.file, self.file):
            return False
        if self.line not in (None, place.line) or self.kind not in ("", graph_break.kind, graph_break.id):
            return False
        return self.text in graph_break.code

    def expired(self, today: date) -> bool:
        return self.expires is not None and today > self.expires


def read_allow_list(path: str) -> tuple[AllowEntry, ...]:
    """Return the entries of an allow-list. Raises `BadFileError` if one of them is invalid."""
    try:
        content = tomllib.loads(read(path).decode())
    except NotWrittenError as error:
        raise BadFileError(str(error)) from None
    except ValueError as error:
        raise BadFileError(f"{path} is not valid TOML: {error}.") from None
    entries = content.pop("allow", [])
    if content or not isinstance(entries, list):
        unknown = next(iter(content), "allow")
        raise BadFileError(f"{path}: {unknown!r} is not a list of [[allow]] tables.")
    return tuple(_entry(f"{path}, entry {number}", entry) for number, entry in enumerate(entries, 1))


def first_cover(entries: Iterable[AllowEntry], graph_break: ev.GraphBreak, today: date) -> AllowEntry | None:
    """Return the first valid entry that describes a break, or else the first expired one."""
    covers = [entry for entry in entries if entry.covers(graph_break)]
    return min(covers, key=lambda entry: entry.expired(today), default=None)


def in_paths(graph_break: ev.GraphBreak, paths: Iterable[str]) -> bool:
    """Return whether the break is in one of these files or folders."""
    if graph_break.location is None:
        return False
    file = os.path.realpath(graph_break.location.file)
    roots = [os.path.realpath(path) for path in paths]
    return any(file == root or file.startswith(root.rstrip(os.sep) + os.sep) for root in roots)


def _entry(place: str, entry: Any) -> AllowEntry:
    if not isinstance(entry, Mapping):
        raise BadFileError(f"{place} is not a table.")
    for key in entry:
        if key not in KEYS:
            nearest = difflib.get_close_matches(key, KEYS, 1)
            raise BadFileError(
                f"{place} has an unknown key {key!r}.", f"Did you mean {nearest[0]!r}?" if nearest else ""
            )
    line, expires = entry.get("line"), entry.get("expires")
    if line is not None and (not isinstance(line, int) or isinstance(line, bool) or line < 1):
        raise BadFileError(f"{place}: 'line' is not a line number.")
    if expires is not None and (not isinstance(expires, date) or isinstance(expires, datetime)):
        raise BadFileError(f"{place}: 'expires' is not a date, such as 2027-01-31 without quotes.")
    texts = {key: _text(place, entry, key) for key in ("file", "reason", "text", "kind")}
    if line is None and not texts["text"]:
        raise BadFileError(f"{place} needs 'line' or 'text'.")
    return AllowEntry(line=line, expires=expires, **texts)


def _text(place: str, entry: Mapping[str, Any], key: str) -> str:
    text = entry.get(key, "")
    if not isinstance(text, str):
        raise BadFileError(f"{place}: {key!r} is not a text.")
    if key in ("file", "reason") and not text.strip():
        raise BadFileError(f"{place} has no {key!r}.")
    return text


def _is_file(path: str, pattern: str) -> bool:
    shown = display_path(path).replace(os.sep, "/")
    return fnmatch(shown, pattern.removeprefix("./")) or os.path.realpath(path) == os.path.realpath(pattern)
