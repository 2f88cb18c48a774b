"""What to do next: steps that this run gives a reason for, with their gain as far as it is measured, best first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from tcexplore import events as ev
from tcexplore.events.config import INDUCTOR, SKIP_GUARD_EVAL
from tcexplore.session.economics import (
    GUARD_FILTERS,
    VISIBLE_GUARD_SHARE,
    certain_loss,
    economics,
    guard_cost,
    script_steps,
)
from tcexplore.session.history import wrong_result
from tcexplore.session.links import GUARD_FILTERS_LINK, Link, break_link, entry_link, kernel_link, line_links
from tcexplore.session.ranked_breaks import RankedBreak, rank_breaks, uncompiled_functions
from tcexplore.session.recompile_fixes import (
    DYNAMIC,
    MARK_DYNAMIC,
    MARK_UNBACKED,
    TENSOR,
    RecompileFix,
    recompile_fixes,
)
from tcexplore.session.snapshot import EarlierTrial, Snapshot
from tcexplore.targets.target_names import NATIVE

StepAction = Literal[
    "correct_result", "fix_break", "fix_breaks", "compile_function", "compile_once", "avoid_recompiles", "run_eagerly",
    "cuda_graphs", "mode", "autocast", "matmul_precision", "freezing", "channels_last", "guard_filter", "larger_batch",
    "compile_blocks",
]  # fmt: skip
"""`fix_breaks`: fix all breaks that have a fix. `compile_once`: call `torch.compile` before a loop instead of in it.
`run_eagerly`: leave the program uncompiled.
`freezing`: make the weights constants of the graph. `compile_blocks`: compile each kind of repeated block once, instead
of the whole model."""

GainUnit = Literal["times faster", "seconds"]
"""`times faster`: time of a compiled call now over the time afterwards, per item for a larger batch. `seconds`: compile
time saved, once; for `run_eagerly`, what compiling loses over the calls that the user expects, or the script's
steps."""

StepTrial = Literal["run", "fix", "fixes", "bisect"]
"""How a step is tried. `run`: in a run with another configuration. `fix`: by the fix of a graph break. `fixes`: by the
fixes of all breaks together. `bisect`: by the bisect study."""

CALLS = 10_000
"""Calls over which gains are compared if the user names no number, and the program has none of its own."""

VISIBLE_SHARE = 0.2
"""Share of a compiled call that ops must take for a step that speeds them up."""

OVERHEAD_SHARE = 0.3
"""Share of a compiled call that launch, Python and guards must take for a larger batch."""

LONG_COMPILE_S = 5.0
"""Compile time from which on a model with repeated blocks is worth compiling block by block."""

NOTICED_S = 1.0
"""Seconds of recompiles from which avoiding them is a gain of its own, whatever a call takes."""

BLOCKS = 4
"""Repeated blocks of one kind from which on this may help."""

MADE_ONCE = 3
"""Times that `torch.compile` may make a function anew outside of a loop of steps."""

MOST = 3
"""Breaks, and functions, that have a step each."""

IN_FLOAT32 = "float32"

CALL_FOLD, COMPILE_FOLD = "one call", "compile time"
"""Folds of the timing view: the parts of a call, and the spans of the compile."""

MATRIX_OPS = frozenset({
    "aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm", "mkldnn._linear_pointwise", "mkl._mkl_linear",
    "aten._scaled_dot_product_flash_attention_for_cpu", "aten._scaled_dot_product_efficient_attention",
    "aten._scaled_dot_product_flash_attention", "aten._scaled_dot_product_cudnn_attention",
})  # fmt: skip
CONVOLUTIONS = frozenset({
    "aten.convolution", "aten.convolution_backward", "mkldnn._convolution_pointwise",
    "mkldnn._convolution_transpose_pointwise",
})  # fmt: skip
FIXED_WEIGHTS = MATRIX_OPS - {op for op in MATRIX_OPS if "attention" in op or op in ("aten.bmm", "aten.baddbmm")}
"""Products whose weights can be packed ahead of the calls."""

_ARGUMENT = re.compile(r"([A-Za-z_]\w*)|args\[(\d+)\]|kwargs\['(\w+)'\]")
"""An argument as Dynamo names it, also if it passes it to a module of torch through `args` and `kwargs`."""

_SIZES = re.compile(r"\[(\d+)")


class Gain(NamedTuple):
    """What a step saves; an end that is not known is None."""

    low: float | None
    value: float | None
    high: float | None
    unit: GainUnit = "times faster"
    measured: bool = False
    """Whether it was measured with the step in effect, with its interval. Otherwise `high` is the most that the
    measured parts of a call allow."""

    @property
    def helps(self) -> bool:
        """Whether it is measured and certainly a gain."""
        least = 1.0 if self.unit == "times faster" else 0.0
        return self.measured and self.low is not None and self.low > least


NOT_MEASURED = Gain(None, None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """Something to do next."""

    action: StepAction
    target: str
    """What it is done to: a line of code, a function, a size, a mode."""
    gain: Gain = NOT_MEASURED
    share: float | None = None
    """Share of a compiled call that the reason for it takes; None if unknown."""
    us: float | None = None
    """The same in microseconds."""
    contradicted: str = ""
    """Why the share is unclear although it was measured."""
    number: int | None = None
    """Number of what it is about: calls of an op, recompiles, blocks, the larger batch."""
    before: int | None = None
    """That number now, of what the step changes: the batch."""
    detail: str = ""
    """torch's reason, names of ops, or the unit of `number`."""
    location: ev.Location | None = None
    links: tuple[Link, ...] = ()
    """What it rests on."""
    view: tuple[str, str] = ("timing", "timing")
    """Pane and view that show it."""
    fold: str = ""
    """Fold of that view that has it; empty if it needs no fold."""
    trial: StepTrial | None = None
    """How it can be tried; None if it cannot."""
    config: ev.Config | None = None
    """Configuration of its trial."""
    compiles: bool = False
    """Whether its trial compares compile times."""
    tried: ev.StepTried | None = None
    earlier: EarlierTrial | None = None
    """Its newest trial in an earlier run, while this run has none."""
    fix: ev.BreakFix | None = None
    """What is known of the fix, of a break."""
    recompile_fix: RecompileFix | None = None
    recompiles: int = 0
    """Recompiles that the removal of a break avoids, too."""
    recompile_s: float = 0.0
    """What they took in this run."""

    @property
    def key(self) -> str:
        """Its identity within the runs of a file."""
        return f"{self.action} {self.target}"

    @property
    def saves_recompiles(self) -> bool:
        """Whether it is measured, and avoids recompiles that took a time that the user notices."""
        return self.gain.measured and self.recompile_s >= NOTICED_S

    @property
    def gainless(self) -> bool:
        """Whether it was measured, here or in an earlier run, and is no certain gain, nor avoids a recompile."""
        tried = self.earlier.tried if self.earlier is not None else self.tried
        gain = measured_gain(self, tried) if tried is not None else self.gain
        measured = gain.measured or (tried is not None and (tried.same_code or bool(tried.problem)))
        return measured and not gain.helps and not self.recompiles


