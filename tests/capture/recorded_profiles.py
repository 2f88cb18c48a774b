"""Profiles of two calls of small models, recorded on an H200 with torch 2.11.

A row has the event's name, whether it is host work, id, start, end and its parent's row; kernels are Inductor's.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from tcexplore.capture.inductor.profiler_tree import ProfilerEvent
from tcexplore.events import Event, Kernel, KernelCall, decode


@cache
def _recorded() -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(gzip.decompress(Path(__file__).with_name("h200_profile.json.gz").read_bytes()))
    return facts


def events_of_call(case: str) -> list[ProfilerEvent]:
    """Return the tree of one model's profile."""
    rows = _recorded()[case]["rows"]
    events = [
        ProfilerEvent(name=name, host=host, id=number, start=start, end=end)
        for name, host, number, start, end, _ in rows
    ]
    for event, (*_, parent) in zip(events, rows, strict=True):
        if parent is not None:
            event.parent = events[parent]
            events[parent].children.append(event)
    return events


def kernels(case: str) -> list[Kernel]:
    """Return the kernels of one model; their sources have the function definitions only."""
    return [
        Kernel(
            graph=kernel["graph"], phase=kernel["phase"], name=kernel["name"], language=kernel["language"],
            source="\n".join(kernel["defs"]), calls=tuple(KernelCall(order=order) for order in kernel["orders"]),
            bytes_read=kernel["bytes"][0], bytes_written=kernel["bytes"][1], flops=kernel["flops"],
            nodes=tuple(kernel["nodes"]), scheduler_nodes=tuple(kernel["scheduler_nodes"]),
        )
        for kernel in _recorded()[case]["kernels"]
    ]  # fmt: skip


def events(case: str) -> list[Event]:
    """Return the events of autotuning and CUDA graphs."""
    return [decode(json.dumps({"$": event["event"], **event}).encode()) for event in _recorded()[case]["events"]]
