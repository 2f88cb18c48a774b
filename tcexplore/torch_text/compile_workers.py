"""torch's reports on its compile workers, and on kernels in other languages that its own ops compile (torch 2.15)."""

from __future__ import annotations

import json
import re
from typing import Any

from tcexplore.events import CompileWorkerReport, KernelCompiled, clean

STATUS = "compile_worker_status"
END = "compile_worker_sidecar_death"
NATIVE_COMPILE = "native_dsl_compile"
"""Kinds of artifacts."""

_ENDED = re.compile(r"sidecar pid=(\d+) returncode=(-?\d+)")


def read_status(graph: str, payload: str) -> CompileWorkerReport | None:
    """Return the report on a job; torch gives the graph in the payload, since another thread writes the record."""
    facts = _json(payload)
    if facts is None:
        return None
    return CompileWorkerReport(
        graph=graph or clean(str(facts.get("compile_id") or "")), job=_number(facts, "job_id", int),
        phase=clean(str(facts.get("phase") or "")), seconds=_number(facts, "elapsed_s", float),
        phase_seconds=_number(facts, "phase_elapsed_s", float), pid=_number(facts, "worker_pid", int),
    )  # fmt: skip


def read_end(graph: str, payload: str) -> CompileWorkerReport:
    """Return that all workers ended, with their last output."""
    match = _ENDED.match(payload)
    pid, status = (int(match[1]), int(match[2])) if match else (None, None)
    text = clean(payload.partition("\n\n")[2].strip())
    return CompileWorkerReport(graph=graph, job=None, phase="ended", seconds=None, pid=pid, status=status, text=text)


def read_native_compile(graph: str, payload: str) -> KernelCompiled | None:
    """Return the compile of a native op's kernel; None for a call that found its kernel in a cache, or failed."""
    facts = _json(payload)
    milliseconds = None if facts is None else _number(facts, "wall_ms", float)
    if facts is None or milliseconds is None or not facts.get("compiled"):
        return None
    name = clean(f"{facts.get('op')} ({facts.get('dsl')})")
    return KernelCompiled(graph=graph, name=name, seconds=milliseconds / 1e3)


def _json(payload: str) -> dict[str, Any] | None:
    facts = json.loads(payload or "null")
    return facts if isinstance(facts, dict) else None


def _number(facts: dict[str, Any], key: str, kind: type[int] | type[float]) -> Any:
    value = facts.get(key)
    return kind(value) if isinstance(value, int | float) else None