def next_steps(snapshot: Snapshot) -> tuple[NextStep, ...]:
    """Return the steps, the greatest gain over the expected calls first, then those that are not measured.

    Steps that were measured without a certain gain come last, those of an earlier run before those of this one.
    """
    if not snapshot.compiled:
        return ()
    made = {step.key: step for make in _SOURCES for step in make(snapshot)}
    steps = [_with_result(step, snapshot) for step in _joined_to_breaks(made.values())]
    return tuple(sorted(steps, key=lambda step: _rank(step, snapshot)))


def _joined_to_breaks(steps: Iterable[NextStep]) -> list[NextStep]:
    """Return the steps; recompiles that the removal of a break avoids are no step beside the one that removes it."""
    of_break: dict[Link, list[NextStep]] = {}
    others: list[NextStep] = []
    for step in steps:
        fix = step.recompile_fix
        (of_break.setdefault(break_link(fix.graph_break), []) if fix and fix.graph_break else others).append(step)
    joined: list[NextStep] = []
    for step in others:
        avoided = of_break.pop(step.links[0], []) if step.action == "fix_break" else []
        joined.append(
            replace(
                step,
                recompiles=sum(each.number or 0 for each in avoided),
                recompile_s=sum(each.gain.high or 0.0 for each in avoided),
                links=(*step.links, *(link for each in avoided for link in each.links)),
            )
        )
    return [*joined, *(step for rest in of_break.values() for step in rest)]


