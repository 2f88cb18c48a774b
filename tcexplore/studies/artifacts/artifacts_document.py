"""The artifacts study as a document: what was saved, and what loading it saves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tcexplore.documents.document import Row, Span, StaticDocument
from tcexplore.documents.prose import BLANK, columns, heading, wrapped
from tcexplore.documents.timing.accuracy_rows import ACCURACY_STYLES
from tcexplore.documents.timing.state_dict_view import state_dict_rows
from tcexplore.events.config import Shipping
from tcexplore.quantities import count, duration, size
from tcexplore.session import Snapshot
from tcexplore.session.economics import RunFigures
from tcexplore.studies.artifacts.artifacts_result import (
    CPP_COMPILER,
    ArtifactRuns,
    ShipRun,
    artifact_runs,
    count_lookups,
    key_differences,
    ready_s,
)

INTENT = (
    "Your file is compiled in a process with empty caches, which saves the compiled code. A second process, also with "
    "empty caches, loads it and makes the same calls. A third one does so with settings of another machine."
)
CODE: dict[Shipping, tuple[str, ...]] = {
    "cache": (
        "artifacts, info = torch.compiler.save_cache_artifacts()", "torch.compiler.load_cache_artifacts(artifacts)",
    ),
    "precompile": (
        "torch._dynamo.config.caching_precompile = True", "artifacts, info = torch.compiler.save_cache_artifacts()",
        "torch.compiler.load_cache_artifacts(artifacts)",
    ),
    "aot_compile": (
        "torch.compile(model.forward, fullgraph=True).aot_compile((args, kwargs)).save_compiled_function(file)",
        "torch.compiler.load_compiled_function(open(file, 'rb'))(model, *args)",
    ),
    "precompile_capture": (
        "with torch.compiler.precompile.capture(lambda model, x: model(x), artifact_path='m.py', cache_path='m.cache') "
        "as captured:",
        "    captured(model, x)",
        "torch.compiler.precompile.load('m.py', 'm.cache')(model, x)",
    ),
    "aotinductor": (
        "torch._inductor.aoti_compile_and_package(torch.export.export(model, args, kwargs), package_path=file)",
        "torch._inductor.aoti_load_package(file)(*args)",
    ),
}  # fmt: skip
"""The code that the user writes: in the process that saves, and in the one that loads."""

NAMES: dict[Shipping, str] = {
    "cache": "cache artifacts", "precompile": "caching_precompile", "aot_compile": "aot_compile",
    "precompile_capture": "precompile.capture", "aotinductor": "AOTInductor",
}  # fmt: skip

HEAD = ("way", "saves", "size", "guards", "loads", "caches", "result", "other settings")

FAILED = (Span("✖ failed", "error"),)

DIFFERENCES_SHOWN = 5


def artifacts_document(
    results: Sequence[ShipRun],
    ways: Sequence[Shipping],
    missing: Mapping[Shipping, str],
    *,
    over: bool,
    width: int = 78,
) -> StaticDocument:
    """Return the document of the runs so far; `missing` are the ways that this torch lacks, with the reason."""
    shipped = [runs for way in ways if (runs := artifact_runs(results, way)) is not None]
    rows = list(wrapped(INTENT, width, "muted"))
    if len(ways) > 1 and (shipped or missing):
        cells = [_way_cells(runs) for runs in shipped] + [_missing_cells(way) for way in missing]
        rows += [BLANK, *columns(HEAD, cells, [()] * len(cells), left=(0, 5, 6, 7))]
        rows += wrapped("saves, loads: until the end of the first call", width, "muted")
    rows += [row for way, reason in missing.items() for row in wrapped(f"{NAMES[way]}: {reason}.", width, "warn")]
    for runs in shipped:
        rows += [BLANK, heading(NAMES[runs.way], "")] if len(ways) > 1 else [BLANK]
        if runs.way in ("cache", "precompile"):
            rows += [*_figures(runs), BLANK]
        rows += [*_conclusions(runs, width), *_key_differences(runs, width), BLANK, *_code(runs, width)]
    keys = next((ship.run for ship in results if ship.run.state_keys), None)
    rows += [BLANK, *state_dict_rows(keys, width)] if keys is not None else []
    if over and (not (shipped or missing) or any(runs.loading is None and runs.saved for runs in shipped)):
        rows += [BLANK, *wrapped("Stopped before the second run.", width, "warn")]
    return StaticDocument("", tuple(rows))


def _way_cells(runs: ArtifactRuns) -> list[tuple[Span, ...]]:
    saved, loading = runs.saving.artifacts_saved, runs.loading
    accuracy = loading.accuracy.verdict if loading is not None and loading.accuracy else ""
    if RunFigures(runs.saving).failure:
        return [(Span(NAMES[runs.way], "strong"),), FAILED, *[()] * (len(HEAD) - 2)]
    return [
        (Span(NAMES[runs.way], "strong"),),
        _seconds(ready_s(runs.saving)),
        (Span(size(saved.bytes) if saved else ""),),
        (Span("" if runs.guards is None else str(runs.guards)),),
        FAILED if loading and loading.failure else _seconds(ready_s(loading) if loading else None),
        (Span(_outcomes(loading)),),
        (Span(accuracy, ACCURACY_STYLES.get(accuracy, "warn")),),
        _other(runs.other),
    ]


def _missing_cells(way: Shipping) -> list[tuple[Span, ...]]:
    return [(Span(NAMES[way], "strong"),), (Span("missing", "muted"),), *[()] * (len(HEAD) - 2)]


def _other(run: Snapshot | None) -> tuple[Span, ...]:
    if run is None:
        return ()
    return FAILED if run.failure else (Span(_outcomes(run) or "loads"),)


def _seconds(seconds: float | None) -> tuple[Span, ...]:
    return (Span("" if seconds is None else duration(seconds)),)


def _outcomes(run: Snapshot | None) -> str:
    """Return `hit ×2, miss ×1`."""
    outcomes = Counter(lookup.outcome for lookup in run.cache_lookups) if run is not None else {}
    return ", ".join(f"{outcome} ×{number}" for outcome, number in outcomes.items())


def _key_differences(runs: ArtifactRuns, width: int) -> Iterator[Row]:
    if runs.other is None or not runs.other.cache_lookups:
        return
    differences = key_differences(runs.saving, runs.other)
    if not count_lookups(runs.other, "miss"):
        yield from wrapped("With the other settings: no miss.", width, "ok")
        return
    yield from wrapped(f"With the other settings: {_outcomes(runs.other)}. The keys differ in:", width, "warn")
    for different in differences[:DIFFERENCES_SHOWN]:
        text = f"  {different.cache}: {different.part}: {different.saved or 'absent'} → {different.loaded or 'absent'}"
        yield from wrapped(text, width)
    if len(differences) > DIFFERENCES_SHOWN:
        yield from wrapped(f"  and {len(differences) - DIFFERENCES_SHOWN} more", width, "muted")
    if not differences:
        yield from wrapped("  no part that torch shows", width, "muted")


def _figures(runs: ArtifactRuns) -> Iterator[Row]:
    saving, loading = RunFigures(runs.saving), RunFigures(runs.loading) if runs.loading is not None else None
    rows = [
        _row("first call", saving.first_call_s, loading.first_call_s if loading else None),
        _row("compiling", saving.compile_s, loading.compile_s if loading else None),
    ]
    if runs.loading is not None and runs.loading.artifacts_loaded is not None:
        rows.append(_row("loading", None, runs.loading.artifacts_loaded.seconds))
    both = [run for run in (runs.saving, runs.loading) if run is not None]
    for cache in dict.fromkeys(lookup.cache for run in both for lookup in run.cache_lookups):
        cells = [_lookups(run, cache) for run in both]
        rows.append([(Span(f"{cache} cache"),), *((Span(text, "muted"),) for text in (*cells, "")[:2])])
    rows = [cells for cells in rows if any(span.text for cell in cells[1:] for span in cell)]
    yield from columns(("", "saves", "loads"), rows, [()] * len(rows))


def _row(name: str, saving: float | None, loading: float | None) -> list[tuple[Span, ...]]:
    seconds = ("" if value is None else duration(value) for value in (saving, loading))
    return [(Span(name),), *((Span(text, "strong"),) for text in seconds)]


def _lookups(run: Snapshot, cache: str) -> str:
    """Return `miss ×2, hit ×1`."""
    outcomes = Counter(lookup.outcome for lookup in run.cache_lookups if lookup.cache == cache)
    return ", ".join(f"{outcome} ×{number}" for outcome, number in outcomes.items())


def _conclusions(runs: ArtifactRuns, width: int) -> Iterator[Row]:
    yield from wrapped(_saved(runs), width, "ok" if runs.saved else "warn")
    for run in (runs.saving, runs.loading, runs.other):
        if run is not None and RunFigures(run).failure:
            yield from wrapped(RunFigures(run).failure, width, "error", lead="✖ ")
    for sentence in filter(None, (_gain(runs), _recompiled_files(runs))):
        yield from wrapped(sentence, width, "strong")


def _saved(runs: ArtifactRuns) -> str:
    """Return `Saved 168 KiB: 1 aot_autograd, 1 inductor`."""
    artifacts = runs.saving.artifacts_saved
    if artifacts is None:
        return "This run saved no artifacts."
    if not artifacts.bytes:
        return "torch.compiler.save_cache_artifacts() has nothing to save: no graph is in a cache."
    kinds = ", ".join(f"{number} {kind}" for kind, number in artifacts.kinds)
    return f"Saved {size(artifacts.bytes)}{': ' if kinds else ''}{kinds}"


def _gain(runs: ArtifactRuns) -> str:
    """Return what loading the artifacts saves; empty before that is known."""
    saved = runs.first_call_saved_s
    if runs.loading is None or runs.loading.failure is not None:
        return ""
    hits = (count(runs.hits, "hit") if runs.hits else "no hit") if runs.loading.cache_lookups else "no cache lookup"
    if saved is None:
        return f"Second process: {hits}"
    return f"Second process: {hits}, first call {f'{duration(saved)} faster' if saved > 0 else 'not faster'}"


def _recompiled_files(runs: ArtifactRuns) -> str:
    """Return what the second process still compiled; empty without such files, or before that is known."""
    files = [] if runs.loading is None else [span for span in runs.loading.phase_times if span.name == CPP_COMPILER]
    if not files:
        return ""
    seconds = duration(sum(span.seconds for span in files))
    return f"Not in the artifacts: the second process compiles {count(len(files), 'C++ file')} again, {seconds}"


def _code(runs: ArtifactRuns, width: int) -> Iterator[Row]:
    if runs.saved:
        keyed = runs.way in ("cache", "precompile")
        when = "save after the first calls; load in the other process before them"
        yield heading("Code", when if keyed else "save in one process, load in the other")
        for line in CODE[runs.way]:
            yield from wrapped(line, width, "code.python")
