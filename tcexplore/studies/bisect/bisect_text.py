"""The verdict of the ladder in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from tcexplore.documents.timing.accuracy_rows import describe_accuracy
from tcexplore.studies.bisect.bisect_result import EAGER, BisectStep, culprit

NOBODY = "No layer is to blame: compiled runs, and the results are as good as eager's."
OWN = "It fails without any compiler: your own code, or its inputs, are at fault."


def verdict(steps: Sequence[BisectStep]) -> str:
    """Which layer is to blame, of a ladder that was climbed as far as it goes."""
    guilty = culprit(tuple(steps))
    if guilty is None:
        return NOBODY
    return OWN if guilty.rung is EAGER else f"To blame: {guilty.rung.layer}. Everything below it works."


def unjudged(steps: Sequence[BisectStep]) -> str:
    """That results were not compared, and why; empty where they were, or a layer is to blame."""
    found = next((s.run.accuracy for s in steps if s.run.accuracy and s.run.accuracy.verdict == "not judged"), None)
    return f"But {describe_accuracy(found)}." if found is not None and culprit(tuple(steps)) is None else ""
