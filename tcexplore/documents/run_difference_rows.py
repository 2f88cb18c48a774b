"""The difference of two runs, kernel by kernel: time, count and cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tcexplore.documents.document import Row
from tcexplore.documents.locations import display_path
from tcexplore.documents.prose import BLANK, heading, row, shortened, wrapped
from tcexplore.quantities import count, duration
from tcexplore.session.run_difference import Basis, Cause, PartDifference, RunDifference

BASES: dict[Basis, str] = {
    "graphs": "",
    "trial": "confirmed by a trial",
    "only difference": "the only setting that differs, not tried",
    "exclusion": "by exclusion: the code is equal",
}
"""How a cause is known."""

SHOWN = 12
"""Parts with rows of their own."""

NO_CAUSE = "cause unknown"


def difference_rows(difference: RunDifference, width: int) -> Iterator[Row]:
    """Yield the totals, the parts with their causes, then settings and libraries that differ."""
    yield from _totals(difference, width)
    listed = [part for part in difference.parts if _is_listed(part)]
    if listed:
        yield BLANK
        yield heading("by kernel", "the greatest difference first")
    for part in listed[:SHOWN]:
        yield from _part(part, width)
    if len(listed) > SHOWN:
        yield from wrapped(f"and {len(listed) - SHOWN} more (all in the JSON)", width, "muted")
    if equal := [part for part in difference.parts if part.is_noise]:
        text = f"{count(len(equal), 'part')} within the noise: their intervals overlap"
        yield from wrapped(text, width, "muted")
    yield from _environment(difference, width)


def _is_listed(part: PartDifference) -> bool:
    if part.group is not None and part.group.kind != "same":
        return True
    return bool(part.us) and not part.is_noise


def summary(difference: RunDifference) -> str:
    """Return the totals in one sentence."""
    kernels = [len(run.code.kernels) for run in (difference.before, difference.after)]
    texts = [f"kernels {kernels[0]} → {kernels[1]}"]
    if (total := difference.total_us) is not None:
        before, after = total
        share = f" ({(after / before - 1) * 100:+.0f}%)" if before else ""
        texts.insert(0, f"compiled call {_time(before)} → {_time(after)}{share}")
    changed = len(difference.changed)
    texts.append(
        f"{count(changed, 'group')} of kernels differ{'s' if changed == 1 else ''}" if changed else "equal code"
    )
    return " · ".join(texts)


def _totals(difference: RunDifference, width: int) -> Iterator[Row]:
    yield from wrapped(summary(difference), width, "strong")
    share, excluded = difference.attributed_share, difference.excluded_share
    if share is not None:
        part = f", {excluded * 100:.0f}% by exclusion" if excluded else ""
        yield from wrapped(f"{share * 100:.0f}% of the differences of time have a known cause{part}", width, "muted")
    elif difference.total_us is None:
        yield from wrapped("times are unknown: one of the runs was not timed", width, "muted")


def _part(part: PartDifference, width: int) -> Iterator[Row]:
    times = ""
    if part.us is not None and part.before_us is not None and part.after_us is not None:
        times = f"{'+' if part.us > 0 else '−'}{_time(abs(part.us))}  {_time(part.before_us)} → {_time(part.after_us)}"
    style = "" if part.is_noise or not part.us else "slower" if part.us > 0 else "faster"
    places = part.group.locations if part.group else ()
    where = (
        f"{display_path(places[0].file)}:{','.join(str(n) for n in sorted({p.line for p in places}))}" if places else ""
    )
    name = shortened(part.name, max(width - len(times) - 4, 24))
    yield row("  ", (f"{times}  " if times else "", style), (name, "strong"), rest=[(f"  {where}", "muted")],
              location=places[0] if places else None)  # fmt: skip
    yield from _cause(part.cause, width)


def _cause(cause: Cause | None, width: int) -> Iterator[Row]:
    if cause is None:
        yield from wrapped(NO_CAUSE, width, "muted", indent=6)
        return
    yield from wrapped(describe_cause(cause), width, "", indent=6)
    if cause.through is not None:
        yield from wrapped(f"through: {describe_cause(cause.through)}", width, "muted", indent=8)


def describe_cause(cause: Cause) -> str:
    """Return `setting · default torch._inductor.config.max_fusion_size: 64 → 1 · confirmed by a trial`."""
    return " · ".join(filter(None, (cause.kind, cause.text, BASES[cause.basis])))


def _environment(difference: RunDifference, width: int) -> Iterator[Row]:
    confirmed = {part.cause.name for part in difference.parts if part.cause and part.cause.kind == "setting"}
    rest = [setting for setting in difference.settings if setting.name not in confirmed]
    if rest:
        yield BLANK
        tried = "tried: no kernel changes back with them" if difference.tried else "not tried"
        yield heading("other settings that differ", tried)
        yield from _lines((setting.text for setting in rest), width)
    if difference.libraries:
        yield BLANK
        yield heading("libraries")
        yield from _lines((f"{name} {old} → {new}" for name, old, new in difference.libraries), width)


def _lines(texts: Iterable[str], width: int) -> Iterator[Row]:
    known = list(texts)
    for text in known[:SHOWN]:
        yield from wrapped(text, width, "muted", indent=3)
    if len(known) > SHOWN:
        yield from wrapped(f"and {len(known) - SHOWN} more (all in the JSON)", width, "muted", indent=3)


def _time(us: float) -> str:
    return duration(us / 1e6)
