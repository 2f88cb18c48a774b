"""Accuracy and memory, as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from tcexplore import events as ev
from tcexplore.documents.timing.accuracy_rows import describe_accuracy
from tcexplore.session import Snapshot
from tcexplore.session.saved_tensors import saved_for_backward

Fields = dict[str, Any]


def accuracy(found: ev.Accuracy | None) -> Fields | None:
    """The judgement with the figures of every value; null where no comparison was made."""
    if found is None or (found.verdict == "not judged" and not found.calls):
        return None
    fields = _own(found)
    return {**fields, "sentence": describe_accuracy(found), "values": [_finite(value) for value in fields["values"]]}


def memory(snapshot: Snapshot) -> Fields | None:
    """Bytes, by the method that is named; null where nothing was measured."""
    found = snapshot.memory
    if found is None:
        return None
    names = {"weights", "inputs", "eager_peak", "compiled_peak", "compiling_adds", "saved"}
    fields = {f"{name}_bytes" if name in names else name: value for name, value in _own(found).items()}
    return {
        **fields,
        "saved_compiled_bytes": saved_for_backward(snapshot) if found.saved_for_backward is not None else None,
    }


def _own(event: ev.Event) -> Fields:
    return {name: value for name, value in _finite(asdict(event)).items() if name not in ("run", "rank")}


def _finite(fields: Fields) -> Fields:
    """Lists for tuples, and no infinity: JSON has neither."""
    return {name: _plain(value) for name, value in fields.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return list(value) if isinstance(value, tuple) else value