def _rank(step: NextStep, snapshot: Snapshot) -> tuple[int, float, bool]:
    # Of steps about whose gain nothing is known, a break that no edit removes comes last: it may be torch's own.
    without_edit = step.fix is not None and step.fix.state in ("none", "refused")
    # A larger batch is more work for each call: what makes the same work faster comes before it.
    order, saved_s = (4 if step.action == "larger_batch" else 3), 0.0
    if step.action == "correct_result":
        order = 0
    elif step.gainless:
        order = 6 if step.earlier is None else 5
    elif step.gain.helps:
        order, saved_s = 1, _saved_s(step.gain.low, step.gain, snapshot)
    elif step.saves_recompiles:
        saved_s = _saved_s(step.gain.low, step.gain, snapshot)
        order = 1 if saved_s + step.recompile_s > 0 else 3
    elif step.fix is not None and step.fix.state == "verified" and not step.gain.measured:
        order = 2
    elif step.earlier is not None:
        gain = measured_gain(step, step.earlier.tried)
        saved_s = _saved_s(gain.low, gain, snapshot)
    elif step.gain.high is not None:
        saved_s = _saved_s(step.gain.high, step.gain, snapshot)
    else:  # the most that it could save: all of the time that it is about
        saved_s = (step.share or 0.0) * _call_s(snapshot)
    return order, -saved_s - step.recompile_s, without_edit


def _saved_s(gain: float | None, of: Gain, snapshot: Snapshot) -> float:
    """Return the seconds that a gain saves over the expected calls."""
    if gain is None:
        return 0.0
    if of.unit == "seconds":
        return gain
    return (1 - 1 / gain) * _call_s(snapshot) if gain > 0 else 0.0


def _call_s(snapshot: Snapshot) -> float:
    """Return the seconds that the expected calls take."""
    timing = snapshot.call_timing
    call_us = timing.compiled_us if timing is not None else 0.0
    return call_us * compared_calls(snapshot) / 1e6


def compared_calls(snapshot: Snapshot) -> int:
    """Return the calls, or steps of a script, over which gains are compared."""
    return snapshot.expected_calls or script_steps(snapshot) or CALLS


def _with_result(step: NextStep, snapshot: Snapshot) -> NextStep:
    """Return a step with the result of its trial."""
    tried = next((tried for tried in snapshot.steps_tried if tried.step == step.key), None)
    if tried is None:
        earlier = next((trial for trial in snapshot.tried_before if trial.tried.step == step.key), None)
        return replace(step, earlier=earlier)
    return replace(step, tried=tried, gain=measured_gain(step, tried))


def measured_gain(step: NextStep, tried: ev.StepTried) -> Gain:
    """Return the gain that a trial of a step measured; what is known without it, if it measured none."""
    if step.compiles and tried.saved_compile_s is not None and tried.compile_s is not None:
        low, high = tried.saved_compile_s
        return Gain(low, tried.compile_s[0] - tried.compile_s[1], high, "seconds", measured=True)
    if not step.compiles and tried.speedup is not None and tried.verdict != "measuring":
        return Gain(tried.low, tried.speedup, tried.high, measured=True)
    return step.gain


# ---- the result, breaks, functions, recompiles


def _correct_result(snapshot: Snapshot) -> Iterator[NextStep]:
    if wrong_result(snapshot) and snapshot.accuracy is not None:
        yield NextStep(action="correct_result", target=snapshot.accuracy.worst, trial="bisect")


