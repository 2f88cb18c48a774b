"""The recompile study as a document: a timeline of the calls, the variants that might avoid recompiles, conclusions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from tcexplore.documents.document import Row, Span, StaticDocument
from tcexplore.documents.prose import BLANK, Cell, columns, fold, heading, row, wrapped
from tcexplore.documents.timing.timeline_view import GLYPHS, STYLES, draw_lane, recompile_reasons
from tcexplore.quantities import count, duration
from tcexplore.session import Snapshot
from tcexplore.session.compile_time import CompileMark
from tcexplore.studies.recompiles.recompiles_result import PASSES, UNCHANGED, VariantRun, call_lane, variants

SHOWN_COMPILES = 8
"""Compiles above a fold with the others."""

HEAD = ("", "recompiles", "first pass", "warm call")

WARM_TOLERANCE = 1.1
"""Ratio of two warm calls that counts as equal."""

PADDING = {"equal": ("✔", "ok"), "different": ("✖", "break"), "not compared": ("·", "muted")}

NOT_VARIABLE = (
    "The recompiles do not come from an argument that the caller can change. Look at their guards; make the value a "
    "tensor, or keep it constant between calls."
)


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
    calls += " of compiled code" if result.run.is_script else f", each made {PASSES} times"
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
    cells = [_cells(result, results[0]) for result in results]
    yield from columns(HEAD, cells, [()] * len(cells))
    if under_way is not None:
        yield row((" ◐ running", "running"))
    longest = max(result.first_pass_s for result in results)
    for result in results[1:]:
        yield BLANK
        yield from _variant(result, longest, width)


def _cells(result: VariantRun, first: VariantRun) -> list[Cell]:
    name = (Span(result.variant.name, "strong"),)
    if failure_text(result):
        return [name, (Span("✖ failed", "error"),), (), ()]
    warm = result.warm_call_us
    style = "" if result is first else "ok" if result.recompiles < first.recompiles else "warn"
    faster = "" if result is first else "faster" if result.first_pass_s < first.first_pass_s else "slower"
    return [
        name,
        (Span(str(result.recompiles), style),),
        (Span(duration(result.first_pass_s), faster),),
        (Span("" if warm is None else duration(warm / 1e6)),),
    ]


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
        yield "No recompiles."
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
        yield f"warm call: {duration(before / 1e6)} → {duration(after / 1e6)}, medians of one pass"
