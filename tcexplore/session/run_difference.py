"""The difference of two runs in time and count, by groups of kernels, with the cause of each.

A cause is read from what both runs recorded: the ops of the program, the graphs before and after Inductor's passes, the
passes that changed them, and the scheduler's decisions. A setting that differs is a cause only if a trial confirms it,
or if nothing else differs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from tcexplore import events as ev
from tcexplore.quantities import count
from tcexplore.session.kernel_groups import AlignedRuns, KernelGroup, OpPair, align_runs, call_name, code_form
from tcexplore.session.run_diff import align, kernel_program
from tcexplore.session.snapshot import Snapshot

CauseKind = Literal[
    "program", "graph break", "tracing", "pass", "decomposition", "lowering", "fusion", "library", "setting", "count"
]
"""`program`: the model file. `tracing`: Dynamo. `library`: what is called, or torch's own code. `count`: of launches,
guards or eager ops."""

Basis = Literal["graphs", "trial", "only difference", "exclusion"]
"""How a cause is known. `graphs`: from what the runs recorded. `trial`: with the other value of a setting, the
difference is gone. `only difference`: no other setting differs; not tried. `exclusion`: the code is equal."""

FEW_LINES = 10
"""Lines of two kernels that differ and are shown."""

LISTED = 4
"""Names in a sentence."""

_OTHER_DEVICE = re.compile(
    r"torch\._inductor\.config\.(?:(?P<cpu>cpp\.|cpu_)|(?P<gpu>triton\.|cuda\.|cutlass|rocm\.|xpu\.|nvgemm|cutedsl|flydsl"
    r"|combo_kernel|cudagraph|coordinate_descent|partitioned_scatter)|(?P<neither>mtia|mps|halide|pallas|aot_inductor|aten_distributed"
    r"|test_configs|compile_worker|.*_bw$|bucket_|.*collective|autoheuristic|max_autotune_\w*timeout))"
)
"""Settings of one kind of device, or of neither a CPU nor a GPU."""


class SettingDifference(NamedTuple):
    """A setting with different values in two runs; None if that torch has no such setting."""

    name: str
    before: str | None
    after: str | None
    default_before: str | None = None
    default_after: str | None = None

    @property
    def default_changed(self) -> bool:
        """Whether both values are the defaults of their torch."""
        return (self.before, self.after) == (self.default_before, self.default_after)

    @property
    def text(self) -> str:
        word = "default " if self.default_changed else ""
        values = ("none" if value is None else value for value in (self.before, self.after))
        return f"{word}{self.name}: {' → '.join(values)}"


@dataclass(frozen=True, slots=True)
class Cause:
    """Why kernels differ."""

    kind: CauseKind
    name: str
    """The pass, op, function or setting."""
    text: str
    """A sentence."""
    basis: Basis = "graphs"
    through: Cause | None = None
    """What a setting changes."""


@dataclass(frozen=True, slots=True)
class PartDifference:
    """A part of a call in two runs: a group of kernels, or what is not a kernel. Times are None without a profile."""

    name: str
    group: KernelGroup | None
    before_us: float | None = None
    after_us: float | None = None
    low_us: float | None = None
    """Ends of the difference: from the least and the greatest share of each side."""
    high_us: float | None = None
    cause: Cause | None = None

    @property
    def us(self) -> float | None:
        """The difference: positive if the later run takes longer."""
        return None if self.before_us is None or self.after_us is None else self.after_us - self.before_us

    @property
    def is_noise(self) -> bool:
        """Whether the intervals of both sides overlap."""
        return self.low_us is not None and self.high_us is not None and self.low_us <= 0 <= self.high_us

    @property
    def kernel_change(self) -> int:
        """How many kernels more the later run has."""
        return len(self.group.after) - len(self.group.before) if self.group else 0


@dataclass(frozen=True, slots=True)
class RunDifference:
    """Two runs compared. Parts are sorted: the greatest difference of time first, then changed kernels."""

    before: Snapshot
    after: Snapshot
    aligned: AlignedRuns
    parts: tuple[PartDifference, ...]
    settings: tuple[SettingDifference, ...]
    libraries: tuple[tuple[str, str, str], ...]
    """Name, and versions in both runs."""
    tried: bool = False
    """Whether settings were tried."""

    @property
    def total_us(self) -> tuple[float, float] | None:
        """The compiled calls; None if one was not profiled."""
        accounts = self.before.call_account, self.after.call_account
        return None if None in accounts else tuple(a.total_us for a in accounts if a)  # type: ignore[return-value]

    @property
    def attributed_share(self) -> float | None:
        """Share of the differences of time beyond the noise whose cause is known; None if nothing differs."""
        return self.share_of(lambda part: part.cause is not None)

    @property
    def excluded_share(self) -> float | None:
        """The part of `attributed_share` that rests on exclusion: equal code."""
        return self.share_of(lambda part: part.cause is not None and part.cause.basis == "exclusion")

    def share_of(self, known: Callable[[PartDifference], bool]) -> float | None:
        """Return the share of parts in the sum of the differences beyond the noise."""
        real = [part for part in self.parts if part.us and not part.is_noise]
        whole = sum(abs(part.us or 0.0) for part in real)
        return sum(abs(part.us or 0.0) for part in real if known(part)) / whole if whole else None

    @property
    def changed(self) -> tuple[PartDifference, ...]:
        """Groups of kernels whose code differs."""
        return tuple(part for part in self.parts if part.group is not None and part.group.kind != "same")


def run_difference(before: Snapshot, after: Snapshot) -> RunDifference:
    """Compare two runs: align their kernels, and name the cause of each difference."""
    aligned = align_runs(before, after)
    settings = setting_differences(before, after)
    causes = _Causes(aligned, settings)
    parts = [replace(part, cause=causes.of(part)) for part in _parts(aligned)]
    parts.sort(key=lambda part: (-abs(part.us or 0.0) if not part.is_noise else 0.0, part.group is None))
    return RunDifference(before, after, aligned, tuple(parts), settings, tuple(causes.libraries))


def with_trial(difference: RunDifference, groups: Iterable[KernelGroup], settings: Sequence[str]) -> RunDifference:
    """Return the difference with settings as the confirmed cause of groups."""
    confirmed = {id(group) for group in groups}
    known = [one for one in difference.settings if one.name in settings]
    text = "; ".join(one.text for one in known)

    def caused(part: PartDifference) -> PartDifference:
        if part.group is None or id(part.group) not in confirmed:
            return part
        through = part.cause.through or part.cause if part.cause else None
        return replace(part, cause=Cause("setting", ", ".join(settings), text, "trial", through))

    return replace(difference, parts=tuple(map(caused, difference.parts)), tried=True)


# ---- settings


def setting_differences(before: Snapshot, after: Snapshot) -> tuple[SettingDifference, ...]:
    """Return the settings that may change the code of the device, those that differ first, then those of one torch."""
    states = before.compiler_state, after.compiler_state
    if states[0] is None or states[1] is None:
        return ()
    device = "gpu" if before.call_account is not None and before.call_account.on_device else "cpu"
    old, new = (_values(state) for state in states if state is not None)
    differ, alone = [], []
    for name in dict.fromkeys((*old, *new)):
        was, now = old.get(name), new.get(name)
        if was == now or _is_of_other_device(name, device):
            continue
        if was is not None and now is not None:
            if was[0] != now[0]:
                differ.append(SettingDifference(name, was[0], now[0], was[1], now[1]))
            continue
        value, default = was or now or ("", "")
        missing_side = now is None
        if value == default and default != "True" and not is_threshold(name, value):
            continue  # a setting of one torch that is off, or a value that only its own code reads
        if name.startswith("torch._inductor.") or value != default:
            alone.append(
                SettingDifference(name, value, None, default, None) if missing_side
                else SettingDifference(name, None, value, None, default)
            )  # fmt: skip
    return (*differ, *alone)


def is_threshold(name: str, value: str | None) -> bool:
    """Return whether a setting is a size from which on something is done: a huge one switches it off."""
    return value is not None and value.isdecimal() and "threshold" in name


def _is_of_other_device(name: str, device: str) -> bool:
    match = _OTHER_DEVICE.match(name)
    return match is not None and match.lastgroup != device


def _values(state: ev.CompilerState) -> dict[str, tuple[str, str]]:
    """Return value and default by name."""
    return {
        **{name: (value, value) for name, value in state.defaults},
        **{setting.name: (setting.value, setting.default) for setting in state.settings},
    }


# ---- parts


def _parts(aligned: AlignedRuns) -> Iterator[PartDifference]:
    """Yield the groups with their times, then everything else of the calls."""
    runs = aligned.before, aligned.after
    times = [_times(run) for run in runs]
    known = all(run.call_account is not None for run in runs)
    for group in aligned.groups:
        part = PartDifference(_name(group), group)
        if known:
            sides = [
                [p for k in kernels if (p := times[n].pop(("kernel", k.graph, k.phase, k.name), None)) is not None]
                for n, kernels in enumerate((group.before, group.after))
            ]
            part = _timed(part, *sides)
        yield part
    if not known:
        return
    rest: dict[str, tuple[list[ev.CallPart], list[ev.CallPart]]] = {}
    for n, side in enumerate(times):
        for part_ in side.values():
            rest.setdefault(f"{part_.kind} {part_.name}".strip(), ([], []))[n].append(part_)
    yield from (_timed(PartDifference(name, None), *both) for name, both in rest.items())


def _times(run: Snapshot) -> dict[tuple[str, str, str, str], ev.CallPart]:
    if run.call_account is None:
        return {}
    return {(part.kind, part.graph, part.phase, part.name): part for part in run.call_account.parts}


def _timed(part: PartDifference, before: Sequence[ev.CallPart], after: Sequence[ev.CallPart]) -> PartDifference:
    low, high = (sum(p.low_us for p in after) - sum(p.high_us for p in before),
                 sum(p.high_us for p in after) - sum(p.low_us for p in before))  # fmt: skip
    return replace(
        part, before_us=sum(p.us for p in before), after_us=sum(p.us for p in after), low_us=low, high_us=high
    )


def _name(group: KernelGroup) -> str:
    """Return `addmm` for equal names, else `addmm → gemm`."""
    sides = [", ".join(kernel.name for kernel in side) for side in (group.before, group.after)]
    return sides[0] if sides[0] == sides[1] else " → ".join(side or "none" for side in sides)


# ---- causes


class _Causes:
    """The causes of the differences of two runs."""

    def __init__(self, aligned: AlignedRuns, settings: Sequence[SettingDifference]) -> None:
        self._aligned = aligned
        self._before, self._after = aligned.before, aligned.after
        self._settings = settings
        self.libraries = list(_library_differences(self._before, self._after))
        self._torches = [run.compiler_state.torch if run.compiler_state else "" for run in (self._before, self._after)]

    def of(self, part: PartDifference) -> Cause | None:
        """Return the cause of a part; None if it is unknown, or if nothing differs."""
        if part.group is None:
            return self._of_rest(part)
        if part.group.kind == "same":
            return self._of_equal_code(part)
        cause = self._of_group(part.group)
        if cause is not None and cause.kind in ("program", "graph break"):
            return cause
        if len(self._settings) == 1 and "<" not in (self._settings[0].after or ""):
            setting = self._settings[0]
            return Cause("setting", setting.name, setting.text, "only difference", cause)
        return cause

    def _of_group(self, group: KernelGroup) -> Cause | None:
        return next(
            (cause for find in (
                self._of_breaks, self._of_program, self._of_pre_grad_passes, self._of_decompositions, self._of_passes,
                self._of_libraries, self._of_fusion, self._of_lowering,
            ) if (cause := find(group)) is not None),
            None,
        )  # fmt: skip

    def _of_program(self, group: KernelGroup) -> Cause | None:
        """Return a difference of Dynamo's graphs: the program, its inputs, or how Dynamo traces it."""
        pairs = self._aligned.pairs_of(group)
        single = [pair for pair in pairs if pair.before is None or pair.after is None]
        edited = self._before.source != self._after.source
        if single:
            words = [f"{'+' if pair.before is None else '−'}{pair.node.target}{_at(pair.node)}" for pair in single]
            kind: CauseKind = "program" if edited else "tracing"
            subject = "the program's ops differ" if edited else "Dynamo traces the same program as other ops"
            return Cause(kind, _listed(pair.node.target for pair in single), f"{subject}: {_listed(words)}")
        for pair in pairs:
            assert pair.before is not None
            assert pair.after is not None
            a, b = pair.before[1], pair.after[1]
            if (a.dtype, a.shape, a.device) != (b.dtype, b.shape, b.device):
                values = " → ".join(f"{n.dtype}{list(n.shape or ())} on {n.device}" for n in (a, b))
                return Cause("program", a.target, f"the result of {a.target}{_at(b)} differs: {values}")
            if edited and _constants(a) != _constants(b):
                return Cause("program", b.target, f"{b.target}{_at(b)} has other arguments: {a.args} → {b.args}")
        return None

    def _of_breaks(self, group: KernelGroup) -> Cause | None:
        """Return the break of one run between ops that are in one graph of the other."""
        graphs = [
            [item[0] for pair in self._aligned.pairs_of(group) if (item := pair[side]) is not None and all(pair)]
            for side in (0, 1)
        ]
        if list(map(graphs[0].index, graphs[0])) == list(map(graphs[1].index, graphs[1])):
            return None
        known = [{(b.kind, b.code) for b in run.breaks} for run in (self._before, self._after)]
        for run, other, word in ((self._after, known[0], "new"), (self._before, known[1], "gone")):
            for graph_break in run.breaks:
                if (graph_break.kind, graph_break.code) not in other:
                    line = f" at line {graph_break.location.line}" if graph_break.location else ""
                    text = f"a graph break{line} is {word}: {graph_break.reason}"
                    return Cause("graph break", graph_break.kind, text)
        return None

    def _of_pre_grad_passes(self, group: KernelGroup) -> Cause | None:
        return self._pass_difference(group, ("pre_grad",))

    def _of_decompositions(self, group: KernelGroup) -> Cause | None:
        """Return the op of the program that AOTAutograd's graphs have in another form."""
        for number, pair in self._numbered(group):
            forms = [
                sum((side.aten_calls([(phase, number)], lowered=False) for phase in ("forward", "backward")), Counter())
                for side in self._aligned.sides
            ]
            if forms[0] != forms[1] and all(forms):
                written = " → ".join(_counted(form) for form in forms)
                text = f"{pair.node.target}{_at(pair.node)} is decomposed in another way: {written}"
                return Cause("decomposition", pair.node.target, text)
        return None

    def _numbered(self, group: KernelGroup) -> Iterator[tuple[int, OpPair]]:
        for number in sorted({op for _, op in group.ops if isinstance(op, int)}):
            yield number, self._aligned.pairs[number]

    def _of_passes(self, group: KernelGroup) -> Cause | None:
        """Return the pass that changed Inductor's graph of one run only."""
        forms = [side.aten_calls(group.ops, lowered=True) for side in self._aligned.sides]
        cause = self._pass_difference(group, ("joint", "post_grad"))
        if forms[0] == forms[1]:
            return cause if cause is not None and self._is_of_order(group) else None
        if cause is not None:
            return cause
        text = f"Inductor's graphs differ: {_counted(forms[0] - forms[1])} → {_counted(forms[1] - forms[0])}"
        return Cause("pass", "", f"{text}; no recorded pass made the change")

    @staticmethod
    def _is_of_order(group: KernelGroup) -> bool:
        """Return whether the same ops are in other kernels, as after a pass that only reorders nodes."""
        return group.kind == "regrouped" and all(kernel.generated for kernel in group.kernels)

    def _pass_difference(self, group: KernelGroup, stages: Sequence[str]) -> Cause | None:
        pairs = self._aligned.pairs_of(group)
        sides = []
        for run, kernels, side in ((self._before, group.before, 0), (self._after, group.after, 1)):
            names = {name for kernel in kernels for name in kernel.nodes}
            names |= {pair[side][1].name for pair in pairs if pair[side] is not None}  # type: ignore[index]
            sides.append(_changes_by_pass(run, names, stages))
        for key in dict.fromkeys((*sides[0], *sides[1])):
            one, other = (side.get(key, Counter()) for side in sides)
            if one != other:
                stage, name = key
                where = "only before" if not other else "only after" if not one else "in another way"
                change = _counted((other or one) - (one if other else Counter()))
                text = f"pass {name or 'without a name'} ({stage}) changes these ops {where}: {change}"
                return Cause("pass", name or stage, text)
        return None

    def _of_libraries(self, group: KernelGroup) -> Cause | None:
        called = [Counter(call_name(k) for k in side if not k.generated) for side in (group.before, group.after)]
        generated = [sum(k.generated for k in side) for side in (group.before, group.after)]
        if called[0] == called[1] or not all(map(sum, (c.values() for c in called))):
            return None
        if generated[0] != generated[1]:
            return None  # an op is generated on one side
        return Cause("library", _listed(called[1] - called[0] or called[1]), f"another library function: "
                     f"{_counted(called[0] - called[1])} → {_counted(called[1] - called[0])}")  # fmt: skip

    def _of_fusion(self, group: KernelGroup) -> Cause | None:
        """Return the scheduler's decision, if both sides generate the same ops in other kernels."""
        if _extern_ops(group.before) != _extern_ops(group.after):
            return None
        loops = [_fused_nodes(*side) for side in ((self._before, group.before), (self._after, group.after))]
        if loops[0] == loops[1] and (group.kind != "regrouped" or len(group.before) == len(group.after) == 1):
            return None
        before, after = (len(loop) for loop in loops)
        run, kernels = (self._after, group.after) if after >= before else (self._before, group.before)
        reason = _refusal(run, kernels)
        if sum(loops[0]) != sum(loops[1]) and before == after:  # lowered otherwise, and all of it fused as before
            ops = Counter(op for kernel in group.kernels for op in kernel.ops)
            nodes = f"{sum(loops[0])} → {sum(loops[1])} nodes of the scheduler, fused into {after}"
            return Cause("lowering", _listed(ops), f"the same ops become {nodes}")
        text = f"{before} → {count(after, 'node')} of the scheduler for the same ops"
        if before == after:
            text = f"nodes of the scheduler fused as {_sizes(loops[0])} → {_sizes(loops[1])}"
        return Cause("fusion", reason or "scheduler", f"{text}{': ' + reason if reason else ''}")

    def _of_lowering(self, group: KernelGroup) -> Cause | None:
        """Return the ops whose generated code differs, or that are generated on one side and called on the other."""
        called = [_extern_ops(side) for side in (group.before, group.after)]
        if called[0] != called[1]:
            ops = (called[0] - called[1]) or (called[1] - called[0])
            ways = [_way(side, ops) for side in (group.before, group.after)]
            return Cause("lowering", _listed(ops), f"{_listed(ops)}: {ways[0]} → {ways[1]}")
        if not group.before or not group.after:
            return None
        ops = Counter(op for kernel in group.kernels for op in kernel.ops)
        word = (
            "called with other arguments" if not any(k.generated for k in group.kernels) else "generated code differs"
        )
        if forms := _form_difference(group):
            word = f"{word}: {forms}"
        kinds = {k.fusion.startswith("template") for k in group.kernels}
        if len(kinds) > 1:
            word = "a template on one side only"
        return Cause("lowering", _listed(ops), f"{_listed(ops)}: {word}")

    def _of_equal_code(self, part: PartDifference) -> Cause | None:
        """Return why equal code takes another time: only if the libraries are not the same."""
        assert part.group is not None
        if part.us is None or part.is_noise or self._torches[0] == self._torches[1]:
            return None
        kernel = part.group.kernels[0]
        if kernel.generated:
            text = f"equal code, compiled with the headers of torch {self._torches[1]} instead of {self._torches[0]}"
            return Cause("library", "torch's headers", text, "exclusion")
        changed = [f"{name} {old} → {new}" for name, old, new in self.libraries]
        versions = ", ".join(changed) or f"torch {self._torches[0]} → {self._torches[1]}"
        return Cause("library", call_name(kernel), f"the same call; {versions}", "exclusion")

    def _of_rest(self, part: PartDifference) -> Cause | None:
        """Return why guards, launches or eager ops take another time: their count, or torch's own code."""
        if part.us is None or part.is_noise:
            return None
        counts = [_count_of(part.name, run) for run in (self._before, self._after)]
        if counts[0] != counts[1]:
            return Cause("count", part.name, f"{counts[0]} → {counts[1]}")
        if self._torches[0] != self._torches[1]:
            text = f"{counts[1]} in both; torch's own code differs"
            return Cause("library", "torch", text, "exclusion")
        return None


