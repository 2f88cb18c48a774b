"""What of a compiled model can be kept, in words."""

from __future__ import annotations

from tcexplore.quantities import count, duration, size
from tcexplore.session import Snapshot
from tcexplore.session.run_figures import RunFigures
from tcexplore.studies.artifacts.artifacts_result import Shipped

CPP_COMPILER = "compile_file"
"""torch's span of one run of the C++ compiler."""


def saved(found: Shipped) -> str:
    """`saved 168 KiB: 1 aot_autograd, 1 inductor`."""
    artifacts = found.made.artifacts_saved
    if artifacts is None:
        return "this run saved no artifacts"
    if not artifacts.bytes:
        return "torch.compiler.save_cache_artifacts() had nothing to save: no graph went into a cache"
    return f"saved {size(artifacts.bytes)}: {', '.join(f'{number} {kind}' for kind, number in artifacts.kinds)}"


def side(run: Snapshot) -> str:
    """`first call 9.12 s, compiling 8.70 s; aot_autograd miss 1`."""
    cell = RunFigures(run)
    if cell.failure:
        return cell.failure
    first = "" if cell.first_call_s is None else f"first call {duration(cell.first_call_s)}"
    compiling = "" if cell.compile_s is None else f"compiling {duration(cell.compile_s)}"
    caches: dict[str, int] = {}
    for used in run.cache_lookups:
        caches[f"{used.cache} {used.outcome}"] = caches.get(f"{used.cache} {used.outcome}", 0) + 1
    looked = ", ".join(f"{name} ×{number}" for name, number in caches.items()) or "no cache was asked"
    return f"{', '.join(filter(None, (first, compiling)))}; {looked}"


def verdict(found: Shipped) -> str:
    """What loading them came to; empty before that is known."""
    if found.loaded is None or found.loaded.failure is not None or found.spared_s is None:
        return ""
    hits = count(found.hits, "hit") if found.hits else "no hit"
    what = f"{duration(found.spared_s)} spared" if found.spared_s > 0 else "nothing spared"
    return f"{hits} in the second worker, {what} at the first call"


def again(found: Shipped) -> str:
    """What the second worker's own compiler still had to do; empty where nothing, or before that is known."""
    files = [] if found.loaded is None else [span for span in found.loaded.phase_times if span.name == CPP_COMPILER]
    if not files:
        return ""
    took = duration(sum(span.seconds for span in files))
    return f"not in the artifacts: {count(len(files), 'C++ file')} compiled again by the second worker, {took}"
