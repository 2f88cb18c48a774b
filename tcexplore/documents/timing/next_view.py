"""The next view: what to do next, with its gain, the reason for it in this run, and the code to write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tcexplore.documents.breaks_view import describe_constants
from tcexplore.documents.document import Parts, Row, Span, by_identity, fixed
from tcexplore.documents.empty_states import empty_part
from tcexplore.documents.guards.guards_view import UNSAFE, filter_code
from tcexplore.documents.guards.symbols_view import describe_fix
from tcexplore.documents.line_facts import broken_expression, lines_of_fix
from tcexplore.documents.locations import places
from tcexplore.documents.prose import BLANK, heading, row, wrapped
from tcexplore.documents.timing.step_rows import pays_in_this_run
from tcexplore.documents.verdicts import format_reservation, recommend
from tcexplore.events import AccuracyVerdict, BreakFix, ChangeChecked, GraphBreak, StepTried
from tcexplore.keymap import hint
from tcexplore.quantities import count, duration, factor, factor_range
from tcexplore.session import Snapshot
from tcexplore.session.links import break_link, step_link
from tcexplore.session.next_steps import (
    FREEZING,
    NOT_MEASURED,
    Gain,
    NextStep,
    StepAction,
    compared_calls,
    measured_gain,
    next_steps,
)
from tcexplore.session.ranked_breaks import VISIBLE_US

EMPTY_TEXT = (
    "What to do next, the greatest gain first. Each step has a reason in this run, and a gain that is measured, or can "
    "be measured here."
)

WIDEST = 110
"""Columns of a step: the gain stands beside its title, not at the other side of the screen."""

LEAST_SHARE = 0.01
"""Share of a call below which it is not stated more exactly."""

PRECISE: tuple[AccuracyVerdict, ...] = ("identical", "as accurate as eager", "close to eager")
"""Verdicts on results that need no warning."""


def next_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:  # noqa: ARG001
    """Return the document of the view."""
    if not snapshot.compiled:
        return Parts("", [empty_part(snapshot, width, EMPTY_TEXT)])
    steps = next_steps(snapshot)
    rows = [*_recommendation(snapshot, steps, width), *_head(snapshot, steps, width)]
    first_gainless = next((step for step in steps if step.gainless), None)
    for number, step in enumerate(steps, 1):
        if step is first_gainless:
            rows.append(heading("Tried, without a certain gain"))
        rows += [*_step(step, number, snapshot, width), *([] if step.gainless else [BLANK])]
    if any(step.trial for step in steps):
        text = (
            f"{hint('open')} tries a step in a separate process, without a change of files · {hint('follow')} shows why"
        )
        rows += wrapped(text, width, "muted", keys_only=True)
    return Parts(count(len(steps), "step") if steps else "", [fixed(rows)])


def step_document(snapshot: Snapshot, key: str, width: int) -> Parts:
    """Return the document of one step, with its place in the list."""
    numbered = [(number, step) for number, step in enumerate(next_steps(snapshot), 1) if step.key == key]
    return Parts("", [fixed(_step(step, number, snapshot, width)) for number, step in numbered])


def next_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the steps for a report; nothing without any."""
    steps = next_steps(snapshot)
    for number, step in enumerate(steps, 1):
        yield from _step(step, number, snapshot, width)
    if any(step.trial and not step.gain.measured for step in steps) and not snapshot.trace:
        yield from wrapped("`tcexplore next` measures the steps that are not measured.", width, "muted")


def _recommendation(snapshot: Snapshot, steps: Sequence[NextStep], width: int) -> Iterator[Row]:
    """Yield whether to compile at all, which no step of the list is about; nothing without a verdict."""
    if (advice := recommend(snapshot, snapshot.expected_calls)) and not snapshot.trace:
        for text in filter(None, (advice, pays_in_this_run(snapshot), _with_first_step(snapshot, steps))):
            yield from wrapped(text, width, "strong")
        if caveat := format_reservation(snapshot):
            yield from wrapped(caveat, width, "muted")
        yield BLANK


def _with_first_step(snapshot: Snapshot, steps: Sequence[NextStep]) -> str:
    """Return how fast a compiled call would be with the first step, if only that makes it faster than eager."""
    timing, gain = snapshot.timing, steps[0].gain if steps else NOT_MEASURED
    if timing is None or timing.verdict not in ("slower", "no difference") or steps[0].action == "run_eagerly":
        return ""
    if gain.unit != "times faster" or not gain.helps or gain.value is None or timing.low * (gain.low or 0.0) <= 1:
        return ""
    return f"With step 1, it would be about {timing.speedup * gain.value:.2f}× as fast as eager, by both measurements."