def _breaks(snapshot: Snapshot) -> Iterator[NextStep]:
    """Yield the fixes of all breaks together, and those of the breaks that matter most."""
    steps = [_break(ranked, snapshot) for ranked in rank_breaks(snapshot)]
    if sum(step.trial is not None for step in steps) > 1:
        yield _all_breaks([step for step in steps if step.trial is not None])
    yield from sorted(steps, key=lambda step: _rank(step, snapshot))[:MOST]


def _all_breaks(steps: Sequence[NextStep]) -> NextStep:
    """Return the step that fixes all breaks with a fix; its share is unknown if that of a break is."""
    shares = [step.share for step in steps if step.share is not None]
    known = len(shares) == len(steps) and sum(shares) <= 1
    return NextStep(
        action="fix_breaks", target=f"{len(steps)} breaks", number=len(steps),
        share=sum(shares) if known else None, us=sum(step.us or 0.0 for step in steps) if known else None,
        location=steps[0].location, links=tuple(link for step in steps for link in step.links),
        view=("breaks", "breaks"), trial="fixes",
    )  # fmt: skip


def _break(ranked: RankedBreak, snapshot: Snapshot) -> NextStep:
    graph_break = ranked.graph_break
    fix = snapshot.fix_of(graph_break)
    share, us = (None, None) if ranked.contradicted else (ranked.share, ranked.us)
    return NextStep(
        action="fix_break", target=graph_break.code.strip() or graph_break.kind, gain=_fix_gain(fix),
        share=share, us=us, contradicted=ranked.contradicted,
        detail=graph_break.reason or graph_break.kind, location=graph_break.location,
        links=(break_link(graph_break), *line_links(graph_break.location)), view=("breaks", "breaks"),
        trial="fix" if fix is not None and fix.state not in ("none", "refused") and not snapshot.trace else None,
        fix=fix,
    )  # fmt: skip


def _fix_gain(fix: ev.BreakFix | None) -> Gain:
    """Return the gain of a verified fix, from pairs of calls with and without it."""
    gain = fix.gain if fix is not None and fix.state == "verified" else None
    if gain is None or not gain.call_us:
        return NOT_MEASURED
    low, value, high = (_times(saved / gain.call_us) for saved in (gain.low_us, gain.us, gain.high_us))
    return Gain(low, value, high, measured=True)


def _times(share: float) -> float | None:
    """Return by how many times a call is faster if a share of it is saved."""
    return 1 / (1 - share) if share < 1 else None


def _functions(snapshot: Snapshot) -> Iterator[NextStep]:
    """Yield functions that run eagerly because Dynamo skipped them, unless a break has its own step for that."""
    broken = {(at.file, at.function) for at in (graph_break.location for graph_break in snapshot.breaks) if at}
    for skipped in uncompiled_functions(snapshot)[:MOST]:
        if (skipped.frame.file, skipped.frame.function) not in broken:
            yield NextStep(
                action="compile_function", target=skipped.frame.function or f"line {skipped.frame.line}",
                detail=skipped.reason, location=skipped.frame, links=line_links(skipped.frame),
                view=("breaks", "breaks"),
            )  # fmt: skip


def made_in_each_step(seen: ev.RegionCalls) -> bool:
    """Return whether `torch.compile` makes a region about as often as it is called."""
    return seen.made > MADE_ONCE and seen.made >= (seen.calls + seen.eager) / 2


def _made_in_each_step(snapshot: Snapshot) -> Iterator[NextStep]:
    """Yield regions that a loop makes: it may make them once."""
    made = {seen.region: seen.made for seen in snapshot.region_calls if made_in_each_step(seen)}
    for region in snapshot.regions:
        if region.region in made:
            yield NextStep(
                action="compile_once", target=region.name, number=made[region.region], location=region.location,
                links=line_links(region.location), view=("timing", "regions"),
            )  # fmt: skip


