"""Keys of torch's compile caches, from the lines that torch logs of their parts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tcexplore.events.base import clean
from tcexplore.events.inductor_events import CacheKey, KeyPart

LONGEST_VALUE = 160
"""Characters of the value of a part."""

_COMPONENT = re.compile(r"\[([^\]]*)\] (.*?): ?(.*)", re.DOTALL)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class CacheKeyReader:
    """Reads the keys of one process. A key has hundreds of parts, of which the next key mostly shares all but a few."""

    def __init__(self) -> None:
        self._last: dict[str, dict[str, KeyPart]] = {}
        """Parts of the last key of each cache."""
        self._lines: dict[str, dict[str, KeyPart]] = {}
        """The same by line."""

    def read(self, graph: str, cache: str, facts: Mapping[str, Any]) -> CacheKey | None:
        """Return the key of a lookup, with the parts that the last key of this cache does not share."""
        key, lines = facts.get("key"), facts.get("components")
        if not isinstance(key, str) or not key or not isinstance(lines, list) or not lines:
            return None
        read = self._lines.get(cache, {})
        self._lines[cache] = {line: read.get(line) or read_part(line) for line in map(str, lines)}
        parts = {part.name: part for part in self._lines[cache].values()}
        last = self._last.get(cache, {})
        self._last[cache] = parts
        changed = tuple(part for name, part in parts.items() if (known := last.get(name)) is None or known != part)
        removed = tuple(name for name in last if name not in parts)
        return CacheKey(graph=graph, cache=cache, key=clean(key), parts=changed, removed=removed)


def key_digests(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the hash of each part of a key."""
    lines = facts.get("components")
    return {part.name: part.digest for part in map(read_part, map(str, lines if isinstance(lines, list) else ()))}


def read_part(line: str) -> KeyPart:
    """Return the part of `[hash] inductor_config[cpp.simdlen]: None`, without addresses, which differ by run."""
    match = _COMPONENT.match(line)
    if match is None:
        return KeyPart(clean(line[:LONGEST_VALUE]), "", "")
    value = clean(_ADDRESS.sub("", match[3][: 2 * LONGEST_VALUE]))
    value = value if len(value) <= LONGEST_VALUE else value[:LONGEST_VALUE] + "…"
    return KeyPart(clean(match[2]), value, match[1][:12])