def _head(snapshot: Snapshot, steps: tuple[NextStep, ...], width: int) -> Iterator[Row]:
    if not snapshot.complete or snapshot.phase in ("eager", "accuracy"):
        yield from wrapped("The run is not over yet: more steps may follow.", width, "running")
        yield BLANK
    elif not steps and snapshot.call_account is None and not snapshot.trace:
        yield row((" nothing to do so far", "heading"))
        text = "No graph break and no recompile. The parts of a call are not measured: they may show more steps."
        yield from wrapped(text, width, "muted")
    elif not steps:
        yield row((" ✔ nothing to do ", "badge.ok"))
        text = "No graph break, no recompile, and no part of a call or of the compile that a known step would shorten."
        yield from wrapped(text, width, "muted")
    elif len(steps) > 1:
        if any(step.gain.helps or step.saves_recompiles for step in steps):
            unit = snapshot.timing.unit if snapshot.timing is not None else "call"
            saved = f"{compared_calls(snapshot):,} {unit}s"
            text = f"By the time saved in {saved}; {hint('calls')} sets the number."
        elif any(step.gainless for step in steps):
            text = "No step has a certain gain so far. The others first, by the time that each could save at most."
        else:
            none = "No step has a certain gain" if any(step.gain.measured for step in steps) else "No gain is measured"
            text = f"{none} so far: in the order of the time that each could save at most."
            if steps[-1].action == "larger_batch":
                text = f"{text[:-1]}; a larger batch, which is more work in a call, comes last."
        yield from wrapped(text, width, "dim", keys_only=True)
        yield BLANK