def _sizes(loops: Sequence[int]) -> str:
    return " + ".join(map(str, loops))


def _at(node: ev.FxNode) -> str:
    return f" at line {node.location.line}" if node.location else ""


def _constants(node: ev.FxNode) -> str:
    """Return the arguments without the names of other nodes."""
    return re.sub(r"\b[A-Za-z_]\w*\b(?!=)", "", node.args)


def _listed(names: Iterable[str]) -> str:
    known = list(dict.fromkeys(names))
    return ", ".join(known[:LISTED]) + (f" and {len(known) - LISTED} more" if len(known) > LISTED else "")


def _counted(names: Counter[str]) -> str:
    return _listed(f"{name} ×{n}" if n > 1 else name for name, n in sorted(names.items())) or "nothing"


_ASSIGNED = re.compile(r"(\w+) = ([\w.]+)\((.*)\)$")


def _changes_by_pass(run: Snapshot, names: set[str], stages: Sequence[str]) -> dict[tuple[str, str], Counter[str]]:
    """Return what each pass did to nodes with these names: `+target` and `−target` with their numbers."""
    changes: dict[tuple[str, str], Counter[str]] = {}
    for ran in run.code.passes:
        if ran.stage not in stages:
            continue
        for hunk in ran.hunks:
            lines = [*(("−", line) for line in hunk.removed), *(("+", line) for line in hunk.added)]
            calls = [(mark, match) for mark, line in lines if (match := _ASSIGNED.match(line))]
            if not any(match[1] in names or not names.isdisjoint(re.findall(r"\w+", match[3])) for _, match in calls):
                continue
            own = changes.setdefault((ran.stage, ran.name), Counter())
            own.update(f"{mark}{ev.packet(match[2])}" for mark, match in calls)
    return changes


