"""The guards of two cache entries against each other: which conditions one has and the other has not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tcexplore import events as ev
from tcexplore.session.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class GuardDiff:
    """One condition: in the first entry only (`after` is None), in the second only, or on the same thing in both."""

    before: ev.Guard | None
    after: ev.Guard | None


def guards_of(snapshot: Snapshot, graph: str) -> ev.GuardsInstalled | None:
    """The guards of the entry with this compile id."""
    return next((installed for installed in snapshot.guards if installed.graph == graph), None)


def guard_diff(one: ev.GuardsInstalled, other: ev.GuardsInstalled) -> tuple[GuardDiff, ...]:
    """What differs, except structural guards; first what both look at, then what only one does."""
    before, after = _by_what(one), _by_what(other)
    both = [key for key in before if key in after]
    changed = [GuardDiff(before[k], after[k]) for k in both if _said(before[k]) != _said(after[k])]
    gone = [GuardDiff(guard, None) for key, guard in before.items() if key not in after]
    new = [GuardDiff(None, guard) for key, guard in after.items() if key not in before]
    return (*changed, *_paired(gone, new))


def _paired(gone: list[GuardDiff], new: list[GuardDiff]) -> Iterator[GuardDiff]:
    """A guard of another kind on the same thing (`lr == 0.1`, then the type of `lr`) is one change."""
    left = list(new)
    for difference in gone:
        source = difference.before.source if difference.before else ""
        match = next((found for found in left if source and found.after and found.after.source == source), None)
        if match is not None:
            left.remove(match)
            yield GuardDiff(difference.before, match.after)
        else:
            yield difference
    yield from left


def _by_what(installed: ev.GuardsInstalled) -> dict[tuple[str, ...], ev.Guard]:
    return {_key(guard): guard for guard in installed.guards if not guard.structural}


def _key(guard: ev.Guard) -> tuple[str, ...]:
    """What a guard looks at; conditions on sizes belong to no object and are told apart by what they say."""
    return (guard.kind, guard.source) if guard.source else (guard.kind, *_said(guard))


def _said(guard: ev.Guard) -> tuple[str, ...]:
    return (guard.summary,) if guard.summary else guard.code
