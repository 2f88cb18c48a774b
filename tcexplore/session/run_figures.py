"""One run among others, in the figures that they are compared by."""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore.session.economics import economics
from tcexplore.session.run_summary import RunSummary, summarize
from tcexplore.session.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class RunFigures:
    """A finished run; its figures come from the run itself. `why` says why it failed, empty where it did not."""

    run: Snapshot

    @property
    def failure(self) -> str:
        failed = self.run.failure
        return "" if failed is None else f"{failed.type}: {failed.message.strip().partition(chr(10))[0]}"

    @property
    def summary(self) -> RunSummary:
        return summarize(self.run)

    @property
    def compile_s(self) -> float | None:
        """Seconds that torch's own log gives for compiling."""
        return economics(self.run).compile_s

    @property
    def first_call_s(self) -> float | None:
        """Seconds of the first compiled call."""
        return economics(self.run).first_call_s

    @property
    def max_abs(self) -> float | None:
        """The largest difference to eager."""
        return self.run.accuracy.max_abs if self.run.accuracy else None

    @property
    def peak_bytes(self) -> int | None:
        """Bytes that compiled takes at the peak of a call."""
        return self.run.memory.compiled_peak if self.run.memory else None


def is_faster(cell: RunFigures) -> bool:
    """Whether compiled is faster than eager, and gives its result."""
    return cell.run.timing is not None and cell.run.timing.verdict == "faster" and not cell.summary.wrong


def may_be_faster(cell: RunFigures) -> bool:
    """Whether it may be that compiled is faster, and is not known."""
    timing = cell.run.timing
    return timing is not None and timing.verdict in ("undecided", "measuring") and timing.high > 1