def _extern_ops(kernels: Iterable[ev.Kernel]) -> Counter[str]:
    return Counter(ev.packet(op) for kernel in kernels if not kernel.generated for op in kernel.ops)


def _way(kernels: Sequence[ev.Kernel], ops: Iterable[str]) -> str:
    """Return how a run computes ops."""
    wanted = set(ops)
    for kernel in kernels:
        if not wanted.isdisjoint(map(ev.packet, kernel.ops)):
            template = "a template in " if kernel.fusion.startswith("template") else ""
            return f"{template}generated {kernel.language} code" if kernel.generated else call_name(kernel)
    return "not computed"


def _fused_nodes(run: Snapshot, kernels: Sequence[ev.Kernel]) -> list[int]:
    """Return the sizes of the scheduler's nodes after fusion in generated kernels: a C++ kernel may have several."""
    sizes = []
    fused = [decision for decision in run.code.fusion if decision.fused]
    for kernel in kernels:
        if not kernel.generated:
            continue
        parts = {name: {name} for name in kernel.scheduler_nodes}
        for decision in fused:
            if (decision.graph, decision.phase) == (kernel.graph, kernel.phase):
                names = [
                    n for n in (decision.a_nodes or (decision.a,)) + (decision.b_nodes or (decision.b,)) if n in parts
                ]
                whole = set[str]().union(*(parts[name] for name in names))
                parts |= dict.fromkeys(whole, whole)
        sizes += [len(part) for part in {id(part): part for part in parts.values()}.values()]
    return sorted(sizes)


