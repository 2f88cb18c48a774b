"""The artifacts study: compiled code saved by one process and loaded by another, in each way that torch has."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

from tcexplore import events as ev
from tcexplore.argument_types import name, one_of, several
from tcexplore.documents.document import Document, Row, Span, StaticDocument
from tcexplore.documents.prose import BLANK, FAILED, Column, columns, heading, json_values, table, wrapped
from tcexplore.documents.timing.accuracy_rows import ACCURACY_STYLES
from tcexplore.documents.timing.state_dict_view import state_dict_rows
from tcexplore.events import Job, Standby
from tcexplore.events.config import IN_CACHES, SHIPPING, Shipping
from tcexplore.quantities import count, duration, size
from tcexplore.report.json_records import fields
from tcexplore.report.json_report import failure
from tcexplore.session import Snapshot
from tcexplore.session.cache_misses import cache_misses
from tcexplore.session.economics import RunFigures
from tcexplore.session.links import line_links
from tcexplore.studies.runs import RefusedError, Runs, failure_status
from tcexplore.studies.study import Announce, Study, StudyState
from tcexplore.studies.study_json import Fields

CPP_COMPILER = "compile_file"
"""torch's name for the span of one call of the C++ compiler."""

SINCE_TORCH_2_15: dict[Shipping, str] = {"precompile_capture": "torch.compiler.precompile.capture"}
"""Ways that are new in torch 2.15, each with its API. `Standby.features` has them if this torch does."""

ShipStep = Literal["saving", "loading", "other settings"]
SHIP_STEPS: tuple[ShipStep, ...] = get_args(ShipStep)


class ShipRun(NamedTuple):
    """One run of the study."""

    way: Shipping
    step: ShipStep
    run: Snapshot


@dataclass(frozen=True, slots=True)
class ArtifactRuns:
    """The runs of one way: the one that saves, and those that load once it is finished."""

    way: Shipping
    saving: Snapshot
    loading: Snapshot | None = None
    other: Snapshot | None = None
    """With other settings than `saving`."""

    @property
    def saved_bytes(self) -> int | None:
        """Return the size of what was saved; None if nothing was to be saved."""
        return self.saving.artifacts_saved.bytes if self.saving.artifacts_saved is not None else None

    @property
    def saved(self) -> bool:
        """Return whether anything was saved."""
        return bool(self.saved_bytes)

    @property
    def hits(self) -> int:
        """Return the number of cache hits in the second run."""
        return 0 if self.loading is None else count_lookups(self.loading, "hit")

    @property
    def first_call_saved_s(self) -> float | None:
        """Return the seconds that loading saves until the end of the first call; None before both are finished."""
        if self.loading is None:
            return None
        saving, loading = ready_s(self.saving), ready_s(self.loading)
        return None if saving is None or loading is None else saving - loading

    @property
    def guards(self) -> int | None:
        """Return the number of guards that loaded code checks; None if unknown."""
        saved = self.saving.artifacts_saved
        if saved is not None and saved.guards is not None:
            return saved.guards
        return sum(len(installed.guards) for installed in self.saving.guards) or None


def ready_s(run: Snapshot) -> float | None:
    """Return the seconds of the first call, with what is compiled or loaded ahead of it; None without a call."""
    first, saved, loaded = RunFigures(run).first_call_s, run.artifacts_saved, run.artifacts_loaded
    if first is None:
        return None
    compiled_ahead = saved.seconds if saved is not None and saved.guards is not None else 0.0
    return first + compiled_ahead + (loaded.seconds if loaded else 0.0)


def count_lookups(run: Snapshot, outcome: str) -> int:
    return sum(lookup.outcome == outcome for lookup in run.cache_lookups)


def key_differences(saving: Snapshot, loading: Snapshot) -> tuple[ev.KeyDifference, ...]:
    """Return the parts of cache keys that differ, of graphs that both processes looked up."""
    differences = (difference for miss in cache_misses(loading, saving) for difference in miss.differences)
    return tuple({difference.part: difference for difference in differences}.values())


