"""The recompile study: the model file's calls, then the same calls with each change that might avoid recompiles."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import median
from typing import Any

from tcexplore import events as ev
from tcexplore.argument_types import vary
from tcexplore.documents.document import Document, Row, StaticDocument
from tcexplore.documents.prose import BLANK, FAILED, Column, fold, heading, json_values, row, table, wrapped
from tcexplore.documents.timing.regions_view import GLYPHS, STYLES, draw_lane, recompile_reasons
from tcexplore.events import EntryFound, Job, RecompileAnswer
from tcexplore.events.input_specs import VaryError, parse_varies
from tcexplore.quantities import count, duration
from tcexplore.report.json_report import configuration, failure, recompile_fix_fields
from tcexplore.session import Snapshot
from tcexplore.session.cache_entries import resumed_frames
from tcexplore.session.compile_time import (
    COMPILE,
    RECOMPILE,
    CompiledCall,
    CompileMark,
    MarkKind,
    RegionTimeline,
    compiled_calls,
)
from tcexplore.session.recompile_fixes import changed_with
from tcexplore.studies.runs import Runs, failure_status
from tcexplore.studies.study import Announce, Prompt, PromptField, Study, StudyState, on_captured_call
from tcexplore.studies.study_json import Fields

BINS = 256

PASSES = 3
"""How often all calls are made: the first pass compiles, the last one shows warm calls."""

SIZE_KINDS = ("size", "stride", "condition")
"""Kinds of recompiles that dynamic shapes might avoid."""

_POSITION = re.compile(r"args\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Variant:
    """A change that might avoid recompiles."""

    name: str
    code: str
    """The code that the user writes."""
    change: Callable[[ev.Config], ev.Config]
    note: str = ""
    """What it demands of the model."""
    combined: bool = False
    """Whether it combines other variants."""


UNCHANGED = Variant("unchanged", "", lambda config: config)


@dataclass(frozen=True, slots=True)
class VariantRun:
    """The calls under one variant."""

    variant: Variant
    run: Snapshot

    @property
    def recompiles(self) -> int:
        """Return the number of graphs that were compiled because no earlier one could be used."""
        return len({recompile.graph for recompile in self.run.recompiles if not recompile.limit_hit})

    @property
    def calls(self) -> int:
        """Return the number of calls in a pass."""
        if self.run.is_script:
            return sum(region.calls for region in self.run.region_calls)
        if self.run.entry is not None and self.run.entry.calls:
            return len(self.run.entry.calls)
        return len({call.index for call in self.run.calls if call.variant == "compiled"})

    @property
    def first_pass_s(self) -> float:
        """Return the seconds of the first pass, compiles included; of a script, those of all calls."""
        if self.run.is_script:
            return sum(region.seconds for region in self.run.region_calls)
        return sum(call.seconds for call in compiled_calls(self.run)[: self.calls])

    @property
    def warm_call_us(self) -> float | None:
        """Return the median microseconds of a call in the last pass; None before that."""
        last = [call.seconds for call in compiled_calls(self.run)[(PASSES - 1) * self.calls :]]
        return median(last) * 1e6 if last else None

    @property
    def eager_call_us(self) -> float | None:
        """Return the median microseconds of an eager call."""
        eager = [call.seconds for call in self.run.calls if call.variant == "eager"]
        return median(eager) * 1e6 if eager else None

    @property
    def limit_hit_at(self) -> int | None:
        """Return the number of the call that hit the recompile limit; its frame ran eagerly afterwards."""
        limited = {recompile.graph for recompile in self.run.recompiles if recompile.limit_hit}
        calls = (
            call.number for call in compiled_calls(self.run) if limited & {recompile.graph for recompile in call.causes}
        )
        return next(calls, None) or (self.calls if limited else None)


def variants(run: Snapshot, buckets: tuple[str, ...] = ()) -> tuple[Variant, ...]:
    """Return the variants that apply to the recompiles of a run; `buckets` are sizes to pad to."""
    if run.is_script:
        # Its calls are its own: only arguments of torch.compile can be replaced.
        return tuple(_size_variants(run, (), ()))
    sizes, floats = _recompiled_sizes(run), _recompiled_floats(run)
    simple = [*_size_variants(run, sizes, buckets), *([_tensor_variant(floats)] if floats else [])]
    if not floats or not any(recompile.kind in SIZE_KINDS for recompile in run.recompiles):
        return tuple(simple)
    tensors = _tensor_variant(floats)
    both = Variant(
        f"dynamic=True and {tensors.name}",
        f"torch.compile(…, dynamic=True); {tensors.code}",
        lambda config: _with_dynamic(tensors.change(config), dynamic=True),
        tensors.note,
        combined=True,
    )
    return (*simple, both)


def _with_dynamic(config: ev.Config, *, dynamic: bool) -> ev.Config:
    """Return a configuration whose `dynamic` also replaces that of the file's own calls of torch.compile."""
    return replace(config, dynamic=dynamic, override=tuple(dict.fromkeys((*config.override, "dynamic"))))


