"""Fingerprint of one rank: the records by which ranks are compared, its figures, and what it compiles at the end."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from tcexplore import events as ev
from tcexplore.events.rank_events import ENDED_EARLY, RankRow
from tcexplore.traces.dynamo_records import break_line, break_reasons
from tcexplore.traces.inductor_records import CACHE_KINDS, tuned_configuration
from tcexplore.traces.rank_normalization import normalize
from tcexplore.traces.record_index import BadRecordError, Record, decode_json
from tcexplore.traces.restart_records import restart_reasons
from tcexplore.traces.span_records import SPAN, SpanRecords
from tcexplore.traces.trace_context import TraceContext
from tcexplore.traces.trace_job import TraceProcess
from tcexplore.traces.trace_sources import TraceSources, read_stack, read_string

COMPARED = (
    "dynamo_start", "recompile_reasons", "dynamo_graph_break_reason", "dynamo_output_graph", "dynamo_cpp_guards_str",
    "aot_forward_graph", "aot_backward_graph", "aot_inference_graph", "inductor_collective_schedule", *CACHE_KINDS,
    "triton_kernel_info", "inductor_output_code",
)  # fmt: skip
"""Kinds of records that ranks are compared by."""

_OF_ALL_ATTEMPTS = frozenset({"dynamo_start", "recompile_reasons", "dynamo_graph_break_reason"})
"""Kinds of records that hold for a compile whatever the attempt. Those of any other kind count for the last attempt."""

_READ = frozenset({
    *COMPARED, "str", "compilation_metrics", "bwd_compilation_metrics", "torch_version", "fx_graph_runnable",
    ENDED_EARLY,
})  # fmt: skip
_VARIABLE = re.compile(r"^os\.environ\['(\w+)'\] = '(.*)'$", re.M)
_CUDA_VERSION = re.compile(r"^# torch cuda version: (\S+)$", re.M)
_GPU = re.compile(r"^# GPU Hardware Info:\s*\n# (.+?) : \d+\s*$", re.M)
_GROUPS = re.compile(r"^ *setup_fake_process_groups\((.*)\)$", re.M)
_GROUP_SIZE = re.compile(r"'size': (\d{1,5})\b")
_VERSIONS = {"pytorch_version": "torch", "python_version": "Python", "triton_version": "Triton"}
_CONFIGS = ("dynamo_config", "inductor_config", "functorch_config", "compiler_config")
_CHOICES = re.compile(
    r"^(?P<kernel>\w+) = async_compile\.\w+\(|\b(?P<library>extern_kernels\.\w+)\("
    r"|^ +(?:\w+ = )?(?P<op>torch\.ops\.\w+\.\w+)[\w.]*\("
    r"|^ *inline void (?P<template>\w+_gemm)\("
    r"|\b(?P<setting>(?:num_warps|num_stages|GROUP_M|BLOCK_\w+|[XYZR]\d?_?BLOCK)\b(?:\s*:\s*tl\.constexpr)?\s*=\s*\d+"
    r"|[MNK](?:r|[tc]_blocks) = \d+)",
    re.M,
)
"""What autotuning chooses in a generated module: kernels, library calls, C++ templates, configurations."""


class RecordKey(NamedTuple):
    """Place of a record in a rank's sequence."""

    graph: str
    kind: str
    """All cache records have the kind `cache`."""
    number: int
    """Among the records of this kind in this compile, from 0."""


class ComparedRecord(NamedTuple):
    """One compared record."""

    record: Record
    digest: str
    """Checksum of the payload as it is, or of the head without payload."""


class CacheTimes:
    """When the first rank wrote a compile's result: a later hit of another rank is a race, not a warm cache."""

    def __init__(self) -> None:
        self._written: dict[str, float] = {}

    def add(self, side: RankFingerprint) -> None:
        """Add the results that a rank generated itself."""
        for graph in side.graphs:
            lookups = side.of(graph, "cache")
            if any(item.record.kind.endswith("_miss") for item in lookups):
                times = [side.seconds(item) for item in side.of(graph, "inductor_output_code")]
                if times:
                    self._written[graph] = min([self._written.get(graph, times[0]), *times])

    def is_race(self, side: RankFingerprint, graph: str) -> bool:
        """Return whether a rank's hits of a compile came after another rank had written the result."""
        hits = [side.seconds(item) for item in side.of(graph, "cache") if item.record.kind.endswith("_hit")]
        return bool(hits) and graph in self._written and min(hits) >= self._written[graph]