def missing_ways(machine: Standby | None, ways: Sequence[Shipping]) -> dict[Shipping, str]:
    """Return the ways that this torch does not have, each with the reason."""
    if machine is None or not machine.features:
        return {}
    lacking = ((way, name) for way, name in SINCE_TORCH_2_15.items() if way in ways and way not in machine.features)
    return {way: f"torch {machine.torch} has no {name}, which is new in torch 2.15" for way, name in lacking}


def artifact_runs(runs: Sequence[ShipRun], way: Shipping = "cache") -> ArtifactRuns | None:
    """Return the runs of a way; None before the first is finished."""
    by_step = {ship.step: ship.run for ship in runs if ship.way == way}
    if "saving" not in by_step:
        return None
    return ArtifactRuns(way, by_step["saving"], by_step.get("loading"), by_step.get("other settings"))


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

DIFFERENCES_SHOWN = 5


def _run_fields(run: Snapshot) -> Fields:
    figures, loaded = RunFigures(run), run.artifacts_loaded
    return {
        "error": failure(run.failure),
        "first_call_s": figures.first_call_s,
        "compile_s": figures.compile_s,
        "load_s": loaded.seconds if loaded else None,
        "caches": [
            {"cache": lookup.cache, "outcome": lookup.outcome, "reason": lookup.reason} for lookup in run.cache_lookups
        ],
        "cpp_compiler_s": sum(span.seconds for span in run.phase_times if span.name == CPP_COMPILER),
    }


def _other_fields(runs: ArtifactRuns) -> Fields | None:
    other = runs.other
    if other is None:
        return None
    return {
        **_run_fields(other),
        "hits": count_lookups(other, "hit"),
        "misses": count_lookups(other, "miss"),
        "key_differences": [fields("key_difference", one) for one in key_differences(runs.saving, other)],
    }


class WayRuns(NamedTuple):
    """A way with its runs (None before any), or why this torch lacks it."""

    way: Shipping
    runs: ArtifactRuns | None
    missing: str | None = None


def _of(value: Callable[[ArtifactRuns], Any]) -> Callable[[WayRuns], Any]:
    """Return a function of a way that applies `value` to its runs."""
    return lambda row: value(row.runs) if row.runs is not None else None


def _of_loading(value: Callable[[Snapshot], Any]) -> Callable[[WayRuns], Any]:
    return _of(lambda runs: value(runs.loading) if runs.loading is not None else None)


COLUMNS: tuple[Column[WayRuns], ...] = (
    Column("way", lambda row: Span(NAMES[row.way], "strong"), left=True, always=True),
    Column(None, lambda row: row.way, key="way"),
    Column(None, lambda row: row.missing, key="missing"),
    Column("saves", _of(lambda runs: ready_s(runs.saving)), duration),
    Column("size", _of(lambda runs: runs.saved_bytes), size, key="saved_bytes"),
    Column(None, _of(lambda runs: saved.seconds if (saved := runs.saving.artifacts_saved) else None), key="save_s"),
    Column("guards", _of(lambda runs: runs.guards), key="guards"),
    Column(None, _of(lambda runs: ready_s(runs.saving)), key="ready_saving_s"),
    Column("loads", _of_loading(lambda run: FAILED if run.failure else _seconds(run))),
    Column(None, _of_loading(ready_s), key="ready_loading_s"),
    Column("caches", _of_loading(lambda run: _outcomes(run)), left=True),
    Column("result", _of_loading(lambda run: run.accuracy.verdict if run.accuracy else None),
           style=lambda row: _result_style(row), key="accuracy", left=True),
    Column(None, _of_loading(lambda run: count_lookups(run, "hit")), key="hits"),
    Column(None, _of_loading(lambda run: count_lookups(run, "miss")), key="misses"),
    Column(None, _of(lambda runs: _run_fields(runs.saving)), key="saving"),
    Column(None, _of_loading(lambda run: _run_fields(run)), key="loading"),
    Column("other settings", _of(lambda runs: _other(runs.other)), left=True),
    Column(None, _of(lambda runs: _other_fields(runs)), key="other"),
)  # fmt: skip


