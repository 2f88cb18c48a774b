"""A storm of recompiles: the calls that made it, what might end it, and what each of those came to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median

from tcexplore import events as ev
from tcexplore.session.call_strip import WARM, compiled_calls
from tcexplore.session.recompile_fixes import changed_with
from tcexplore.session.snapshot import Snapshot
from tcexplore.session.timeline import COMPILE, RECOMPILE, CompileMark, RegionTimeline

BINS = 256

PASSES = 3
"""How often all calls are made: the first time shows what compiles, the last one what a call takes after that."""

SIZES = ("size", "stride", "condition")
"""Kinds of recompiles that dynamic shapes might spare."""

_POSITION = re.compile(r"args\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Variant:
    """A change that might spare recompiles. `write` is what the user writes, `note` what it asks of the model."""

    name: str
    write: str
    change: Callable[[ev.Config], ev.Config]
    note: str = ""
    several: bool = False
    """Whether it joins other treatments: it is not needed where one of them was enough."""


UNCHANGED = Variant("as it is", "", lambda config: config)


@dataclass(frozen=True, slots=True)
class Trial:
    """The storm's calls under one treatment."""

    treatment: Variant
    run: Snapshot

    @property
    def recompiles(self) -> int:
        """Graphs that were compiled because an earlier one could not be used."""
        return len({again.graph for again in self.run.recompiles if not again.limit_hit})

    @property
    def calls(self) -> int:
        """The different calls, each of which is made `PASSES` times, also those that are still to come."""
        if self.run.entry is not None and self.run.entry.calls:
            return len(self.run.entry.calls)
        return len({call.index for call in self.run.calls if call.variant == "compiled"})

    @property
    def total_s(self) -> float:
        """Seconds of all calls, each made once, compiling included."""
        return sum(made.seconds for made in compiled_calls(self.run)[: self.calls])

    @property
    def steady_us(self) -> float | None:
        """Median microseconds of a call the last time that all were made; None before that."""
        last = [made.seconds for made in compiled_calls(self.run)[(PASSES - 1) * self.calls :]]
        return median(last) * 1e6 if last else None

    @property
    def eager_us(self) -> float | None:
        """Median microseconds of an eager call, made once."""
        eager = [call.seconds for call in self.run.calls if call.variant == "eager"]
        return median(eager) * 1e6 if eager else None

    @property
    def gave_up_at(self) -> int | None:
        """The call at which the recompile limit was reached: that frame ran eagerly from there on."""
        limited = {again.graph for again in self.run.recompiles if again.limit_hit}
        return next(
            (made.number for made in compiled_calls(self.run) if limited & {a.graph for a in made.causes}), None
        ) or (self.calls if limited else None)


def variants(run: Snapshot, buckets: tuple[str, ...] = ()) -> tuple[Variant, ...]:
    """What applies to the recompiles of a run; nothing where there were none. `buckets` are sizes to pad to."""
    sizes = _sizes(run)
    floats = _floats(run)
    found = [*_dynamic(run, sizes, buckets), *([_tensors(floats)] if floats else [])]
    if floats and any(again.kind in SIZES for again in run.recompiles):
        tensors = _tensors(floats)
        found.append(
            Variant(
                f"dynamic=True and {tensors.name}",
                f"torch.compile(…, dynamic=True); {tensors.write}",
                lambda config: replace(tensors.change(config), dynamic=True),
                tensors.note,
                several=True,
            )
        )
    return tuple(found)


def _dynamic(run: Snapshot, sizes: tuple[str, ...], buckets: tuple[str, ...]) -> Iterator[Variant]:
    if any(again.kind in SIZES for again in run.recompiles) and run.config.dynamic is not True:
        yield Variant(
            "dynamic=True", "torch.compile(…, dynamic=True)", lambda config: replace(config, dynamic=True)
        )  # fmt: skip
    if sizes:
        said = f"to {', '.join(buckets)}" if buckets else f"{', '.join(sizes)} to the next power of two"
        marked = "; ".join(f"torch._dynamo.mark_dynamic({_argument(size)}, {size.split('.')[1]})" for size in sizes)
        yield Variant(
            "mark_dynamic", marked, lambda config: replace(config, mark_dynamic=sizes),
            "sizes 0 and 1 are not marked: they get a graph of their own",
        )  # fmt: skip
        yield Variant(
            "buckets", f"pad {said}; torch.compile(…, dynamic=False)",
            lambda config: replace(config, buckets=buckets or sizes, dynamic=False),
            "only where rows of zeros leave the others as they are, and are cut off the result",
        )  # fmt: skip


def _tensors(floats: tuple[str, ...]) -> Variant:
    made = ", ".join(f"torch.tensor({_argument(name)})" for name in floats)
    return Variant(
        "tensor for float", f"call it with {made}", lambda config: replace(config, as_tensors=floats),
        "the value is then read when the code runs, and not built into it",
    )  # fmt: skip


def _sizes(run: Snapshot) -> tuple[str, ...]:
    """Arguments and dimensions whose size made it compile again, as `x.0`."""
    found = [again for again in _of_calls(run) if again.kind == "size" and again.dim is not None and _name(again)]
    together = [(_by_itself(name), dim) for name, dim in changed_with(run, found)]
    sizes = [*((_name(again), again.dim) for again in found), *together]
    return tuple(dict.fromkeys(f"{name}.{dim}" for name, dim in sizes if name.isidentifier() or name.isdecimal()))


def _floats(run: Snapshot) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for again in _of_calls(run) if again.kind == "float" and (name := _name(again))))


def _of_calls(run: Snapshot) -> Iterator[ev.Recompiled]:
    """The recompiles of what is called: what the code behind a graph break takes is no argument that one can change."""
    resumed = {entered.graph for entered in run.frames if entered.resumed}
    return (again for again in run.recompiles if again.graph not in resumed)


def _name(again: ev.Recompiled) -> str:
    """The argument that a recompile is about: its name or position; empty where it is about none."""
    name = _by_itself(again.name)
    if name != again.name:
        return name
    return name if again.origin in ("argument", "") and name.isidentifier() else ""


def _by_itself(what: str) -> str:
    """`0` for `args[0]`, which a module of torch's own is called through."""
    position = _POSITION.fullmatch(what)
    return position[1] if position is not None else what


def _argument(what: str) -> str:
    name = what.partition(".")[0]
    return f"argument {name}" if name.isdecimal() else name


def lane(run: Snapshot) -> RegionTimeline:
    """The compiled calls one after another, as a lane of a time line that has nothing else on it."""
    at, marks, begun = 0.0, [], []
    for made in compiled_calls(run):
        begun.append(at)
        if made.kind != WARM:
            what = RECOMPILE if made.causes else COMPILE
            marks.append(
                CompileMark(what, at, made.seconds, tuple(a.graph for a in made.causes), made.number, made.causes)
            )
        at += made.seconds
    name = run.entry.name if run.entry else ""
    return RegionTimeline(ev.RegionCreated(region=0, name=name, kind="storm"), _seen(begun, at), tuple(marks))


def _seen(begun: list[float], seconds: float) -> ev.RegionCalls | None:
    if not begun or not seconds:
        return None
    activity = [0] * BINS
    for at in begun:
        activity[min(int(at / seconds * BINS), BINS - 1)] += 1
    return ev.RegionCalls(
        region=0, calls=len(begun), warm=len(begun), seconds=seconds, bin_s=seconds / BINS, activity=tuple(activity)
    )