def _size_variants(run: Snapshot, sizes: tuple[str, ...], buckets: tuple[str, ...]) -> Iterator[Variant]:
    if any(recompile.kind in SIZE_KINDS for recompile in run.recompiles) and run.config.dynamic is not True:
        yield Variant(
            "dynamic=True", "torch.compile(…, dynamic=True)", lambda config: _with_dynamic(config, dynamic=True)
        )  # fmt: skip
    if sizes:
        target = f"to {', '.join(buckets)}" if buckets else f"{', '.join(sizes)} to the next power of two"
        marks = "; ".join(f"torch._dynamo.mark_dynamic({_argument(size)}, {size.split('.')[1]})" for size in sizes)
        yield Variant(
            "mark_dynamic", marks, lambda config: replace(config, mark_dynamic=sizes),
            "sizes 0 and 1 are not marked: each gets a separate graph",
        )  # fmt: skip
        yield Variant(
            "buckets", f"pad {target}; torch.compile(…, dynamic=False)",
            lambda config: replace(_with_dynamic(config, dynamic=False), buckets=buckets or sizes),
            "only if rows of zeros do not change the other rows, and are cut off the result",
        )  # fmt: skip


def _tensor_variant(floats: tuple[str, ...]) -> Variant:
    tensors = ", ".join(f"torch.tensor({_argument(name)})" for name in floats)
    return Variant(
        "tensor for float", f"call it with {tensors}", lambda config: replace(config, as_tensors=floats),
        "the compiled code then reads the value when it runs, instead of containing it",
    )  # fmt: skip


def _recompiled_sizes(run: Snapshot) -> tuple[str, ...]:
    """Return arguments and dimensions whose size caused a recompile, as `x.0`."""
    causes = [cause for cause in _at_entry(run) if cause.kind == "size" and cause.dim is not None and _name(cause)]
    together = [(_position(name), dim) for name, dim in changed_with(run, causes)]
    sizes = [*((_name(cause), cause.dim) for cause in causes), *together]
    return tuple(dict.fromkeys(f"{name}.{dim}" for name, dim in sizes if name.isidentifier() or name.isdecimal()))


def _recompiled_floats(run: Snapshot) -> tuple[str, ...]:
    causes = (cause for cause in _at_entry(run) if cause.kind == "float")
    return tuple(dict.fromkeys(name for cause in causes if (name := _name(cause))))


def _at_entry(run: Snapshot) -> Iterator[ev.Recompiled]:
    """Yield the recompiles of what the user calls: inputs of a resume function can't be changed from outside."""
    resumed = resumed_frames(run)
    return (recompile for recompile in run.recompiles if recompile.graph not in resumed)


def _name(recompile: ev.Recompiled) -> str:
    """Return the name or position of the argument that caused a recompile; empty for anything else."""
    name = _position(recompile.name)
    if name != recompile.name:
        return name
    return name if recompile.origin in ("argument", "") and name.isidentifier() else ""


def _position(source: str) -> str:
    """Return `0` for `args[0]`, through which Dynamo calls one of torch's own modules."""
    position = _POSITION.fullmatch(source)
    return position[1] if position is not None else source


def _argument(source: str) -> str:
    name = source.partition(".")[0]
    return f"argument {name}" if name.isdecimal() else name