def artifacts_document(ways: Sequence[WayRuns], keyed: Snapshot | None, *, over: bool, width: int) -> StaticDocument:
    """Return the document of the runs so far; `keyed` lists the names in the state dict."""
    shipped = [row.runs for row in ways if row.runs is not None]
    missing = {row.way: row.missing for row in ways if row.missing is not None}
    known = [row for row in ways if row.runs is not None or row.missing is not None]
    rows = list(wrapped(INTENT, width, "muted"))
    if len(ways) > 1 and known:
        known.sort(key=lambda row: row.missing is not None)
        rows += [BLANK, *table(COLUMNS, known, instead=_instead)]
        rows += wrapped("saves, loads: until the end of the first call", width, "muted")
    rows += [row for way, reason in missing.items() for row in wrapped(f"{NAMES[way]}: {reason}.", width, "warn")]
    for runs in shipped:
        rows += [BLANK, heading(NAMES[runs.way], "")] if len(ways) > 1 else [BLANK]
        if runs.way in ("cache", "precompile"):
            rows += [*_figures(runs), BLANK]
        rows += [*_conclusions(runs, width), *_key_differences(runs, width), BLANK, *_code(runs, width)]
    rows += [BLANK, *state_dict_rows(keyed, width)] if keyed is not None else []
    if over and (not known or any(runs.loading is None and runs.saved for runs in shipped)):
        rows += [BLANK, *wrapped("Stopped before the second run.", width, "warn")]
    return StaticDocument("", tuple(rows))


def _instead(row: WayRuns) -> Span | None:
    if row.runs is None:
        return Span("missing", "muted")
    return FAILED if RunFigures(row.runs.saving).failure else None


def _result_style(row: WayRuns) -> str:
    accuracy = row.runs.loading.accuracy if row.runs is not None and row.runs.loading is not None else None
    return ACCURACY_STYLES.get(accuracy.verdict, "warn") if accuracy else "warn"


def _other(run: Snapshot | None) -> Span | str | None:
    return None if run is None else FAILED if run.failure else _outcomes(run) or "loads"


def _seconds(run: Snapshot) -> str | None:
    return None if (seconds := ready_s(run)) is None else duration(seconds)


def _outcomes(run: Snapshot, cache: str | None = None) -> str:
    """Return `hit ×2, miss ×1`: the outcomes of the lookups in one cache, or in all."""
    outcomes = Counter(lookup.outcome for lookup in run.cache_lookups if cache in (None, lookup.cache))
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
        text = f"  {different.part}: {different.before or 'absent'} → {different.after or 'absent'}"
        yield from wrapped(text, width, links=line_links(different.location), location=different.location)
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
        cells = [_outcomes(run, cache) for run in both]
        rows.append([(Span(f"{cache} cache"),), *((Span(text, "muted"),) for text in (*cells, "")[:2])])
    rows = [cells for cells in rows if any(span.text for cell in cells[1:] for span in cell)]
    yield from columns(("", "saves", "loads"), rows, [()] * len(rows))


def _row(name: str, saving: float | None, loading: float | None) -> list[tuple[Span, ...]]:
    seconds = ("" if value is None else duration(value) for value in (saving, loading))
    return [(Span(name),), *((Span(text, "strong"),) for text in seconds)]


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


OTHER_SETTINGS = ("torch._inductor.config.cpp.simdlen=256",)
"""Settings of another machine: vectors of 256 bits."""

PRECOMPILE = "torch._dynamo.config.caching_precompile=True"


@dataclass(frozen=True, slots=True)
class ArtifactsOptions:
    """Ways to try, and the settings of another machine."""

    ways: tuple[Shipping, ...] = SHIPPING
    other: tuple[str, ...] = OTHER_SETTINGS


State = StudyState[ArtifactsOptions, ShipRun]


