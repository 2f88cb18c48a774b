"""The recompile study: the model file's calls, then the same calls with each change that might avoid recompiles."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tcexplore import events as ev
from tcexplore.argument_types import vary
from tcexplore.documents.document import Document
from tcexplore.events import EntryFound, Job
from tcexplore.events.input_specs import VaryError, parse_varies
from tcexplore.report.json_records import fields
from tcexplore.report.json_report import configuration, failure
from tcexplore.session import Snapshot
from tcexplore.session.compile_time import CompiledCall, compiled_calls
from tcexplore.session.recompile_fixes import recompile_fixes
from tcexplore.studies.recompiles.recompiles_document import recompiles_document
from tcexplore.studies.recompiles.recompiles_result import PASSES, UNCHANGED, Variant, VariantRun, variants
from tcexplore.studies.study import SCRIPT_REFUSAL, Announce, Prompt, PromptField, Study, StudyState
from tcexplore.studies.study_json import Fields
from tcexplore.studies.study_runs import Runs, failure_status

NOTE = (
    "x.0=1..64 gives sizes of a dimension, lr=0.1,0.01 values; name an argument or give its position. Several, "
    "separated by spaces, are combined. Leave it empty for the file's own calls."
)

UNCHANGED_CALLS = "unchanged calls"
"""The first step."""

_TENSOR = re.compile(r"(?:(?P<name>\w+)=)?\w+\[\d")


@dataclass(frozen=True, slots=True)
class RecompilesOptions:
    """Arguments to vary, and the sizes to pad to (empty: the next power of two)."""

    vary: tuple[str, ...] = ()
    buckets: tuple[str, ...] = ()


class RecompilesStudy(Study[RecompilesOptions, VariantRun]):
    """Results are the unchanged calls, then the variants."""

    name = "recompiles"
    title = "recompiles"
    examples = ("model.py --vary x.0=1..64", "model.py --vary lr=0.1,0.01 --json")
    description = (
        "Make the calls of the file, varied by --vary: show which recompile, what that costs, and how much each "
        "possible fix helps."
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

    def prompt(self, job: Job, own: Snapshot | None, last: StudyState[RecompilesOptions, VariantRun] | None) -> Prompt:
        run = last.results[0].run if last and last.results else own
        specs = suggested_specs(run.entry if run else None, last.options.vary if last else job.config.vary)
        return Prompt("Vary the inputs", (PromptField("What to vary", specs, parse_specs),), NOTE)

    def options_from(self, answers: Sequence[str]) -> RecompilesOptions:
        return RecompilesOptions(parse_specs(answers[0]))

    async def plan(
        self, state: StudyState[RecompilesOptions, VariantRun], runs: Runs, announce: Announce
    ) -> AsyncGenerator[VariantRun, None]:
        """Run the unchanged calls, then the variants that apply.

        Each run has an empty kernel cache. Combined variants are left out if a simple one avoids all recompiles.
        """
        options = state.options
        if options.vary:
            runs.script_refusal = SCRIPT_REFUSAL
        job = replace(state.job, config=replace(state.job.config, vary=options.vary))
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

    def document(
        self,
        state: StudyState[RecompilesOptions, VariantRun],
        width: int = 78,
        toggled: frozenset[str] = frozenset(),
    ) -> Document:
        return recompiles_document(state.results, None if state.over else state.run, toggled, width)

    def fields(self, state: StudyState[RecompilesOptions, VariantRun]) -> dict[str, Any]:
        return recompiles_fields(state.options.vary, state.results)

    def exit_status(self, state: StudyState[RecompilesOptions, VariantRun]) -> int:
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


def suggested_specs(entry: EntryFound | None, vary: Sequence[str]) -> str:
    """Return what was varied last, else some sizes of the first tensor of the file's only call."""
    if vary or entry is None or len(entry.calls) != 1:
        return " ".join(vary)
    for position, described in enumerate(entry.calls[0]):
        if tensor := _TENSOR.match(described):
            return f"{tensor['name'] or position}.0=1..16"
    return ""


STUDY = RecompilesStudy()


def recompiles_fields(vary: Sequence[str], results: Sequence[VariantRun]) -> Fields:
    """Return all variants with all calls, the unchanged calls first."""
    tried = recompile_fixes(results[0].run) if results else ()
    return {
        "passes": PASSES,
        "vary": list(vary),
        "recompile_fixes": [fields("recompile_fix", fix) for fix in tried],
        "variants": [_variant(result) for result in results],
    }


def _variant(result: VariantRun) -> Fields:
    config = result.run.config
    return {
        "variant": result.variant.name,
        "code": result.variant.code or None,
        "note": result.variant.note or None,
        "config": {
            **configuration(result.run),
            "mark_dynamic": list(config.mark_dynamic),
            "as_tensors": list(config.as_tensors),
            "buckets": list(config.buckets),
        },
        "error": failure(result.run.failure),
        "calls": result.calls,
        "recompiles": result.recompiles,
        "limit_hit_at_call": result.limit_hit_at,
        "first_pass_s": result.first_pass_s,
        "warm_call_us": result.warm_call_us,
        "eager_call_us": result.eager_call_us,
        "padding": _padding(result.run.padding_check),
        "compiled_calls": [_call(call) for call in compiled_calls(result.run)],
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