def _recompiles(snapshot: Snapshot) -> Iterator[NextStep]:
    """Yield the fix that avoids the most recompiles, for each argument or size that causes some."""
    best: dict[tuple[str, ...], RecompileFix] = {}
    for fix in recompile_fixes(snapshot):
        if (fix.avoids or not fix.tried) and fix.graphs and not fix.problem:
            known = best.get(fix.graphs)
            if known is None or (len(fix.avoids), fix.tried) > (len(known.avoids), known.tried):
                best[fix.graphs] = fix
    seconds = _compile_seconds(snapshot)
    for graphs, fix in best.items():
        avoided = fix.avoids or (*graphs, *fix.after_breaks)
        config = recompile_config(fix, snapshot.config)
        yield NextStep(
            action="avoid_recompiles", target=_recompile_target(fix),
            gain=Gain(None, None, sum(seconds.get(graph, 0.0) for graph in avoided) or None, "seconds"),
            number=len(avoided), location=fix.location, links=tuple(map(entry_link, avoided)),
            view=("guards", "entries"), trial=_run_trial(snapshot, config),
            config=config, compiles=True, recompile_fix=fix,
        )  # fmt: skip


def _compile_seconds(snapshot: Snapshot) -> dict[str, float]:
    """Return the compile time of each graph."""
    seconds: dict[str, float] = {}
    for phase in snapshot.phase_times:
        if phase.depth == 0 and phase.graph:
            seconds[phase.graph] = seconds.get(phase.graph, 0.0) + phase.seconds
    return seconds


def _recompile_target(fix: RecompileFix) -> str:
    if fix.parts:
        return " and ".join(part.name or part.kind for part in fix.parts)
    size = "" if fix.dim is None else f".{fix.dim}"
    return f"{fix.name}{size}" if fix.name else fix.kind


def recompile_config(fix: RecompileFix, config: ev.Config) -> ev.Config | None:
    """Return the configuration with a fix in effect; None if it is an edit of the file."""
    sizes = [(_argument(name), dim) for name, dim in ((fix.name, fix.dim), *fix.other_sizes)]
    dims = tuple(f"{name}.{dim}" for name, dim in sizes)
    plain = all(name for name, _ in sizes)
    if fix.kind == DYNAMIC:
        return replace(config, dynamic=True, override=(*config.override, "dynamic"))
    if fix.kind == MARK_DYNAMIC and plain:
        return replace(config, mark_dynamic=(*config.mark_dynamic, *dims))
    if fix.kind == MARK_UNBACKED and plain:
        return replace(config, mark_unbacked=(*config.mark_unbacked, *dims))
    if fix.kind == TENSOR and plain:
        return replace(config, as_tensors=(*config.as_tensors, sizes[0][0]))
    return None


def _argument(name: str) -> str:
    """Return the name or the position of an argument as in `Config.mark_dynamic`; empty if it is none."""
    match = _ARGUMENT.fullmatch(name)
    return next(filter(None, match.groups()), "") if match is not None else ""


# ---- the time of a call


def _eager(snapshot: Snapshot) -> Iterator[NextStep]:
    """Yield that eager is faster, in each call, or over the calls that the user expects or the steps of the script."""
    timing, calls = snapshot.timing, snapshot.expected_calls or script_steps(snapshot)
    if timing is not None and timing.verdict == "slower":
        gain = Gain(1 / timing.high, 1 / timing.speedup, 1 / timing.low, measured=True)
        yield NextStep(action="run_eagerly", target="the program", gain=gain)
    elif timing is not None and calls is not None:
        costs = economics(snapshot)
        known = [costs.cost_s, *((costs.warm_payback.compile_s,) if costs.warm_payback is not None else ())]
        # The next start may find what this one compiled.
        least_s = min((cost for cost in known if cost is not None), default=None)
        loss = certain_loss(timing, least_s, calls) if least_s is not None else None
        if loss is not None:
            gain = Gain(loss.low, loss.value, loss.high, "seconds", measured=True)
            yield NextStep(action="run_eagerly", target="the program", gain=gain, number=calls, detail=timing.unit)