class ArtifactsStudy(Study[ArtifactsOptions, ShipRun]):
    """Results are the runs of each way, in their order."""

    name = "artifacts"
    title = "cache artifacts"
    studies_scripts = True
    default_options = ArtifactsOptions()
    examples = ("model.py", "model.py --ways cache,aotinductor --json")
    description = (
        "Save compiled code in one process, load it in a second one with empty caches, and compare both, in each way "
        "that torch has. Also list the names in the state dict."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("ways to ship")
        group.add_argument(
            "--ways", type=several(one_of(SHIPPING)), default=SHIPPING, metavar="A,B",
            help=f"any of {', '.join(SHIPPING)} (default: all; a script has only the first two)",
        )  # fmt: skip
        group.add_argument(
            "--other", action="append", type=name, metavar="SETTING",
            help=f"a setting of another machine, to see what differs in the cache key (default: {OTHER_SETTINGS[0]})",
        )  # fmt: skip

    def options(self, given: argparse.Namespace) -> ArtifactsOptions:
        return ArtifactsOptions(given.ways, tuple(given.other or OTHER_SETTINGS))

    async def plan(self, state: State, runs: Runs, announce: Announce) -> AsyncGenerator[ShipRun, None]:
        """Save, load, and load with other settings; a way that saves nothing is not loaded."""
        async with runs.temporary_folder("artifacts") as folder:
            state.machine = await runs.machine(state.timeout)
            lacking = missing_ways(state.machine, state.options.ways)
            if len(lacking) == len(state.options.ways):
                raise RefusedError(f"{'; '.join(lacking.values())}.")
            steps = [(way, step) for way in state.options.ways if way not in lacking for step in SHIP_STEPS]
            runs.steps.plan(f"{way}: {step}" for way, step in steps)
            unsaved: set[Shipping] = set()
            for way, step in steps:
                if way in unsaved:
                    continue
                announce(f"{way}: {step}")
                run = (await runs.run(_job(state, way, step, folder), state.timeout)).snapshot
                yield ShipRun(way, step, run)
                if step == "saving" and not (run.artifacts_saved and run.artifacts_saved.bytes):
                    unsaved.add(way)
                if run.is_script:
                    unsaved.update(set(SHIPPING) - set(IN_CACHES))

    def document(self, state: State, width: int = 78) -> Document:
        return artifacts_document(_ways(state), _run_with_keys(state), over=state.over, width=width)

    def fields(self, state: State) -> Fields:
        """Return the runs; a field is null without its run. All fields but `ways` are of cache artifacts."""
        runs, keyed = artifact_runs(state.results), _run_with_keys(state)
        saved = runs.saving.artifacts_saved if runs else None
        known = [row for row in _ways(state) if row.runs is not None or row.missing is not None]
        return {
            "state_dict": fields("state_dict", keyed.state_keys) if keyed else None,
            "saved_bytes": saved.bytes if saved else None,
            "saved_kinds": dict(saved.kinds) if saved else None,
            "saving": _run_fields(runs.saving) if runs else None,
            "loading": _run_fields(runs.loading) if runs and runs.loading else None,
            "hits": runs.hits if runs and runs.loading else None,
            "first_call_saved_s": runs.first_call_saved_s if runs else None,
            "other_settings": list(state.options.other),
            "ways": [json_values(COLUMNS, row) for row in known],
        }

    def exit_status(self, state: State) -> int:
        """Return an error only if no way works."""
        ways = {ship.way for ship in state.results}
        worst = (max(failure_status(ship.run) for ship in state.results if ship.way == way) for way in ways)
        return min(worst, default=0)


def _ways(state: State) -> list[WayRuns]:
    missing = missing_ways(state.machine, state.options.ways)
    return [WayRuns(way, artifact_runs(state.results, way), missing.get(way)) for way in state.options.ways]


def _run_with_keys(state: State) -> Snapshot | None:
    """Return a run that lists the names in the state dict."""
    return next((ship.run for ship in state.results if ship.run.state_keys), None)


def _job(state: State, way: Shipping, step: ShipStep, folder: str) -> Job:
    file = os.path.join(folder, f"{way}.pt2")
    settings = [PRECOMPILE] if way == "precompile" else []
    settings += state.options.other if step == "other settings" else []
    config = replace(state.job.config, settings=(*state.job.config.settings, *settings))
    caches = os.path.join(folder, f"{way}-{step.replace(' ', '-')}")
    job = replace(
        state.job, time_for=0.0, examine=step == "loading", artifacts=way, config=config, caches=caches
    )  # fmt: skip
    return replace(job, save_artifacts=file) if step == "saving" else replace(job, load_artifacts=file)


STUDY = ArtifactsStudy()
