"""The artifacts study as a document: what was saved, and what loading it saves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tcexplore.documents.columns import columns
from tcexplore.documents.document import Row, Span
from tcexplore.documents.document_parts import StaticDocument
from tcexplore.documents.prose import BLANK, heading, wrapped
from tcexplore.documents.timing.state_dict_view import state_dict_rows
from tcexplore.quantities import count, duration, size
from tcexplore.session import Snapshot
from tcexplore.session.run_summary import RunFigures
from tcexplore.studies.artifacts.artifacts_result import CPP_COMPILER, ArtifactRuns, artifact_runs

INTENT = (
    "Your file is compiled in a process with empty caches, which then calls torch.compiler.save_cache_artifacts. A "
    "second process, also with empty caches, calls torch.compiler.load_cache_artifacts and then does the same."
)
CODE = ("artifacts, info = torch.compiler.save_cache_artifacts()", "torch.compiler.load_cache_artifacts(artifacts)")
"""The code that the user writes: after the first calls, and in the other process before them."""


def artifacts_document(results: Sequence[Snapshot], *, over: bool, width: int = 78) -> StaticDocument:
    """Return the document of the runs so far."""
    runs, rows = artifact_runs(results), list(wrapped(INTENT, width, "muted"))
    if runs is not None:
        rows += [BLANK, *_figures(runs), BLANK, *_conclusions(runs, width), BLANK, *_code(runs, width)]
        rows += [BLANK, *state_dict_rows(runs.saving, width)]
    if over and (runs is None or (runs.loading is None and runs.saved)):
        rows += [BLANK, *wrapped("Stopped before the second run.", width, "warn")]
    return StaticDocument("", tuple(rows))


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
    for run in (runs.saving, runs.loading):
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
    return f"Saved {size(artifacts.bytes)}: {', '.join(f'{number} {kind}' for kind, number in artifacts.kinds)}"


def _gain(runs: ArtifactRuns) -> str:
    """Return what loading the artifacts saves; empty before that is known."""
    saved = runs.first_call_saved_s
    if runs.loading is None or runs.loading.failure is not None:
        return ""
    hits = count(runs.hits, "hit") if runs.hits else "no hit"
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
        yield heading("Code", "save after the first calls; load in the other process before them")
        for line in CODE:
            yield from wrapped(line, width, "code.python")