def _refusal(run: Snapshot, kernels: Sequence[ev.Kernel]) -> str:
    """Return why the scheduler keeps two of these kernels apart; empty if it does not say."""
    owner = {(k.graph, k.phase, name) for k in kernels for name in k.scheduler_nodes}
    for decision in run.code.fusion:
        names = (decision.a_nodes or (decision.a,)) + (decision.b_nodes or (decision.b,))
        if not decision.fused and all((decision.graph, decision.phase, name) in owner for name in names):
            return f"{decision.refused_by}: {decision.reason}".removeprefix(": ")
    return ""


_DIVISION_CHECK = "integer_div_error"
"""In each line by which torch 2.15 checks integer divisions, around every loop for a CPU."""


def _form_difference(group: KernelGroup) -> str:
    """Return what differs in how generated code computes the same ops: the lines if they are few, else its form."""
    if len(group.before) == len(group.after) == 1:
        lines = [kernel_program(side[0]).splitlines() for side in (group.before, group.after)]
        differing = [change for change in align(lines[0], lines[1], str.strip) if change.kind != "same"]
        changes = [change for change in differing if _DIVISION_CHECK not in change.item]
        if differing and not changes:
            return "only one of them checks integer divisions for 0"
        if len(changes) <= FEW_LINES:
            shown = [f"{'−' if c.after is None else '+'} {(c.item).strip()}" for c in changes]
            return "; ".join(shown[:LISTED]) + (f" and {len(shown) - LISTED} more lines" if len(shown) > LISTED else "")
    forms = [
        sum((Counter(code_form(kernel)) for kernel in side), Counter[str]()) for side in (group.before, group.after)
    ]
    names = dict.fromkeys((*forms[0], *forms[1]))
    return ", ".join(
        f"{name} {forms[0][name]} → {forms[1][name]}" for name in names if forms[0][name] != forms[1][name]
    )


def _library_differences(before: Snapshot, after: Snapshot) -> Iterator[tuple[str, str, str]]:
    if before.compiler_state is None or after.compiler_state is None:
        return
    old, new = dict(before.compiler_state.libraries), dict(after.compiler_state.libraries)
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            yield name, old.get(name, "none"), new.get(name, "none")


def _count_of(name: str, run: Snapshot) -> str:
    """Return how many there are of what a part is made of."""
    kind = name.partition(" ")[0]
    if kind == "guards":
        return count(sum(len(installed.guards) for installed in run.guards), "guard")
    if kind == "launch" and "wrapper" in name:
        return count(sum(max(1, len(kernel.calls)) for kernel in run.code.kernels), "call") + " of kernels"
    if kind in ("launch", "Python"):
        return f"{count(len(run.graphs), 'graph')}, {count(len(run.breaks), 'break')}"
    if run.call_account is not None and kind in ("eager", "library"):
        parts = [part for part in run.call_account.parts if f"{part.kind} {part.name}" == name]
        return count(sum(part.launches for part in parts), "call")
    return ""