@dataclass
class RankFingerprint:
    """The compared records of one rank."""

    process: TraceProcess
    items: dict[RecordKey, ComparedRecord] = field(default_factory=dict)
    strings: dict[int, str] = field(default_factory=dict)
    sources: TraceSources = field(default_factory=TraceSources)
    versions: dict[str, str] = field(default_factory=dict)
    configs: dict[str, str] = field(default_factory=dict)
    """JSON texts of torch's configurations by name, from the first compile that has them."""
    environment: dict[str, str] = field(default_factory=dict)
    """torch's environment variables, from the first script that Inductor wrote on this rank."""
    _script_environment: dict[str, str] = field(default_factory=dict)
    """Those of a script that may come from a cache: it has the variables of the process that compiled the graph."""
    world_size: int = 0
    """Size of the largest process group that a graph names."""
    frames: dict[str, ev.Location] = field(default_factory=dict)
    """The compiled function by compile id."""
    callers: dict[str, ev.Location] = field(default_factory=dict)
    """The user's innermost line by compile id."""
    ended: dict[str, float] = field(default_factory=dict)
    """Seconds of compile by compile id."""
    ended_early: str = ""
    """Why a fake rank ended before the end of the script."""
    attempts: dict[str, int] = field(default_factory=dict)
    """The last attempt to trace a frame by compile id, if it is not the first."""
    given_up: dict[str, list[ComparedRecord]] = field(default_factory=dict)
    """Graphs of the earlier attempts by compile id."""
    growing: bool = False
    """Whether records that are not there may still come."""

    @property
    def rank(self) -> int:
        return self.process.number

    @cached_property
    def graphs(self) -> tuple[str, ...]:
        """Compile ids in the order of their first records."""
        return tuple(dict.fromkeys(key.graph for key in self.items if key.graph))

    def of(self, graph: str, kind: str) -> list[ComparedRecord]:
        """Return the records of one kind in one compile."""
        items: list[ComparedRecord] = []
        while (item := self.items.get(RecordKey(graph, kind, len(items)))) is not None:
            items.append(item)
        return items

    def payload(self, item: ComparedRecord) -> str:
        """Return a payload, empty if its checksum is wrong."""
        try:
            return self.process.index.payload(item.record.number, item.record.checksum)
        except BadRecordError:
            return ""

    def json(self, item: ComparedRecord) -> dict[str, Any]:
        """Return a payload that is a JSON object, empty if it is not."""
        try:
            facts = decode_json(self.payload(item) or "{}")
        except (ValueError, RecursionError):
            return {}
        return facts if isinstance(facts, dict) else {}

    def seconds(self, item: ComparedRecord) -> float:
        """Return the local time of a record."""
        return self.process.index.seconds(item.record.number, 2000)

    def normal(self, key: RecordKey, cache: dict[tuple[str, str], str]) -> str:
        """Return a digest that is equal on ranks that do the same. `cache` has those of equal payloads."""
        item = self.items[key]
        known = cache.get((key.kind, item.digest))
        if known is None:
            text = self._text(key, item)
            known = hashlib.md5(text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()
            cache[key.kind, item.digest] = known
        return known

    def _text(self, key: RecordKey, item: ComparedRecord) -> str:
        if key.kind == "dynamo_start":
            return item.digest
        if key.kind == "cache":
            return item.record.kind
        if key.kind == "triton_kernel_info":
            facts = self.json(item)
            return repr(sorted((name, tuned_configuration(k)) for name, k in facts.items() if isinstance(k, dict)))
        text = self.payload(item)
        if key.kind == "inductor_output_code":
            return repr(kernel_choices(text))
        if key.kind == "dynamo_graph_break_reason":
            return normalize(text.partition("\nTraceback (most recent call last)")[0])
        return normalize(text)

    def graph_break(self, item: ComparedRecord) -> tuple[str, ev.Location | None] | None:
        """Return the kind and the user's line of a break; None if a record of a break reports something else."""
        text = self.payload(item)
        reasons = break_reasons(text)
        if reasons is None:
            return None
        graph = item.record.graph
        return reasons.first.kind, break_line(self.sources, text, self.frames.get(graph), self.callers.get(graph))

    def only(self, keys: Container[RecordKey], *, growing: bool = False) -> RankFingerprint:
        """Return the fingerprint of some of the records; those that are left out may still come if it is `growing`."""
        return replace(self, items={key: item for key, item in self.items.items() if key in keys}, growing=growing)

    # ---- reading

    def read(self, row: RankCounts, start: int = 0, end: int | None = None) -> None:
        """Read the heads of the compared records from `start` to before `end`, all by default."""
        index = self.process.index
        self.__dict__.pop("graphs", None)  # the cached compile ids
        for number in index.numbers(_READ, start):
            if end is not None and number >= end:
                break
            try:
                record = index.record(number)
                self._read_record(record, row)
            except (BadRecordError, AttributeError, TypeError, ValueError):
                continue  # the record has an unknown form; `EventReader` reports it

    def _read_record(self, record: Record, row: RankCounts) -> None:
        if record.kind == "str":
            read_string(record, self.strings)
        elif record.kind in COMPARED:
            self._begin_attempt(record)
            self._add(record)
            row.count(record)
            row.restarts = sum(self.attempts.values())
            if record.kind == "dynamo_graph_break_reason":
                known = self.graph_break(ComparedRecord(record, ""))
                if known is not None:  # without a line, a break is known by its frame
                    row.break_places.add((known[0], known[1] or self.frames.get(record.graph)))
        else:
            self._read_facts(record, row)

    def _begin_attempt(self, record: Record) -> None:
        """Forget what the earlier attempts of a compile traced: torch gave them up."""
        graph, attempt = record.graph, record.attempt
        if attempt <= self.attempts.get(graph, 0):
            return
        self.attempts[graph] = attempt
        self.given_up.setdefault(graph, []).extend(self.of(graph, "dynamo_output_graph"))
        for kind in {"cache", *COMPARED} - _OF_ALL_ATTEMPTS:
            for number in range(len(self.of(graph, kind))):
                del self.items[RecordKey(graph, kind, number)]

    def _add(self, record: Record) -> None:
        kind = "cache" if record.kind in CACHE_KINDS else record.kind
        if kind == "dynamo_start" and record.attempt:
            return
        if kind == "cache":
            self._accept_environment(hit=CACHE_KINDS[record.kind][1] == "hit")
        number = 0
        while (key := RecordKey(record.graph, kind, number)) in self.items:
            number += 1
        digest = record.checksum or f"{record.kind} {self._start(record) if kind == 'dynamo_start' else ''}"
        self.items[key] = ComparedRecord(record, digest)

    def _start(self, record: Record) -> str:
        """Learn the frame of a compile; return its name without the folder, which may differ between hosts."""
        stack = list(read_stack(record.meta.get("stack"), self.strings))
        frames = [frame for frame, _ in stack]
        self.sources.observe_stack(frames)
        for frame, code in stack:
            self.sources.observe_line(frame.file, frame.line, code)
        owned = [frame for frame in frames[:-1] if self.sources.owns(frame.file)]
        if owned:
            self.callers.setdefault(record.graph, owned[-1])
        if not frames:
            return ""
        self.frames.setdefault(record.graph, frames[-1])
        return f"{frames[-1].file.rpartition('/')[2]}:{frames[-1].line} {frames[-1].function}"

    def _accept_environment(self, *, hit: bool) -> None:
        """Learn the environment of the last script, unless it comes from a cache: records of its outcome follow it."""
        self.environment = self.environment or ({} if hit else self._script_environment)
        self._script_environment = {}

    def _read_facts(self, record: Record, row: RankCounts) -> None:
        if record.kind == "fx_graph_runnable":
            if not self.environment or not self.world_size:
                self._read_script(self.payload(ComparedRecord(record, "")))
            return
        if record.kind == ENDED_EARLY:
            self.ended_early = ev.clean(self.payload(ComparedRecord(record, "")))
            return
        facts = record.meta if isinstance(record.meta, dict) else {}
        self._accept_environment(hit=False)
        if record.kind == "torch_version":
            facts = self.json(ComparedRecord(record, ""))
        for key, name in _VERSIONS.items():
            if isinstance(facts.get(key), str) and facts[key]:
                self.versions.setdefault(name, ev.clean(facts[key]))
        for name in _CONFIGS:
            if isinstance(facts.get(name), str):
                self.configs.setdefault(name, facts[name])
        if reasons := restart_reasons(facts):
            self.attempts[record.graph] = max(self.attempts.get(record.graph, 0), len(reasons))
            row.restarts = sum(self.attempts.values())
        row.add_metrics(record, facts)

    def _read_script(self, script: str) -> None:
        """Read the environment, the versions and the number of ranks in a script of Inductor."""
        head = script.partition("class Repro")[0]
        self._script_environment = dict(_VARIABLE.findall(head))
        for pattern, name in ((_CUDA_VERSION, "CUDA"), (_GPU, "GPU")):
            if match := pattern.search(head):
                self.versions.setdefault(name, match[1])
        groups = " ".join(_GROUPS.findall(script))
        self.world_size = max((int(size) for size in _GROUP_SIZE.findall(groups)), default=0)

    def user_line(self, graph: str) -> ev.Location | None:
        """Return the user's line of a compile: the compiled function, or the line that led to it."""
        frame = self.frames.get(graph)
        if frame is not None and self.sources.owns(frame.file):
            return frame
        return self.callers.get(graph)


def kernel_choices(module: str) -> list[str]:
    """Return the kernels, library calls and fixed configurations of a generated module in order."""
    choices: list[str] = []
    for match in _CHOICES.finditer(module):
        text = re.sub(r"\s|:|tl\.constexpr", "", match[match.lastgroup or 0])
        choices.append(f"C++ template {text}" if match.lastgroup == "template" else text)
    return choices


def settings(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the settings of a configuration's JSON text."""
    try:
        values = decode_json(text)
    except (ValueError, RecursionError):
        return
    if isinstance(values, dict):
        yield from values.items()


_LAST_SPANS = 400
"""Records of spans that are read to know what is under way at the end of a trace."""


@dataclass(slots=True)
class RankCounts:
    """Figures of one rank, counted while its records are read."""

    compiles: dict[str, None] = field(default_factory=dict)
    recompiles: set[str] = field(default_factory=set)
    graphs: set[str] = field(default_factory=set)
    """Compile ids with a graph."""
    restarts: int = 0
    breaks: int = 0
    break_places: set[tuple[str, ev.Location | None]] = field(default_factory=set)
    """Kind and line of each break."""
    hits: int = 0
    misses: int = 0
    bypasses: int = 0
    seconds: float = 0.0
    phase: str = ""
    phase_graph: str = ""

    def count(self, record: Record) -> None:
        """Count a compared record."""
        if record.graph:
            self.compiles[record.graph] = None
        if record.kind == "dynamo_output_graph":
            self.graphs.add(record.graph)
        elif record.kind == "dynamo_graph_break_reason":
            self.breaks += 1
        elif record.kind == "recompile_reasons" or (
            record.kind == "dynamo_start" and record.envelope.get("frame_compile_id")
        ):
            self.recompiles.add(record.graph)
        elif record.kind in CACHE_KINDS:
            outcome = CACHE_KINDS[record.kind][1]
            self.hits += outcome == "hit"
            self.misses += outcome == "miss"
            self.bypasses += outcome == "bypass"

    def add_metrics(self, record: Record, facts: dict[str, Any]) -> None:
        """Add the duration of a compile."""
        if record.kind not in ("compilation_metrics", "bwd_compilation_metrics"):
            return
        micros, seconds = facts.get("duration_us"), facts.get("entire_frame_compile_time_s")
        if isinstance(micros, int | float):
            self.seconds += micros / 1e6
        elif isinstance(seconds, int | float):
            self.seconds += seconds

    def row(self, process: TraceProcess, host: str | None) -> RankRow:
        """Return the figures as a row."""
        return RankRow(
            rank=process.number,
            host=host,
            pid=process.pid,
            phase=self.phase,
            graph=self.phase_graph,
            compile_ids=tuple(self.compiles),
            graphs=len(self.graphs),
            restarts=self.restarts,
            breaks=self.breaks,
            break_places=len(self.break_places),
            recompiles=len(self.recompiles),
            cache_hits=self.hits,
            cache_misses=self.misses,
            cache_bypasses=self.bypasses,
            compile_s=round(self.seconds, 6),
        )


def last_phase(process: TraceProcess) -> tuple[str, str]:
    """Return the phase under way at the end of a trace, and its compile id; empty between compiles."""
    index = process.index
    numbers = deque(index.numbers(frozenset({SPAN})), maxlen=_LAST_SPANS)
    spans, context = SpanRecords(), TraceContext(index, lambda _: None)
    for number in numbers:
        try:
            spans.read(context, index.record(number))
        except BadRecordError:
            continue
    return spans.phase or "", (spans.graph or "") if spans.phase else ""
