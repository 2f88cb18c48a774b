"""Inductor's events in torch's structured trace: wrapper code, cache lookups, kernel compile times, graph scripts."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.aten_graphs import compilation
from tcexplore.capture.structured_trace import StructuredTrace, TraceEvent
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import CacheLookup, CacheOutcome, Event, GraphScript, KernelCompiled, Wrapper
from tcexplore.torch_text import compile_workers
from tcexplore.torch_text.cache_key_text import CacheKeyReader

_CACHES = {"fx_graph_cache": "fx_graph", "aotautograd_cache": "aot_autograd"}
_OWN_PARTS = (
    "aot_config", "grad_enabled", "autocast_state", "saved_tensors_hooks_fx_wrap_cache_hashes",
    "sac_context_fn_hashes", "region_activation_memory_budget", "custom_estimator_solver_uuids",
)  # fmt: skip
"""Parts of AOTAutograd's keys that keys of Inductor's cache lack."""

_AOT_PARTS = "torch._functorch._aot_autograd.autograd_cache:_get_debug_lines_for_cache_key"

_OUTCOMES: tuple[CacheOutcome, ...] = ("hit", "miss", "bypass")
_TRITON_COMPILE_TIMES = "triton_kernel_compile_times_us"
_WORKER_RECORDS: dict[str, Callable[[str, str], Event | None]] = {
    compile_workers.STATUS: compile_workers.read_status,
    compile_workers.END: compile_workers.read_end,
    compile_workers.NATIVE_COMPILE: compile_workers.read_native_compile,
}
"""Parser by record, of torch 2.15."""


def install(hooks: Hooks, trace: StructuredTrace, user_files: UserFiles) -> None:  # noqa: ARG001
    """Emit wrappers, cache lookups, compile times of kernels, and reports of compile workers."""
    trace.subscribe("wrapper code", "inductor_output_code", partial(_emit_wrapper, hooks))
    for prefix, cache in _CACHES.items():
        for outcome in _OUTCOMES:
            trace.subscribe("caches", f"{prefix}_{outcome}", partial(_emit_lookup, hooks, cache, outcome))
    _install_cache_keys(hooks, trace)
    trace.subscribe("compile time of each kernel", "compilation_metrics", partial(_emit_compile_times, hooks))
    for name, read in _WORKER_RECORDS.items():
        trace.subscribe("reports of compile workers", name, partial(_emit_read, hooks, read))


def _install_cache_keys(hooks: Hooks, trace: StructuredTrace) -> None:
    """Emit a `CacheKey` for each cache lookup that has a key."""
    keys = CacheKeyReader()
    for prefix, cache in _CACHES.items():
        for outcome in _OUTCOMES:
            trace.subscribe("cache keys", f"{prefix}_{outcome}", partial(_emit_key, hooks, keys, cache))
    module, _, function = _AOT_PARTS.partition(":")
    if hasattr(import_module(module), function):  # an older torch always gives these parts
        hooks.wrap("parts of AOTAutograd's cache keys", _AOT_PARTS, partial(_with_own_parts, hooks))


def _with_own_parts(hooks: Hooks, original: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Give AOTAutograd's keys those parts that are quickly hashed; torch gives them only if it logs for debugging."""

    def debug_lines(pickler: Any, details: Any, key: str) -> list[str]:
        lines = original(pickler, details, key)
        if not lines:
            hooks.observe("cache keys", _AOT_PARTS, _add_own_parts, lines, pickler, details)
        return lines

    return debug_lines


def _add_own_parts(lines: list[str], pickler: Any, details: Any) -> None:
    parts = {name: value for name, value in vars(details).items() if name in _OWN_PARTS}
    settings = pickle.loads(details.autograd_config)  # torch has just pickled it
    lines += pickler.debug_lines(SimpleNamespace(**parts, functorch_config=settings))


def install_graph_scripts(hooks: Hooks, trace: StructuredTrace) -> None:
    """Emit a `GraphScript` for each graph that Inductor begins to compile: torch's own script to reproduce an error."""

    def emit(event: TraceEvent) -> None:
        hooks.emit(GraphScript(graph=event.graph or "", source=event.payload or ""))

    trace.subscribe("scripts of single graphs", "fx_graph_runnable", emit)


def _emit_wrapper(hooks: Hooks, event: TraceEvent) -> None:
    """Emit the generated module, before its C++ or Triton kernels are compiled."""
    from torch._inductor.virtualized import V

    graph, phase = compilation(V.graph)
    path = event.meta.get("file_path", "") if isinstance(event.meta, dict) else ""
    source, reused = event.payload or "", _reused_buffers(V.graph)
    hooks.emit(Wrapper(graph=event.graph or graph, phase=phase, source=source, path=path, reused=reused))


def _reused_buffers(lowering: Any) -> tuple[tuple[str, str], ...]:
    """Return pairs of a freed buffer and the buffer that reuses its memory, from the wrapper's planned lines."""
    lines = getattr(getattr(lowering, "wrapper_code", None), "lines", ())
    reuses = [line for line in lines if type(line).__name__ == "ReuseLine"]
    return tuple((line.node.get_name(), line.reused_as.get_name()) for line in reuses)


def _emit_lookup(hooks: Hooks, cache: str, outcome: CacheOutcome, event: TraceEvent) -> None:
    facts = json.loads(event.payload or "{}")
    reason = facts.get("cache_bypass_reason") or "" if isinstance(facts, dict) else ""
    hooks.emit(CacheLookup(graph=event.graph or "", cache=cache, outcome=outcome, reason=str(reason)))


def _emit_key(hooks: Hooks, keys: CacheKeyReader, cache: str, event: TraceEvent) -> None:
    facts = json.loads(event.payload or "{}")
    if isinstance(facts, dict) and (key := keys.read(event.graph or "", cache, facts)):
        hooks.emit(key)


def _emit_read(hooks: Hooks, read: Callable[[str, str], Event | None], event: TraceEvent) -> None:
    """Emit what a parser makes of a record, if anything. Another thread of torch may have written it."""
    if emitted := read(event.graph or "", event.payload or ""):
        hooks.emit(emitted)


def _emit_compile_times(hooks: Hooks, event: TraceEvent) -> None:
    """Emit the times that torch records: those of a graph's slowest Triton kernels, but no C++ kernels."""
    for name, microseconds in json.loads(event.meta.get(_TRITON_COMPILE_TIMES) or "[]"):
        hooks.emit(KernelCompiled(graph=event.graph or "", name=str(name), seconds=microseconds / 1e6))
