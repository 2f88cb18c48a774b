"""What torch's profiler saw on an H200 (torch 2.11), recorded: two calls of each of some small models.

Rows are name, whether the host's, id, start, end, and the row of what it lies in; kernels are Inductor's.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from tcexplore.capture.inductor.profiler_tree import Seen
from tcexplore.events import Event, Kernel, KernelCall
from tcexplore.events.vocabulary import decode


@cache
def _recorded() -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(gzip.decompress(Path(__file__).with_name("h200_profile.json.gz").read_bytes()))
    return facts


def seen(case: str) -> list[Seen]:
    """The tree of one model's profile."""
    rows = _recorded()[case]["rows"]
    made = [Seen(name=name, host=host, id=number, start=start, end=end) for name, host, number, start, end, _ in rows]
    for event, (*_, parent) in zip(made, rows, strict=True):
        if parent is not None:
            event.parent = made[parent]
            made[parent].children.append(event)
    return made


def kernels(case: str) -> list[Kernel]:
    """The kernels of one model, their sources cut down to what names them."""
    return [
        Kernel(
            graph=found["graph"], phase=found["phase"], name=found["name"], language=found["language"],
            source="\n".join(found["defs"]), calls=tuple(KernelCall(order=order) for order in found["orders"]),
            bytes_read=found["bytes"][0], bytes_written=found["bytes"][1], flops=found["flops"],
            nodes=tuple(found["nodes"]), scheduler_nodes=tuple(found["scheduler_nodes"]),
        )
        for found in _recorded()[case]["kernels"]
    ]  # fmt: skip


def events(case: str) -> list[Event]:
    """What was made known of autotuning and CUDA graphs."""
    return [decode(json.dumps({"$": found["event"], **found}).encode()) for found in _recorded()[case]["events"]]