def call_lane(run: Snapshot) -> RegionTimeline:
    """Return the compiled calls one after another, as the only lane of a timeline."""
    if run.is_script:
        return _script_lane(run)
    at, marks, starts = 0.0, [], []
    for call in compiled_calls(run):
        starts.append(at)
        if call.kind != "warm":
            kind: MarkKind = RECOMPILE if call.causes else COMPILE
            graphs = tuple(recompile.graph for recompile in call.causes)
            marks.append(CompileMark(kind, at, call.seconds, graphs, call.number, call.causes))
        at += call.seconds
    name = run.entry.name if run.entry else ""
    return RegionTimeline(ev.RegionCreated(region=0, name=name, kind="function"), _activity(starts, at), tuple(marks))


def _script_lane(run: Snapshot) -> RegionTimeline:
    """Return the compiles of all regions of a script; the time between them is unknown."""
    marks = []
    for compiled in run.region_compiles:
        causes = tuple(cause for cause in run.recompiles if cause.graph in compiled.graphs)
        kind: MarkKind = RECOMPILE if causes else COMPILE
        marks.append(CompileMark(kind, compiled.at, compiled.seconds, compiled.graphs, compiled.call, causes))
    return RegionTimeline(ev.RegionCreated(region=0, name="", kind="function"), None, tuple(marks))


def _activity(starts: list[float], seconds: float) -> ev.RegionCalls | None:
    if not starts or not seconds:
        return None
    activity = [0] * BINS
    for at in starts:
        activity[min(int(at / seconds * BINS), BINS - 1)] += 1
    return ev.RegionCalls(
        region=0, calls=len(starts), warm=len(starts), seconds=seconds, bin_s=seconds / BINS, activity=tuple(activity)
    )


SHOWN_COMPILES = 8
"""Compiles above a fold with the others."""

WARM_TOLERANCE = 1.1
"""Ratio of two warm calls that counts as equal."""

PADDING = {"equal": ("✔", "ok"), "different": ("✖", "break"), "not compared": ("·", "muted")}

NOT_VARIABLE = (
    "The recompiles do not come from an argument that the caller can change. Look at their guards; make the value a "
    "tensor, or keep it constant between calls."
)


Compared = tuple[VariantRun, VariantRun]
"""The calls under a variant, and the unchanged calls."""


def _recompiles_style(row: Compared) -> str:
    result, first = row
    return "" if result is first else "ok" if result.recompiles < first.recompiles else "warn"


def _first_pass_style(row: Compared) -> str:
    result, first = row
    return "" if result is first else "faster" if result.first_pass_s < first.first_pass_s else "slower"


COLUMNS: tuple[Column[Compared], ...] = (
    Column("", lambda row: row[0].variant.name, style="strong", key="variant", left=True, always=True),
    Column(None, lambda row: row[0].variant.code or None, key="code"),
    Column(None, lambda row: row[0].variant.note or None, key="note"),
    Column(None, lambda row: _config(row[0].run), key="config"),
    Column(None, lambda row: failure(row[0].run.failure), key="error"),
    Column(None, lambda row: row[0].calls, key="calls"),
    Column("recompiles", lambda row: row[0].recompiles, style=_recompiles_style, key="recompiles"),
    Column(None, lambda row: row[0].limit_hit_at, key="limit_hit_at_call"),
    Column("first pass", lambda row: row[0].first_pass_s, duration, _first_pass_style, key="first_pass_s"),
    Column("warm call", lambda row: row[0].warm_call_us, lambda us: duration(us / 1e6), key="warm_call_us"),
    Column(None, lambda row: row[0].eager_call_us, key="eager_call_us"),
    Column(None, lambda row: _padding(row[0].run.padding_check), key="padding"),
    Column(None, lambda row: [_call(call) for call in compiled_calls(row[0].run)], key="compiled_calls"),
)


def _config(run: Snapshot) -> Fields:
    config = run.config
    return {
        **configuration(run),
        "mark_dynamic": list(config.mark_dynamic),
        "as_tensors": list(config.as_tensors),
        "buckets": list(config.buckets),
    }


def _padding(judged: ev.PaddingChecked | None) -> Fields | None:
    if judged is None:
        return None
    return {
        "verdict": judged.verdict, "calls": judged.calls, "max_abs": judged.max_abs, "reason": judged.reason or None,
    }  # fmt: skip


def _call(call: CompiledCall) -> Fields:
    return {
        "call": call.number,
        "kind": call.kind,
        "seconds": call.seconds,
        "failed_guards": [recompile.failed_guard for recompile in call.causes],
        "old": [recompile.old for recompile in call.causes],
        "new": [recompile.new for recompile in call.causes],
    }