def _cuda_graphs(snapshot: Snapshot) -> Iterator[NextStep]:
    """Yield CUDA graphs if the device waits for launches, or why torch leaves them out."""
    timing = snapshot.call_timing
    if timing is None or not timing.launch_bound or not timing.compiled_kernels_us or snapshot.cuda_graphs:
        return
    times = _without_waits(snapshot, timing.compiled_us, timing.compiled_kernels_us)
    if times is None:
        return
    share, most = 1 - timing.compiled_kernels_us / timing.compiled_us, Gain(None, None, times)
    if snapshot.cuda_graphs_skipped:
        reason = snapshot.cuda_graphs_skipped[0].reason
        yield NextStep(action="cuda_graphs", target="skipped by torch", gain=most, share=share, detail=reason)
    elif _may_vary_mode(snapshot):
        yield NextStep(
            action="cuda_graphs", target="reduce-overhead", gain=most, share=share, us=share * timing.compiled_us,
            trial="run", config=_with_mode(snapshot.config, "reduce-overhead"),
        )  # fmt: skip


def _without_waits(snapshot: Snapshot, call_us: float, kernels_us: float) -> float | None:
    """Return how many times as fast a call is, or a step of a script, if a call takes as long as its kernels.

    None if a step has no such call.
    """
    steps, timing = snapshot.steps, snapshot.timing
    if steps is None or timing is None or timing.unit != "step" or not snapshot.captured_calls:
        return call_us / kernels_us
    region = snapshot.captured_calls[0].region
    calls = next((each.calls for each in steps.regions if each.region == region), 0.0)
    if not calls:
        return None
    least_us = max(kernels_us * calls, timing.compiled_us - calls * (call_us - kernels_us))
    return timing.compiled_us / least_us


def _with_mode(config: ev.Config, mode: str) -> ev.Config:
    return replace(config, mode=mode, override=tuple(dict.fromkeys((*config.override, "mode"))))


def _may_vary_mode(snapshot: Snapshot) -> bool:
    return _by_inductor(snapshot) and all(
        config.mode == "default" and not any(text.startswith("options=") for text in config.compile_arguments)
        for config in snapshot.configs
    )


def _by_inductor(snapshot: Snapshot) -> bool:
    return all(config.backend == INDUCTOR for config in snapshot.configs)


def _run_trial(snapshot: Snapshot, config: ev.Config | None) -> StepTrial | None:
    """Return whether a run can have this configuration: in a script, only arguments of its own torch.compile vary."""
    if config is None or (snapshot.is_script and config.override == snapshot.config.override):
        return None
    return "run"


class _Work(NamedTuple):
    """Kernels of one kind in a compiled call."""

    us: float
    share: float
    ops: tuple[str, ...]
    launches: int
    links: tuple[Link, ...]


def _work(snapshot: Snapshot, chosen: Callable[[ev.Kernel], bool]) -> _Work | None:
    """Return the time of the chosen kernels; None unless they take a visible share of the call."""
    account = snapshot.call_account
    if account is None or not account.total_us:
        return None
    code = snapshot.code_for(NATIVE)
    kernels: dict[tuple[str, str, str], ev.Kernel] = {
        (k.graph, k.phase, k.name): k for k in code.kernels if _is_product(k) and chosen(k)
    }
    parts = [
        (part, kernels[part.graph, part.phase, part.name])
        for part in account.parts
        if (part.graph, part.phase, part.name) in kernels
    ]
    us = sum(part.us for part, _ in parts)
    if us < VISIBLE_SHARE * account.total_us:
        return None
    ops = dict.fromkeys(op for _, kernel in parts for op in kernel.ops if op in MATRIX_OPS | CONVOLUTIONS)
    launches = sum(part.launches for part, _ in parts)
    return _Work(us, us / account.total_us, tuple(ops), launches, tuple(kernel_link(kernel) for _, kernel in parts))


def _is_product(kernel: ev.Kernel) -> bool:
    """Return whether a kernel is a library call or a template, not one that prepares the inputs of such."""
    return not kernel.generated or kernel.fusion in ("template", "template epilogue")


