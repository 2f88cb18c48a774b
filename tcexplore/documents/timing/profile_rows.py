"""Rows of the timing pane about a profile: its steps, ranks side by side, and what is on no line."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore import events as ev
from tcexplore.documents.document import Row, Span
from tcexplore.documents.prose import BLANK, Column, heading, row, shortened, table, wrapped
from tcexplore.documents.timing.device_rows import shorten_device_function
from tcexplore.quantities import count, duration
from tcexplore.session import Snapshot

LISTED = 30
"""Names with reasons that are shown; the report as JSON has all."""


def profile_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the steps, the ranks, and what is on no line."""
    profile = snapshot.profile
    if profile is None:
        return
    yield heading("Steps of the profile", profile.device or "CPU")
    yield from _step_rows(profile)
    for step in profile.steps:
        if step.odd:
            yield from wrapped(f"{step.name} is {step.odd}.", width, "changed")
    if snapshot.profiled_ranks is not None:
        yield BLANK
        yield from _rank_rows(snapshot.profiled_ranks, width)
    yield BLANK
    yield heading("On a line of your files")
    compiled, other = profile.compiled_us, profile.work_us - profile.compiled_us
    yield from _share(profile.compiled_on_lines_us, compiled, "of compiled code")
    yield from _share(profile.work_on_lines_us - profile.compiled_on_lines_us, other, "outside compiled code")
    yield from _share(profile.work_on_lines_us, profile.work_us, "in total, over all steps")
    if profile.unread:
        yield from wrapped(f"{count(profile.unread, 'event')} of the profile cannot be read.", width, "muted")
    if profile.unjoined:
        yield BLANK
        yield from _unjoined_rows(profile, width)


def _share(us: float, whole: float, name: str) -> Iterator[Row]:
    if whole:
        yield row(f" {us / whole:>6.1%}  ", (f"of {duration(whole / 1e6)} {name}", "muted"))


def _step_rows(profile: ev.ProfileRead) -> Iterator[Row]:
    columns: list[Column[ev.ProfiledStep]] = [
        Column("step", lambda step: step.name, left=True),
        Column("time", lambda step: duration(step.us / 1e6)),
        Column(
            "device busy",
            lambda step: (
                None if step.device_us is None else f"{duration(step.device_us / 1e6)} {step.device_us / step.us:>4.0%}"
            ),
        ),
        Column("tasks", lambda step: step.tasks or None),
        Column(
            "",
            lambda step: Span("median: shown in all panes", "muted") if step.name == profile.median else None,
            left=True,
        ),
    ]
    yield from table(columns, profile.steps)


def _rank_rows(ranks: ev.RanksProfiled, width: int) -> Iterator[Row]:
    yield heading("Ranks", "median step of each; collectives and waiting in the mean of a step")
    columns: list[Column[ev.ProfiledRank]] = [
        Column("rank", lambda known: known.rank),
        Column("time", lambda known: duration(known.us / 1e6)),
        Column("device busy", lambda known: None if known.device_us is None else duration(known.device_us / 1e6)),
        Column("collectives", lambda known: duration(known.communication_us / 1e6)),
        Column("waiting", lambda known: duration(known.waiting_us / 1e6) if known.waiting_us else None),
        Column("for", lambda known: None if known.waits_for is None else f"rank {known.waits_for}", left=True),
        Column("profile", lambda known: known.path, left=True),
    ]
    yield from table(columns, ranks.ranks)
    longest = max(ranks.ranks, key=lambda known: known.waiting_us)
    if longest.waiting_us:
        text = (
            f"Rank {longest.rank} waits {duration(longest.waiting_us / 1e6)} of a step in collectives for rank "
            f"{longest.waits_for}: a collective ends when its last rank has arrived, whose own takes the shortest."
        )
        yield from wrapped(text, width, "muted")


def _unjoined_rows(profile: ev.ProfileRead, width: int) -> Iterator[Row]:
    yield heading("On no line", "time in all steps")
    reasons = dict.fromkeys(item.reason for item in profile.unjoined)
    shown = 0
    for reason in reasons:
        own = [item for item in profile.unjoined if item.reason == reason]
        if reason:
            total = duration(sum(item.us for item in own) / 1e6)
            yield from wrapped(f"{total}: {reason}", width, "strong")
        for item in own:
            if shown == LISTED:
                yield row((f"   {count(len(profile.unjoined) - LISTED, 'more name')}", "muted"))
                return
            shown += 1
            name = shortened(shorten_device_function(item.name), max(width - 24, 20))
            times = f" ×{item.count}" if item.count > 1 else ""
            yield row((f"   {duration(item.us / 1e6):>9}  ", "muted"), name, (times, "dim"))