def recompiles_document(
    results: Sequence[VariantRun], under_way: Snapshot | None, toggled: frozenset[str] = frozenset(), width: int = 78
) -> StaticDocument:
    """Return the document. The calls of the run under way are drawn as they come."""
    first = [VariantRun(UNCHANGED, under_way)] if under_way is not None and not results else []
    shown = [*results, *first]
    if not shown:
        return StaticDocument("", tuple(wrapped("waiting for a worker", width, "muted")))
    rows = [*_unchanged(shown[0], toggled, width)]
    if results:
        rows += [BLANK, *_variants(results, under_way, width), BLANK, *_conclusions(results, width)]
    return StaticDocument("", tuple(rows))


def _unchanged(result: VariantRun, toggled: frozenset[str], width: int) -> Iterator[Row]:
    """Yield the timeline of the unchanged calls, and each compile with its cost and cause."""
    lane = call_lane(result.run)
    calls = count(result.calls, "call")
    own = ", the file's own first" if result.run.config.own_calls_first else ""
    calls += " of compiled code" if result.run.is_script else f"{own}, each made {PASSES} times"
    yield row((f" {calls}", "strong"), ("  unchanged, over time", "muted"))
    if lane.calls is not None:
        yield row(" ", *draw_lane(lane, lane.calls.seconds, max(8, width - 2)))
        end = duration(lane.calls.seconds)
        yield row((" 0 s" + " " * max(1, width - 5 - len(end)) + end, "dim"))
    if failure := failure_text(result):
        yield from wrapped(failure, width, "error", lead="✖ ")
    opened = "compiles" in toggled
    for mark in lane.marks if opened else lane.marks[:SHOWN_COMPILES]:
        yield from _mark(mark, width)
    if (rest := len(lane.marks) - SHOWN_COMPILES) > 0:
        yield fold("compiles", opened, ("fewer" if opened else f"and {rest} more", "muted"))
    if limit := _limit(result):
        yield from wrapped(limit, width, "break", lead="✖ ")


def _mark(mark: CompileMark, width: int) -> Iterator[Row]:
    location = mark.causes[0].location if mark.causes else None
    text = f"call {mark.call}: {'recompiled' if mark.repeated else 'compiled'}, {duration(mark.seconds)}"
    yield row((f" {GLYPHS[mark.kind]} ", STYLES[mark.kind]), text, location=location)
    for reason in recompile_reasons(mark):
        yield from wrapped(reason, width, "muted", indent=5, location=location)


def _variants(results: Sequence[VariantRun], under_way: Snapshot | None, width: int) -> Iterator[Row]:
    yield heading("Ways to avoid them", "each in a separate process")
    compared = [(result, results[0]) for result in results]
    yield from table(COLUMNS, compared, instead=lambda row: FAILED if failure_text(row[0]) else None)
    if under_way is not None:
        yield row((" ◐ running", "running"))
    longest = max(result.first_pass_s for result in results)
    for result in results[1:]:
        yield BLANK
        yield from _variant(result, longest, width)


def _variant(result: VariantRun, longest: float, width: int) -> Iterator[Row]:
    variant, lane = result.variant, call_lane(result.run)
    yield row((f" {variant.name}", "title"), (f"  {variant.code}", ""))
    if failure := failure_text(result):
        yield from wrapped(failure, width, "error", lead="✖ ")
    elif lane.calls is not None and longest:
        # All variants have the same scale: half of the time is half of the length.
        cells = max(8, round((width - 2) * min(1.0, lane.calls.seconds / longest)))
        yield row(" ", *draw_lane(lane, lane.calls.seconds, min(cells, width - 2)))
    if limit := _limit(result):
        yield from wrapped(limit, width, "break", lead="✖ ")
    verdict, sentence = padding_text(result)
    if sentence:
        mark, style = PADDING[verdict]
        yield from wrapped(sentence, width, style, lead=f"{mark} ")
    if variant.note:
        yield from wrapped(variant.note, width, "muted")


def _conclusions(results: Sequence[VariantRun], width: int) -> Iterator[Row]:
    for line in conclusions(results):
        yield from wrapped(line, width, "strong")
    if results[0].recompiles and not variants(results[0].run):
        yield from wrapped(NOT_VARIABLE, width, "muted")


# ---- sentences