def _work_step(action: StepAction, target: str, work: _Work, snapshot: Snapshot, config: ev.Config) -> NextStep:
    return NextStep(
        action=action, target=target, share=work.share, us=work.us, number=work.launches, detail=", ".join(work.ops),
        links=work.links, view=("code", "kernels"), trial=_run_trial(snapshot, config), config=config,
    )  # fmt: skip


def _in_float32(kernel: ev.Kernel) -> bool:
    return set(kernel.dtypes) == {IN_FLOAT32}


def _mode(snapshot: Snapshot) -> Iterator[NextStep]:
    """Yield the modes that the modes study measured, in this run or an earlier one.

    Also the one that tries Inductor's own templates, if library calls take a visible share.
    """
    if not _may_vary_mode(snapshot):
        return
    for tried in (*snapshot.steps_tried, *(trial.tried for trial in snapshot.tried_before)):
        action, _, mode = tried.step.partition(" ")
        if action == "mode":
            yield NextStep(action="mode", target=mode, trial="run", config=_with_mode(snapshot.config, mode))
    of_library = _work(snapshot, lambda k: not k.generated and not (MATRIX_OPS | CONVOLUTIONS).isdisjoint(k.ops))
    if of_library is not None:
        config = _with_mode(snapshot.config, "max-autotune")
        yield _work_step("mode", "max-autotune", of_library, snapshot, config)


def _types(snapshot: Snapshot) -> Iterator[NextStep]:
    """Yield bfloat16, and on a GPU the precision of float32 products, for products and convolutions in float32."""
    config = snapshot.config
    work = _work(snapshot, lambda k: _in_float32(k) and not (MATRIX_OPS | CONVOLUTIONS).isdisjoint(k.ops))
    if work is not None and not config.autocast:
        yield _work_step("autocast", "bfloat16", work, snapshot, replace(config, autocast="bfloat16"))
    products = _work(snapshot, lambda k: _in_float32(k) and not MATRIX_OPS.isdisjoint(k.ops))
    if products is not None and _on_gpu(snapshot) and not config.matmul_precision:
        yield _work_step("matmul_precision", "high", products, snapshot, replace(config, matmul_precision="high"))


def _on_gpu(snapshot: Snapshot) -> bool:
    return snapshot.timing is not None and snapshot.timing.device.startswith("cuda")


FREEZING = "torch._inductor.config.freezing=True"


def _freezing(snapshot: Snapshot) -> Iterator[NextStep]:
    """Yield constant weights for inference on a CPU, where products with packed weights are faster."""
    gradients = snapshot.grad_mode is None or snapshot.grad_mode.enabled
    if not _by_inductor(snapshot) or gradients or _on_gpu(snapshot) or FREEZING in snapshot.config.settings:
        return
    work = _work(snapshot, lambda k: not (FIXED_WEIGHTS | CONVOLUTIONS).isdisjoint(k.ops))
    if work is not None and snapshot.entry is not None and snapshot.entry.kind == "module":
        config = replace(snapshot.config, settings=(*snapshot.config.settings, FREEZING))
        yield _work_step("freezing", "weights", work, snapshot, config)


def _channels_last(snapshot: Snapshot) -> Iterator[NextStep]:
    """Yield channels last for convolutions of contiguous images."""
    graphs = snapshot.code_for(NATIVE).aten_graphs
    nodes = [node for graph in graphs if graph.stage == "post_grad" for node in graph.all_nodes]
    images = [node for node in nodes if node.target.startswith("aten.convolution") and len(node.shape or ()) == 4]
    contiguous = any(node.op == "placeholder" and len(node.shape or ()) == 4 and _is_image(node) for node in nodes)
    work = _work(snapshot, lambda k: not CONVOLUTIONS.isdisjoint(k.ops)) if images and contiguous else None
    if work is not None and not snapshot.config.channels_last:
        yield _work_step("channels_last", "model and inputs", work, snapshot,
                         replace(snapshot.config, channels_last=True))  # fmt: skip


