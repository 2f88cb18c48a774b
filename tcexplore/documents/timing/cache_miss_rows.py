"""Why lookups in torch's compile caches missed: the nearest earlier key, and what differs from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcexplore import events as ev
from tcexplore.documents.document import Row
from tcexplore.documents.locations import Places
from tcexplore.documents.prose import row, wrapped
from tcexplore.quantities import count
from tcexplore.session.cache_misses import ELSEWHERE
from tcexplore.session.links import line_links

SHOWN = 4
"""Parts of a key that are listed."""

MISSES_SHOWN = 8


def cache_miss_rows(misses: Sequence[ev.CacheMissed], where: Places, width: int) -> Iterator[Row]:
    """Yield each miss with the parts of its key that differ, the most probable cause first."""
    for miss in misses[:MISSES_SHOWN]:
        yield from wrapped(describe_miss(miss), width, "warn")
        for difference in miss.differences[:SHOWN]:
            yield from _difference(difference, where, width)
        if len(miss.differences) > SHOWN:
            yield row((f"   and {len(miss.differences) - SHOWN} more parts", "muted"))
    if len(misses) > MISSES_SHOWN:
        yield row((f" and {count(len(misses) - MISSES_SHOWN, 'more lookup')}", "muted"))


def describe_miss(miss: ev.CacheMissed) -> str:
    """Return `0/1 misses in the fx_graph cache: its key differs from that of 0/0 in inductor_config[max_autotune]`."""
    caches = " and ".join(miss.caches)
    noun = "cache" if len(miss.caches) == 1 else "caches"
    run = f" in {miss.nearest_run}" if miss.nearest_run else ""
    what = f"in {miss.differences[0].part}" if miss.differences else "in no part that torch shows"
    return f"{miss.graph} misses in the {caches} {noun}: its key differs from that of {miss.nearest_graph}{run} {what}"


def _difference(difference: ev.KeyDifference, where: Places, width: int) -> Iterator[Row]:
    at = difference.location
    place = where.describe(at) if at is not None else ELSEWHERE.get(difference.part, "no line of the program sets it")
    text = f"{difference.part}: {difference.before or 'absent'} → {difference.after or 'absent'}  {place}"
    yield from wrapped(text, width, "muted", indent=3, links=line_links(at), location=at)