def failure_text(result: VariantRun) -> str:
    """Return why a run failed; empty if it did not."""
    failed = result.run.failure
    if failed is None:
        return ""
    hint = f" {failed.hint}" if failed.blame == "user" and "\n" not in failed.hint else ""
    return f"{failed.type}: {failed.message.partition(chr(10))[0]}{hint}"


def _limit(result: VariantRun) -> str:
    call = result.limit_hit_at
    return f"recompile limit hit at call {call}: the frame ran eagerly from then on" if call else ""


def padding_text(result: VariantRun) -> tuple[str, str]:
    """Return a verdict on whether padding changes the results, and a sentence; both empty without padding."""
    judged = result.run.padding_check
    if judged is None:
        return "", ""
    difference = f" (largest difference {judged.max_abs:.2g})" if judged.max_abs else ""
    match judged.verdict:
        case "not compared":
            sentence = f"padded results were not compared with unpadded ones: {judged.reason}"
        case "equal":
            calls = count(judged.calls, "padded call")
            sentence = f"without the padding, the results of {calls} equal those of eager{difference}"
        case _:
            sentence = f"padding changes the results: {judged.reason} differs from unpadded eager{difference}"
    return judged.verdict, sentence


def _fastest(results: Sequence[VariantRun]) -> VariantRun:
    """Return the variant with the shortest first pass of those whose warm calls are about as fast as the fastest."""
    warm = [result.warm_call_us for result in results if result.warm_call_us is not None]
    limit = WARM_TOLERANCE * min(warm) if warm else inf
    good = [result for result in results if result.warm_call_us is None or result.warm_call_us <= limit]
    return min(good, key=lambda result: result.first_pass_s)


def conclusions(results: Sequence[VariantRun]) -> Iterator[str]:
    """Yield sentences that compare the variants."""
    first, *others = results
    if first.run.failure is not None:
        return
    if not first.recompiles and not first.limit_hit_at:
        yield f"{count(first.calls, 'call')}, no recompiles"
        return
    if not others:
        return
    same = [result for result in others if padding_text(result)[0] != "different"]
    good = [result for result in same if result.run.failure is None and result.limit_hit_at is None]
    better = [result for result in good if result.recompiles < first.recompiles or first.limit_hit_at]
    if not better:
        yield "No variant avoids a recompile."
        return
    least = min(result.recompiles for result in better)
    best = _fastest([result for result in better if result.recompiles == least])
    yield (
        f"{best.variant.name} avoids the most: {count(first.recompiles, 'recompile')} → {best.recompiles}, "
        f"first pass {duration(first.first_pass_s)} → {duration(best.first_pass_s)}"
    )
    before, after = first.warm_call_us, best.warm_call_us
    if before is not None and after is not None:
        yield f"warm call: {duration(before / 1e6)} → {duration(after / 1e6)}, medians of the calls of the last pass"


NOTE = (
    "x.0=1..64 gives sizes of a dimension, lr=0.1,0.01 values; name an argument or give its position. Several, "
    "separated by spaces, are combined. The file's own calls come first; leave it empty for these alone."
)

UNCHANGED_CALLS = "unchanged calls"
"""The first step."""

_TENSOR = re.compile(r"(?:(?P<name>\w+)=)?\w+\[\d")


@dataclass(frozen=True, slots=True)
class RecompilesOptions:
    """Arguments to vary, and the sizes to pad to (empty: the next power of two)."""

    vary: tuple[str, ...] = ()
    buckets: tuple[str, ...] = ()


State = StudyState[RecompilesOptions, VariantRun]


