"""A storm of recompiles in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tcexplore.events import EntryFound
from tcexplore.events.vary_spec import parse_all
from tcexplore.quantities import count, duration
from tcexplore.studies.recompiles.recompiles_result import PASSES, Trial

_TENSOR = re.compile(r"(?:(?P<name>\w+)=)?\w+\[\d")

HEAD = ("", "recompiles", "all calls once", "then a call")

FIXED_ELSEWHERE = (
    "What recompiled is no argument that could be changed from outside: read its guards, and make the value "
    "a tensor, or keep it as it is between calls."
)


def specs(text: str) -> tuple[str, ...]:
    """`x.0=1..64 lr=0.1,0.01` as one text for each argument. Raises `ValueError` with a sentence."""
    found = tuple(text.split())
    parse_all(found)
    return found


def suggested(entry: EntryFound | None, vary: Sequence[str]) -> str:
    """What the command line asked for, else some sizes of the first tensor of the file's one call."""
    if vary or entry is None or len(entry.calls) != 1:
        return " ".join(vary)
    for position, described in enumerate(entry.calls[0]):
        if found := _TENSOR.match(described):
            return f"{found['name'] or position}.0=1..16"
    return ""


def headline(first: Trial) -> str:
    """`22 calls, each made 3 times`."""
    return f"{count(first.calls, 'call')}, each made {PASSES} times"


def row(trial: Trial) -> tuple[str, str, str, str]:
    """The cells of a trial, as `HEAD` names them."""
    steady = trial.steady_us
    return (
        trial.treatment.name, str(trial.recompiles), duration(trial.total_s),
        "" if steady is None else duration(steady / 1e6),
    )  # fmt: skip


def why_not(trial: Trial) -> str:
    """Why a trial has no figures; empty where it has."""
    failed = trial.run.failure
    if failed is None:
        return ""
    hint = f" {failed.hint}" if failed.blame == "user" and "\n" not in failed.hint else ""
    return f"{failed.type}: {failed.message.partition(chr(10))[0]}{hint}"


def limit(trial: Trial) -> str:
    """That the recompile limit was reached; empty where it was not."""
    at = trial.gave_up_at
    return f"the recompile limit was reached at call {at}: from there on that frame ran eagerly" if at else ""


def padding(trial: Trial) -> tuple[str, str]:
    """A verdict and a sentence on what padding does to the results; both empty where nothing was padded."""
    judged = trial.run.padding_check
    if judged is None:
        return "", ""
    if judged.verdict == "not compared":
        return judged.verdict, f"results with padding were not compared with those without: {judged.reason}"
    apart = f" (largest difference {judged.max_abs:.2g})" if judged.max_abs else ""
    if judged.verdict == "equal":
        calls = count(judged.calls, "padded call")
        return judged.verdict, f"with what padding added cut off, {calls} gave what eager gives without it{apart}"
    return judged.verdict, f"padding changes the results: {judged.reason} is another than eager's without it{apart}"


def conclusions(trials: Sequence[Trial]) -> Iterator[str]:
    """What the figures come to, once there are several."""
    first, *others = trials
    if first.run.failure is not None:
        return
    if not first.recompiles and not first.gave_up_at:
        yield "no recompile: there is nothing to spare"
        return
    if not others:
        return
    right = [trial for trial in others if padding(trial)[0] != "different"]
    good = [trial for trial in right if trial.run.failure is None and trial.gave_up_at is None]
    better = [trial for trial in good if trial.recompiles < first.recompiles or first.gave_up_at]
    if not better:
        yield "none of what was tried spares a recompile"
        return
    least = min(trial.recompiles for trial in better)
    best = min((trial for trial in better if trial.recompiles == least), key=lambda trial: trial.total_s)
    yield (
        f"{best.treatment.name} spares most: {count(first.recompiles, 'recompile')} → {best.recompiles}, "
        f"{duration(first.total_s)} → {duration(best.total_s)} for all calls once"
    )
    steady = (first.steady_us, best.steady_us)
    if steady[0] is not None and steady[1] is not None:
        yield f"a call after that: {duration(steady[0] / 1e6)} → {duration(steady[1] / 1e6)}, medians of one pass"
