"""Recompiles of varied calls, the variants of the calls that might avoid them, and what each variant gains."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median

from tcexplore import events as ev
from tcexplore.session.cache_entries import resumed_frames
from tcexplore.session.compile_time import COMPILE, RECOMPILE, CompileMark, MarkKind, RegionTimeline, compiled_calls
from tcexplore.session.recompile_fixes import changed_with
from tcexplore.session.snapshot import Snapshot

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