class RecompilesStudy(Study[RecompilesOptions, VariantRun]):
    """Results are the unchanged calls, then the variants."""

    name = "recompiles"
    title = "recompiles"
    examples = ("model.py --vary x.0=1..64", "model.py --vary lr=0.1,0.01 --json")
    description = (
        "Make the calls of the file, then those that --vary makes of them: show which recompile, what that costs, and "
        "how much each possible fix helps."
    )
    live = True
    studies_scripts = True

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("what to vary")
        group.add_argument(
            "--vary", action="append", type=vary, default=[], metavar="SPEC", dest="varied",
            help="vary an argument, by name or position: sizes of a dimension, 'x.0=1..64', or values, 'lr=0.1,0.01'; "
            "repeat to combine",
        )  # fmt: skip
        group.add_argument(
            "--buckets", action="append", type=vary, default=[], metavar="SPEC", dest="pad_to",
            help="sizes to pad to, 'x.0=16,64,256' (default: the next power of two)",
        )  # fmt: skip

    def options(self, given: argparse.Namespace) -> RecompilesOptions:
        try:
            parse_varies(given.varied)
        except VaryError as error:
            raise ValueError(f"--vary {error}") from None
        return RecompilesOptions(tuple(given.varied), tuple(given.pad_to))

    def prompt(self, job: Job, own: Snapshot | None, last: State | None) -> Prompt:
        run = last.results[0].run if last and last.results else own
        answers = own.recompile_answers if own is not None else ()
        specs = suggested_specs(run.entry if run else None, last.options.vary if last else job.config.vary, answers)
        return Prompt("Vary the inputs", (PromptField("What to vary", specs, parse_specs),), NOTE)

    def options_from(self, answers: Sequence[str]) -> RecompilesOptions:
        return RecompilesOptions(parse_specs(answers[0]))

    async def plan(self, state: State, runs: Runs, announce: Announce) -> AsyncGenerator[VariantRun, None]:
        """Run the unchanged calls, then the variants that apply.

        Each run has an empty kernel cache. Combined variants are left out if a simple one avoids all recompiles.
        """
        options = state.options
        job = on_captured_call(state.job) if options.vary else state.job
        # A size that was typed recompiles, or not, after the calls that the file makes.
        job = replace(job, config=replace(job.config, vary=options.vary, own_calls_first=bool(options.vary)))
        async with runs.temporary_folder("recompiles") as folder:
            runs.steps.plan((UNCHANGED_CALLS,))
            announce(UNCHANGED_CALLS)
            first = await _run(job, UNCHANGED, runs, state.timeout, os.path.join(folder, "0"))
            yield first
            applicable = variants(first.run, options.buckets)
            runs.steps.plan([variant.name for variant in applicable])
            solved = False
            for number, variant in enumerate(applicable, 1):
                if variant.combined and solved:
                    runs.steps.finish(variant.name)
                    continue
                announce(variant.name)
                result = await _run(job, variant, runs, state.timeout, os.path.join(folder, str(number)))
                solved = solved or (not result.recompiles and result.run.failure is None)
                yield result

    def document(self, state: State, width: int = 78) -> Document:
        return recompiles_document(state.results, None if state.over else state.run, state.toggled, width)

    def fields(self, state: State) -> dict[str, Any]:
        results = state.results
        run = results[0].run if results else None
        return {
            "passes": PASSES,
            "vary": list(state.options.vary),
            "recompile_fixes": recompile_fix_fields(run) if run is not None else [],
            "variants": [json_values(COLUMNS, (result, results[0])) for result in results],
        }

    def exit_status(self, state: State) -> int:
        """Return the status of the unchanged calls."""
        return failure_status(state.results[0].run) if state.results else 0


async def _run(job: Job, variant: Variant, runs: Runs, limit_s: float, kernels: str) -> VariantRun:
    changed = replace(
        job, passes=PASSES, time_for=0.0, examine=False, cache_dir=kernels, config=variant.change(job.config),
        try_recompile_fixes=variant is UNCHANGED,
    )  # fmt: skip
    return VariantRun(variant, (await runs.run(changed, limit_s)).snapshot)


def parse_specs(text: str) -> tuple[str, ...]:
    """Split `x.0=1..64 lr=0.1,0.01` into one text for each argument. Raises `ValueError` with a message."""
    specs = tuple(text.split())
    parse_varies(specs)
    return specs


def suggested_specs(entry: EntryFound | None, vary: Sequence[str], answers: Sequence[RecompileAnswer] = ()) -> str:
    """Return what was varied last, else the sizes of the newest check, or some of the first tensor of the only call."""
    if vary or entry is None or len(entry.calls) != 1:
        return " ".join(vary)
    failed = [entry.failed for frame in answers[-1].frames for entry in frame.entries] if answers else []
    for guard in failed:
        if guard is not None and guard.dim is not None and guard.name.isidentifier() and guard.new.isdigit():
            return f"{guard.name}.{guard.dim}={guard.old},{guard.new}"
    for position, described in enumerate(entry.calls[0]):
        if tensor := _TENSOR.match(described):
            return f"{tensor['name'] or position}.0=1..16"
    return ""


STUDY = RecompilesStudy()
