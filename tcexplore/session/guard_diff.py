"""Difference between the guards of two cache entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tcexplore import events as ev
from tcexplore.session.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class GuardDiff:
    """A guard of one entry only (the other side is None), or two guards on the same value."""

    before: ev.Guard | None
    after: ev.Guard | None


def guards_of(snapshot: Snapshot, graph: str) -> ev.GuardsInstalled | None:
    """Return the guards of the entry with this compile id."""
    return next((installed for installed in snapshot.guards if installed.graph == graph), None)


def guard_diff(one: ev.GuardsInstalled, other: ev.GuardsInstalled) -> tuple[GuardDiff, ...]:
    """Return the differences, without structural guards: first values that both entries check, then the others."""
    before, after = _by_key(one), _by_key(other)
    both = [key for key in before if key in after]
    changed = [GuardDiff(before[k], after[k]) for k in both if _text(before[k]) != _text(after[k])]
    gone = [GuardDiff(guard, None) for key, guard in before.items() if key not in after]
    new = [GuardDiff(None, guard) for key, guard in after.items() if key not in before]
    return (*changed, *_paired(gone, new))


def _paired(gone: list[GuardDiff], new: list[GuardDiff]) -> Iterator[GuardDiff]:
    """Pair guards of different kinds on the same value: `lr == 0.1` and the type of `lr`."""
    left = list(new)
    for difference in gone:
        source = difference.before.source if difference.before else ""
        match = next((other for other in left if source and other.after and other.after.source == source), None)
        if match is not None:
            left.remove(match)
            yield GuardDiff(difference.before, match.after)
        else:
            yield difference
    yield from left


def _by_key(installed: ev.GuardsInstalled) -> dict[tuple[str, ...], ev.Guard]:
    return {_key(guard): guard for guard in installed.guards if not guard.structural}


def _key(guard: ev.Guard) -> tuple[str, ...]:
    """Return the identity of a guard; conditions on sizes have no source and are identified by their text."""
    return (guard.kind, guard.source) if guard.source else (guard.kind, *_text(guard))


def _text(guard: ev.Guard) -> tuple[str, ...]:
    return (guard.summary,) if guard.summary else guard.code
