"""What a run may not exceed, and the exit status that follows."""

from __future__ import annotations

from tcexplore.cli.request import Request
from tcexplore.cli.run_once import Outcome
from tcexplore.words.quantities import count

DONE, EXCEEDED, PERSON, COMPILER = 0, 1, 2, 3


def exceeded(request: Request, outcome: Outcome) -> tuple[str, ...]:
    """The limits that a run did not keep, each as a sentence."""
    found = []
    breaks = len(outcome.snapshot.breaks)
    if outcome.late:
        found.append(f"not finished after {request.timeout:g} s (--timeout)")
    if request.max_breaks is not None and breaks > request.max_breaks:
        found.append(f"{count(breaks, 'graph break')}, {request.max_breaks} allowed (--max-breaks)")
    if request.config.fullgraph and breaks:
        found.append(f"{count(breaks, 'graph break')}, none allowed (--fullgraph)")
    return tuple(found)


def status(request: Request, outcome: Outcome) -> int:
    """0 done and within limits, 1 a limit exceeded, 2 the person's file or arguments, 3 the compiler or the worker."""
    if exceeded(request, outcome):
        return EXCEEDED
    failed = outcome.snapshot.failed
    if failed is None:
        return DONE
    return PERSON if failed.blame == "person" else COMPILER