def _is_image(node: ev.FxNode) -> bool:
    """Return whether a tensor of four dimensions is stored channel by channel."""
    sizes, strides = node.shape or (), node.stride or ()
    if len(strides) != 4 or not all(text.isdecimal() for text in (*sizes, *strides)):
        return False
    return int(sizes[1]) > 1 and int(strides[1]) != 1


def _guard_filter(snapshot: Snapshot) -> Iterator[NextStep]:
    """Yield the safest guard filter, or the best that was tried, if guards take a visible share of a call."""
    cost = guard_cost(snapshot)
    if cost is None or cost.cold or cost.shares[0] < VISIBLE_GUARD_SHARE or snapshot.config.guard_filter:
        return
    account = snapshot.call_account
    guards = [part for part in account.parts if part.kind == "guards"] if account is not None else []
    share = sum(part.high_us for part in guards) / account.total_us if account is not None else 0.0
    known = [tried for tried in snapshot.guard_filters if tried.decided and not tried.wrong]
    best = max(known, key=lambda tried: tried.low, default=None)
    name = best.name if best is not None else GUARD_FILTERS[0]
    gain = Gain(1.0, None, _times(share))
    if best is not None:
        gain = Gain(best.low, best.speed, best.high, measured=True)
    # A stance is of the whole process, in which both sides are timed.
    config = replace(snapshot.config, guard_filter=name) if name != SKIP_GUARD_EVAL else None
    yield NextStep(
        action="guard_filter", target=name, gain=gain, share=cost.share, us=cost.us, links=(GUARD_FILTERS_LINK,),
        view=("guards", "guards"), trial=_run_trial(snapshot, config), config=config,
    )  # fmt: skip


def _larger_batch(snapshot: Snapshot) -> Iterator[NextStep]:
    """Yield twice the batch if launch, Python and guards take much of a call."""
    account, config, entry = snapshot.call_account, snapshot.config, snapshot.entry
    if account is None or not account.total_us or entry is None or len(entry.calls) != 1 or config.sizes or config.vary:
        return
    us = account.us("launch", "Python", "guards", "idle")
    size = next(filter(None, map(_SIZES.search, entry.calls[0])), None)
    if us < OVERHEAD_SHARE * account.total_us or size is None:
        return
    batch = int(size[1])
    larger = replace(config, dim=0, sizes=(2 * batch,))
    yield NextStep(
        action="larger_batch", target="dimension 0", share=us / account.total_us, us=us, before=batch,
        number=2 * batch, fold=CALL_FOLD, trial=_run_trial(snapshot, larger), config=larger,
    )  # fmt: skip


def _compile_blocks(snapshot: Snapshot) -> Iterator[NextStep]:
    """Yield regional compilation for a long compile of a model that repeats blocks."""
    seconds, blocks = economics(snapshot).compile_s, snapshot.repeated_blocks
    repeats = max((number for _, number in blocks.kinds), default=0) if blocks is not None else 0
    whole = snapshot.config.regions == "whole" and _by_inductor(snapshot)
    if seconds is None or seconds < LONG_COMPILE_S or repeats < BLOCKS or not whole or blocks is None:
        return
    kind = max(blocks.kinds, key=lambda each: each[1])[0]
    config = replace(snapshot.config, regions="blocks")
    yield NextStep(
        action="compile_blocks", target=kind, gain=Gain(None, None, seconds, "seconds"), number=repeats,
        fold=COMPILE_FOLD, trial=_run_trial(snapshot, config), config=config, compiles=True,
    )  # fmt: skip


_SOURCES: tuple[Callable[[Snapshot], Iterator[NextStep]], ...] = (
    _correct_result, _breaks, _functions, _made_in_each_step, _recompiles, _eager, _cuda_graphs, _mode, _types,
    _freezing, _channels_last, _guard_filter, _larger_batch, _compile_blocks,
)  # fmt: skip
"""In the order of equal ranks."""
