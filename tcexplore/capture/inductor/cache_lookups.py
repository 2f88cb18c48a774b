"""Look-ups in torch's compile caches."""

from __future__ import annotations

import json
from functools import partial

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace, TraceEvent
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import CacheLookup

_CACHES = {"fx_graph_cache": "fx_graph", "aotautograd_cache": "aot_autograd"}
_OUTCOMES = ("hit", "miss", "bypass")


def install(hooks: Hooks, trace: StructuredTrace, project: UserFiles) -> None:  # noqa: ARG001
    """Emit a `CacheLookup` for each look-up that torch's trace tells of; a cache that is switched off makes none."""

    def looked_up(cache: str, outcome: str, event: TraceEvent) -> None:
        facts = json.loads(event.payload or "{}")
        reason = facts.get("cache_bypass_reason") or "" if isinstance(facts, dict) else ""
        hooks.emit(CacheLookup(graph=event.graph or "", cache=cache, outcome=outcome, reason=str(reason)))

    for prefix, cache in _CACHES.items():
        for outcome in _OUTCOMES:
            trace.subscribe("caches", f"{prefix}_{outcome}", partial(looked_up, cache, outcome))