def _step(step: NextStep, number: int, snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the step with its gain, the reason for it, what a trial showed, and the code to write."""
    width = min(width, WIDEST)
    links, at = (step_link(step.key), *step.links), step.location
    style = "muted" if step.gainless else "strong"
    title = f"{describe_step(step, snapshot)}"
    gain, gain_style = gain_span(step)
    padding = width - len(title) - len(gain) - 4
    if padding >= 2:
        yield row((f"{number:>2} ", "number"), (title, style), " " * padding, (gain, gain_style), links=links,
                  location=at)  # fmt: skip
    else:
        yield from wrapped(title, width, style, indent=0, lead=f"{number:>2} ", links=links, location=at)
        yield row("    ", (gain, gain_style), links=links, location=at)
    # A fix may be worth it for other reasons than the time of a call.
    brief = step.gainless and step.action != "fix_break"
    of_trial = tuple(results(step, snapshot))
    for text in of_trial if brief else (evidence(step, snapshot), *of_trial):
        yield from wrapped(text, width, "muted", indent=4, links=links, location=at)
    if brief:
        return
    if code := code_of(step):
        yield from wrapped(code, width, "code.python", indent=4, links=links, location=at)
    if risk := risk_of(step):
        yield from wrapped(risk, width, "warn", indent=4, lead="! ", links=links, location=at)


# ---- the gain


def gain_span(step: NextStep) -> Span:
    """Return the gain of a step as text in its style."""
    if step.tried is not None and step.tried.problem:
        return Span("cannot be measured", "muted")
    if step.action == "fix_break" and step.fix is not None and step.fix.state == "verified" and not step.gain.measured:
        return (
            Span(f"verified, {step.fix.note}", "muted") if step.fix.note else Span("verified, being timed", "running")
        )
    if step.earlier is not None and step.earlier.tried.problem:
        return Span(f"failed in run {step.earlier.run}", "muted")
    if step.earlier is not None:
        gain = measured_gain(step, step.earlier.tried)
        text = _describe_trial(gain, step.earlier.tried)
        return Span(f"{text} in run {step.earlier.run}", "ok" if gain.helps else "muted")
    text = describe_gain(step.gain) if step.tried is None else _describe_trial(step.gain, step.tried)
    if step.recompiles and step.gain.measured and not step.gain.helps and step.gain.unit == "times faster":
        took = f" ({duration(step.recompile_s)})" if step.recompile_s else ""
        avoided = f"{count(step.recompiles, 'recompile')}{took}"
        return Span(f"avoids {avoided}; a call {_interval(step.gain)}× as fast", "muted")
    return Span(text, "ok" if step.gain.helps else "muted")


def _describe_trial(gain: Gain, tried: StepTried) -> str:
    """Return the gain that a trial measured; an open question is not called a missing gain."""
    if tried.same_code:
        return "the same kernels"
    undecided = gain.measured and gain.unit == "times faster" and tried.verdict == "undecided" and not gain.helps
    if undecided and gain.high is not None and gain.high >= 1:
        return f"undecided {_interval(gain)}"
    return describe_gain(gain)


def describe_gain(gain: Gain) -> str:
    """Return `1.31× faster [1.25, 1.38]`, `1.10× slower [1.05, 1.27]`, `at most 1.40×`, `at most 3.2 s`, …"""
    if gain.unit == "seconds":
        return _describe_seconds(gain)
    if gain.measured and gain.value is not None and gain.low is not None:
        if gain.high is not None and gain.high < 1:
            return f"{factor(gain.value)} slower {factor_range(gain.low, gain.high, slower=True)}"
        if not gain.helps:
            return f"no certain gain {_interval(gain)}"
        return f"{gain.value:.2f}× faster {_interval(gain)}"
    if gain.high is not None:
        return f"not measured, at most {gain.high:.2f}×"
    return "not measured"


def _interval(gain: Gain) -> str:
    low, high = (f"{end:.2f}" if end is not None else "…" for end in (gain.low, gain.high))
    return f"[{low}, {high}]"


def _describe_seconds(gain: Gain) -> str:
    if gain.measured and gain.value is not None and gain.low is not None and gain.high is not None:
        if not gain.helps:
            return f"no certain gain [{duration(gain.low)}, {duration(gain.high)}]"
        return f"saves {duration(gain.value)} [{duration(gain.low)}, {duration(gain.high)}]"
    if gain.high is not None:
        return f"not measured, at most {duration(gain.high)}"
    return "not measured"


first_steps = by_identity(8)(next_steps)
"""The steps of a run; the verdict line asks for them at each update."""


def first_step(snapshot: Snapshot) -> NextStep | None:
    """Return the first step of a run that is not known to be without gain; None if there is none."""
    first = next(iter(first_steps(snapshot)), None)
    return None if first is None or first.gainless else first


def short_gain(step: NextStep) -> str:
    """Return the gain of a step for the verdict line: `1.31× faster`, `saves 3.2 s`, or `not measured`."""
    gain = step.gain
    if step.earlier is not None:
        tried = measured_gain(step, step.earlier.tried)
        return f"{'a' if tried.helps else 'no'} gain in run {step.earlier.run}"
    if not gain.measured or gain.value is None:
        return "not measured"
    if step.saves_recompiles and not gain.helps:
        return f"avoids {count(step.recompiles, 'recompile')}"
    return f"{gain.value:.2f}× faster" if gain.unit == "times faster" else f"saves {duration(gain.value)}"


def short_step(step: NextStep, snapshot: Snapshot) -> str:
    """Return a step in a few words, for the verdict line."""
    line = places(snapshot.file).describe(step.location)
    short: dict[StepAction, str] = {
        "correct_result": "find the wrong stage",
        "fix_break": f"fix {line}" if line else "fix a break",
        "fix_breaks": f"fix {count(step.number or 0, 'break')}",
        "compile_function": f"get {step.target} compiled",
        "compile_once": "torch.compile once",
        "avoid_recompiles": f"avoid {count(step.number or 0, 'recompile')}",
        "run_eagerly": "leave it uncompiled",
        "cuda_graphs": "CUDA graphs",
        "mode": step.target,
        "autocast": "bfloat16 autocast",
        "matmul_precision": "TF32",
        "freezing": "constant weights",
        "channels_last": "channels last",
        "guard_filter": "a guard filter",
        "larger_batch": "a larger batch",
        "compile_blocks": "compile block by block",
    }
    return short[step.action]


# ---- texts of each action


def describe_step(step: NextStep, snapshot: Snapshot) -> str:
    """Return what to do, in the imperative."""
    where = places(snapshot.file).describe(step.location)
    if step.action == "fix_break":
        return _break_title(step, snapshot, where)
    return _TITLES[step.action](step, where)


def _break_title(step: NextStep, snapshot: Snapshot, where: str) -> str:
    graph_break = _break_of(step, snapshot)
    expression = broken_expression(graph_break) if graph_break is not None else step.target
    return f"Remove the graph break at {where}: {expression}" if where else f"Remove the graph break: {expression}"


def _break_of(step: NextStep, snapshot: Snapshot) -> GraphBreak | None:
    return next((known for known in snapshot.breaks if break_link(known) in step.links), None)


def _function_title(step: NextStep, where: str) -> str:
    return f"Get {step.target} compiled ({where})" if where else f"Get {step.target} compiled"


_TITLES: dict[StepAction, Callable[[NextStep, str], str]] = {
    "fix_breaks": lambda step, _: f"Remove {count(step.number or 0, 'graph break')} together",
    "correct_result": lambda step, _: f"Find the compiler stage that makes {step.target or 'the result'} wrong",
    "compile_function": _function_title,
    "compile_once": lambda step, where: f"Call torch.compile once, before the loop: {step.target}, {where}",
    "avoid_recompiles": lambda step, _: f"Avoid {count(step.number or 0, 'recompile')}: {_recompile_change(step)}",
    "run_eagerly": lambda step, _: "Leave the program uncompiled: eager is faster" if step.number is None
    else f"Leave the program uncompiled for {count(step.number, step.detail)}",
    "cuda_graphs": lambda step, _: "Let CUDA graphs record the call" if step.config is None
    else "Replay the launches from CUDA graphs",
    "mode": lambda step, _: f"Compile with mode={step.target!r}",
    "autocast": lambda *_: "Compute in bfloat16 under autocast",
    "matmul_precision": lambda *_: "Let float32 products use TF32",
    "freezing": lambda *_: "Make the weights constants of the graph (freezing)",
    "channels_last": lambda *_: "Store images in channels last",
    "guard_filter": lambda *_: "Drop guards that never fail",
    "larger_batch": lambda step, _: f"Use a larger batch: {step.before} → {step.number}",
    "compile_blocks": lambda step, _: f"Compile {step.target} once for its {step.number} repeats",
}  # fmt: skip


def _recompile_change(step: NextStep) -> str:
    fix = step.recompile_fix
    if fix is None:
        return step.target
    names = {
        "mark_dynamic": f"mark {step.target} dynamic", "mark_unbacked": f"mark {step.target} unbacked",
        "dynamic": "dynamic=True", "buckets": f"pad {step.target} to a few sizes", "tensor": f"{fix.name} as a tensor",
        "break": "remove the break", "attribute": f"{fix.name} as a tensor", "unspec_int": "dynamic integers",
        "together": f"change {step.target} together",
    }  # fmt: skip
    return names[fix.kind]


def evidence(step: NextStep, snapshot: Snapshot) -> str:
    """Return why this run gives a reason for a step, as a sentence."""
    return _EVIDENCE[step.action](step, snapshot)


def _of_a_call(step: NextStep) -> str:
    """Return `takes 1.2 ms, 72% of a compiled call`."""
    if step.share is None:
        return "is in every compiled call"
    us = f"{duration(step.us / 1e6)}, " if step.us is not None else ""
    share = f"{step.share:.0%}" if step.share >= LEAST_SHARE else f"under {LEAST_SHARE:.0%}"
    return f"takes {us}{share} of a compiled call"


def _break_evidence(step: NextStep, snapshot: Snapshot) -> str:
    cost = f" The gap {_of_a_call(step)}, at least." if step.share is not None and not step.gain.measured else ""
    if cost and step.us is not None and step.us < VISIBLE_US:
        cost = " The gap between the graphs is too short to be measured."
    if step.contradicted and not step.gain.measured:
        cost = f" Its cost is unclear: {step.contradicted}."
    if step.recompiles:
        guarded = "1 recompile guards" if step.recompiles == 1 else f"{step.recompiles} recompiles guard"
        took = f" and took {duration(step.recompile_s)} here" if step.recompile_s else ""
        cost += f" {guarded} a value that crosses the break{took}: one that stays in the graph is not guarded."
    elif (graph_break := _break_of(step, snapshot)) and (constants := describe_constants(snapshot, graph_break)):
        cost += f" {constants}"
    return f"{step.detail.rstrip('.')}.{cost} {_fix_state(step.fix, snapshot)}".rstrip()


def _breaks_evidence(step: NextStep, snapshot: Snapshot) -> str:
    where = places(snapshot.file)
    broken = (known for known in snapshot.breaks if break_link(known) in step.links)
    lines = dict.fromkeys(where.describe(known.location) for known in broken)
    cost = f" Their gaps {_of_a_call(step).replace('takes', 'take', 1)}, at least." if step.share is not None else ""
    return f"Each has a fix: {', '.join(lines)}.{'' if step.gain.measured else cost}"


def _fix_state(fix: BreakFix | None, snapshot: Snapshot) -> str:
    match fix:
        case None:
            return ""
        case BreakFix(state="verified"):
            return f"The fix ({fix.name}) is verified on {count(fix.inputs, 'input')}."
        case BreakFix(state="proposed") | BreakFix(state="verifying"):
            yet = "" if snapshot.trace else " yet"
            return f"A fix is proposed ({fix.name}), not verified{yet}."
        case BreakFix(state="untested"):
            return f"A fix is proposed ({fix.name}); no input takes a branch that it changes."
    return f"No fix is known: {fix.note}" if fix.note else "No fix is known."


def _recompile_evidence(step: NextStep, snapshot: Snapshot) -> str:
    fix = step.recompile_fix
    took = "It took" if step.number == 1 else "They took"
    seconds = f" {took} {duration(step.gain.high)} here." if step.gain.high and not step.gain.measured else ""
    effect = describe_fix(fix, snapshot.file) if fix is not None else ""
    return f"{effect}{seconds}"


def _eager_evidence(step: NextStep, snapshot: Snapshot) -> str:
    timing = snapshot.timing
    if timing is None:
        return ""
    if step.number is not None:
        return f"Compiling takes longer than it can save in them; {hint('calls')} sets another number."
    eager, compiled = duration(timing.eager_us / 1e6), duration(timing.compiled_us / 1e6)
    return f"An eager call takes {eager}, a compiled one {compiled}, in {count(timing.pairs, 'pair')}."


def _graphs_evidence(step: NextStep, _: Snapshot) -> str:
    idle = f"The device waits for launches in {step.share:.0%} of a compiled call." if step.share is not None else ""
    return f"{idle} torch records no CUDA graph: {step.detail}".strip() if step.detail else idle


def _work_evidence(purpose: str) -> Callable[[NextStep, Snapshot], str]:
    def describe(step: NextStep, _: Snapshot) -> str:
        ops = step.detail or "matrix products"
        calls = count(step.number or 1, "call")
        return f"{calls} of {ops}: {_of_a_call(step).removeprefix('takes ')}{purpose}."

    return describe


def _mode_evidence(step: NextStep, snapshot: Snapshot) -> str:
    if step.number is None:
        return f"The study of modes timed it ({hint('modes')}): the gain is over your file's own mode, not over eager."
    purpose = " in library calls; this mode also tries Inductor's own templates"
    return _work_evidence(purpose)(step, snapshot)


def _blocks_evidence(step: NextStep, snapshot: Snapshot) -> str:
    compiled = f"The compile takes {duration(step.gain.high)}" if not step.gain.measured and step.gain.high else ""
    kinds = snapshot.repeated_blocks.kinds if snapshot.repeated_blocks is not None else ()
    blocks = ", ".join(f"{number} × {name}" for name, number in kinds)
    return f"{compiled or 'The compile is long'}, and the model repeats its blocks: {blocks}."


_EVIDENCE: dict[StepAction, Callable[[NextStep, Snapshot], str]] = {
    "correct_result": lambda *_: "Compiled gives a wrong result, so no speed matters yet.",
    "fix_break": _break_evidence,
    "fix_breaks": _breaks_evidence,
    "compile_function": lambda step, _: f"Dynamo skipped it, so its ops run eagerly: {step.detail}",
    "compile_once": lambda step, _: f"It was called {step.number or 0:,} times here. Each call makes a wrapper, whose "
    "first call takes longer.",
    "avoid_recompiles": _recompile_evidence,
    "run_eagerly": _eager_evidence,
    "cuda_graphs": _graphs_evidence,
    "mode": _mode_evidence,
    "autocast": _work_evidence(" in float32"),
    "matmul_precision": _work_evidence(" in full float32"),
    "freezing": _work_evidence("; gradients are off, so their weights can be packed once"),
    "channels_last": _work_evidence(" on images that are stored channel by channel"),
    "guard_filter": lambda step, _: f"Checking guards {_of_a_call(step)}.",
    "larger_batch": lambda step, _: f"Launch, Python and guards: {_of_a_call(step).removeprefix('takes ')}. "
    "They do not grow with the batch.",
    "compile_blocks": _blocks_evidence,
}  # fmt: skip


def results(step: NextStep, snapshot: Snapshot) -> Iterator[str]:
    """Yield what the trial of a step showed, as sentences."""
    tried = step.tried
    if tried is None:
        if step.config is not None and not snapshot.trace and (why := why_not_tried(step, snapshot)):
            yield f"It cannot be tried here: {why}."
        if step.earlier is not None:
            before = step.earlier.tried
            gain = before.problem.rstrip(".") or _describe_trial(measured_gain(step, before), before)
            when = ", before the file changed" if step.earlier.file_changed else ""
            yield f"Tried in run {step.earlier.run}{when}: {gain}."
        return
    if tried.problem:
        yield f"Tried: {tried.problem}"
        return
    if tried.same_code:
        yield "Tried: torch makes the same kernels with it."
    if tried.compile_s is not None and tried.saved_compile_s is not None:
        yield f"Tried: compiling takes {duration(tried.compile_s[1])} instead of {duration(tried.compile_s[0])}."
    if tried.fixes is not None:
        verified, breaks = tried.fixes
        yield f"{verified} of {breaks} fixes are verified, each on top of those before."
    if tried.recompiles is not None:
        yield f"Recompiles: {tried.recompiles[0]} → {tried.recompiles[1]}."
    if tried.before_us is not None and tried.after_us is not None:
        each = f" for {step.number} items instead of {step.before}" if step.action == "larger_batch" else ""
        speed = f", {tried.verdict}" if tried.verdict in ("undecided", "no difference") else ""
        calls = f"{duration(tried.after_us / 1e6)} instead of {duration(tried.before_us / 1e6)}"
        unit = "step" if snapshot.is_script else "call"
        yield f"A compiled {unit} takes {calls}{each}{speed}."
        if tried.speedups is not None:
            without, with_it = tried.speedups
            yield f"Each in its own process, compared over eager: {with_it:.2f}× with it, {without:.2f}× without."
    if tried.results is not None:
        yield describe_results(tried.results)


def why_not_tried(step: NextStep, snapshot: Snapshot) -> str:
    """Return why a step cannot be tried; empty if it can."""
    if step.trial is not None:
        return ""
    if not snapshot.is_script:
        return "it is an edit of your file"
    study = f"; {hint('recompiles')} tries it on calls of one region" * (step.action == "avoid_recompiles")
    return f"the script calls torch.compile itself{study}"


def describe_results(checked: ChangeChecked) -> str:
    """Return how far results differ from eager's without the step."""
    if checked.verdict == "not judged":
        return f"Results not compared: {checked.reason}." if checked.reason else ""
    if checked.verdict == "identical":
        return "Results identical to eager's."
    relative = "" if checked.max_rel is None else f" ({checked.max_rel:.2g} of the largest value)"
    by = f"by up to {checked.max_abs:.2g}{relative}" if checked.max_abs is not None else "in NaN or infinity"
    types = f"; {', '.join(checked.differences)}" if checked.differences else ""
    return f"Results differ from eager's {by}: {checked.verdict}{types}."


def code_of(step: NextStep) -> str:
    """Return the code to write; empty if it depends on the file."""
    fix = step.fix
    codes: dict[StepAction, str] = {
        "fix_break": "\n".join(lines_of_fix(fix)) if fix is not None else "",
        "cuda_graphs": "torch.compile(model, mode='reduce-overhead')" if step.config is not None else "",
        "mode": f"torch.compile(model, mode={step.target!r})",
        "autocast": f"with torch.autocast(device_type, torch.{step.target}): ...",
        "matmul_precision": f"torch.set_float32_matmul_precision({step.target!r})",
        "freezing": FREEZING.replace("=", " = "),
        "channels_last": "model.to(memory_format=torch.channels_last)",
        "guard_filter": filter_code(step.target) if step.action == "guard_filter" else "",
        "compile_blocks": f"for block in blocks: block.compile()  # each {step.target}",
    }
    return codes.get(step.action, "")


def risk_of(step: NextStep) -> str:
    """Return what a step makes worse or unsafe, as far as it is known; empty for nothing."""
    if step.action == "guard_filter":
        return f"Unsafe: {UNSAFE.get(step.target, 'what the dropped guards check goes unnoticed')}."
    checked = step.tried.results if step.tried is not None else None
    if checked is not None and checked.verdict not in (*PRECISE, "not judged"):
        return "The results change: check your metric."
    return ""
