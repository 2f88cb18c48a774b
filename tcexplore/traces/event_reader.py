"""The records of one process as events, in the order of the trace; it continues when the trace grows."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tcexplore import events as ev
from tcexplore.torch_text import compile_workers
from tcexplore.torch_text.dynamo_names import PHASE_OF
from tcexplore.traces import dynamo_records, guard_records, inductor_records
from tcexplore.traces.inductor_records import AOT_STAGES, CACHE_KINDS, CacheRecords, GraphRecords
from tcexplore.traces.kernel_records import KernelRecords
from tcexplore.traces.record_index import BadRecordError, Record, RecordIndex
from tcexplore.traces.restart_records import RestartRecords
from tcexplore.traces.trace_context import Emit, TraceContext
from tcexplore.traces.trace_sources import read_string

MOST_PROBLEMS = 20
"""Messages about records that are kept for one process."""

SAMPLE_CHARS = 200_000
"""Characters of the payload of a kind that is not read."""

MOST_GRAPHS = 50
"""Compile ids that are kept for a kind that is not read."""

_SILENT = frozenset({"describe_storage"})
"""Kinds that need no conversion."""

NOT_IN_TRACES: tuple[tuple[str, str], ...] = (
    (ev.RunFact.ACCURACY, "a trace holds no results to compare"),
    (ev.RunFact.MEMORY, "a trace holds no measurement of memory"),
    (ev.RunFact.CALL_PROFILE, "a trace holds no profile of a call"),
    (ev.RunFact.FUSION_DECISIONS, "a trace holds no decision of the scheduler, only its kernels"),
    ("the op of each statement of a kernel", "a trace links whole kernels to ops, not their statements"),
    (ev.RunFact.ROOFLINE, "a trace does not hold the scheduler's figures"),
    (ev.RunFact.LINE_TIMES, "a trace holds no measurement of calls"),
    (ev.RunFact.TIMELINE, "a trace holds no times of a step; a profile of torch.profiler does, open it with --trace"),
    (ev.RunFact.CALLS, "a trace holds compiles, not the calls that cause or reuse them"),
    (ev.RunFact.RECOMPILE_CHECKS, "they need the guards of a live process"),
    (ev.RunFact.STATE_DICT, "a trace holds no objects of the program"),
    (ev.RunFact.OUTPUT, "a trace holds only what torch writes into it"),
    (ev.RunFact.PASSES, "a trace holds the graph before and after all passes, not after each one"),
    (ev.RunFact.MACHINE_CODE, "a trace holds the source of kernels only"),
    (
        "values of a call that failed a guard",
        "a trace holds them only where torch's message or the guards of the new graph have them",
    ),
    (
        "lines of ops inside library code",
        "a trace holds only the innermost line; that of the module or function is shown",
    ),
    ("frames that Dynamo skips before it compiles them", "a trace holds only frames that Dynamo began to compile"),
    ("bytecode of functions that break", "a trace holds only that of their resume functions"),
)
"""Facts that only a live run has, with the reasons."""

Converter = Callable[[TraceContext, Record], None]


@dataclass(slots=True)
class _KindCount:
    """Records of one kind."""

    first: int
    """Number of the first one."""
    read: bool
    """Whether they are converted, or hold nothing to convert."""
    count: int = 0
    graphs: dict[str, None] = field(default_factory=dict)
    """Their compile ids."""


class EventReader:
    """Converts the records of one process."""

    def __init__(self, index: RecordIndex, emit: Emit, pid: int | None = None) -> None:
        """`pid` selects the records of one process of a file that several share."""
        self._index = index
        self._pid = pid
        self.context = TraceContext(index, emit)
        self.spans = SpanRecords()
        self.versions: dict[str, str] = {}
        """Versions of torch, Python and Triton."""
        self._symbols = dynamo_records.SymbolRecords()
        self._graphs = GraphRecords()
        self._kernels = KernelRecords(self._graphs)
        self._caches = CacheRecords()
        self._restarts = RestartRecords()
        self._next = 0
        self._kinds: dict[str, _KindCount] = {}
        self._converters = self._table()

    def _table(self) -> Mapping[str, Converter]:
        return {
            "str": lambda context, record: read_string(record, context.strings),
            "dynamo_start": dynamo_records.read_start,
            "describe_tensor": dynamo_records.read_tensor_description,
            "describe_source": dynamo_records.read_source_name,
            "dynamo_output_graph": dynamo_records.read_dynamo_graph,
            "dynamo_graph_break_reason": dynamo_records.read_break,
            "recompile_reasons": dynamo_records.read_recompile,
            "create_symbol": self._symbols.read_symbol,
            "create_unbacked_symbol": self._symbols.read_symbol,
            "dynamo_cpp_guards_str": self._read_guards,
            **dict.fromkeys(AOT_STAGES, self._graphs.read_aot),
            "inductor_post_grad_graph": self._graphs.read_post_grad,
            "inductor_output_code": self._kernels.read_wrapper,
            "inductor_provenance_tracking_node_mappings": self._kernels.read_mappings,
            **dict.fromkeys(CACHE_KINDS, self._caches.read_lookup),
            inductor_records.AOT_SETTINGS: self._caches.read_settings,
            "triton_kernel_info": inductor_records.read_triton_info,
            "inductor_runtime_and_tensor_meta": inductor_records.read_estimates,
            compile_workers.STATUS: inductor_records.read_worker_status,
            compile_workers.END: inductor_records.read_worker_end,
            compile_workers.NATIVE_COMPILE: inductor_records.read_native_compile,
            "fx_graph_runnable": _read_script,
            "optimize_ddp_split_child": inductor_records.read_split,
            "graph_dump": inductor_records.read_dump,
            "vllm_piecewise_compile_start": inductor_records.read_piece,
            **dict.fromkeys(inductor_records.BUCKETS, inductor_records.read_buckets),
            "compilation_metrics": self._read_metrics,
            "bwd_compilation_metrics": self._read_metrics,
            "chromium_event": self.spans.read,
            "torch_version": self._read_version,
        }

    @property
    def at(self) -> int:
        """Number of the next record to read."""
        return self._next

    def read(self, most: int | None = None, *, last: bool = True) -> bool:
        """Convert the next `most` records; return whether there are more.

        Leave out the last record of the index unless `last`: in a growing file it may be incomplete.
        """
        total = len(self._index) - (0 if last else 1)
        end = total if most is None else min(total, self._next + most)
        starts = list(self._index.pids.items())
        while self._next < end:
            number = self._next
            self._next += 1
            if self._pid is None or len(starts) < 2 or _pid_at(starts, number) == self._pid:
                self._convert(number)
        return self._next < total

    def _convert(self, number: int) -> None:
        kind = self._index.kind(number)
        converter = self._converter(kind)
        silent = kind in _SILENT or kind.endswith(dynamo_records.ORIGINAL)
        known = self._kinds.setdefault(kind, _KindCount(number, converter is not None or silent))
        known.count += 1
        if converter is None:
            if not known.read and len(known.graphs) < MOST_GRAPHS:
                known.graphs[self._graph_of(number)] = None
            return
        try:
            record = inductor_records.with_split_graph(self.context, self._index.record(number))
            known.graphs[record.graph] = None
            self._restarts.observe(self.context, record)
            converter(self.context, record)
        except BadRecordError as error:
            self._report(str(error))
        except Exception as error:  # noqa: BLE001  a record of another torch may have any form; the others are still read
            self._report(f"record {number + 1} ({kind}) has an unknown form: {type(error).__name__}: {error}")

    def _converter(self, kind: str) -> Converter | None:
        if kind.endswith(dynamo_records.REWRITTEN):  # the kind begins with the name of the function
            return dynamo_records.read_rewritten
        return self._converters.get(kind)

    def _graph_of(self, number: int) -> str:
        try:
            return self._index.record(number).graph
        except BadRecordError:
            return ""

    def _report(self, problem: str) -> None:
        if len(self.context.problems) < MOST_PROBLEMS:
            self.context.problems.append(ev.clean(problem))

    def finish(self) -> None:
        """Emit what later records could have completed, the sources, and what a trace cannot tell."""
        context = self.context
        self._kernels.flush(context)
        self._restarts.finish(context)
        for file in context.sources.files:
            context.emit(ev.SourceRead(file=file, text=context.sources.text(file)))
        for kind, known in self._kinds.items():
            text = "" if known.read else self._sample(known.first)
            names = tuple(filter(None, known.graphs))
            context.emit(ev.TraceRecords(kind=kind, count=known.count, graphs=names, read=known.read, text=text))
        context.emit(ev.TimingSkipped(reason="a trace holds no measurement of calls"))
        for fact, reason in NOT_IN_TRACES:
            context.emit(ev.FactMissing(fact=fact, symbol="TORCH_TRACE", reason=reason))
        for problem in context.problems:
            context.emit(ev.FactMissing(fact="a record", symbol="TORCH_TRACE", reason=problem))

    def _sample(self, number: int) -> str:
        try:
            record = self._index.record(number)
            text = self._index.payload(number, record.checksum) if record.checksum else str(record.meta)
        except BadRecordError as error:
            return str(error)
        return ev.clean(text[:SAMPLE_CHARS])

    # ---- records with several facts

    def _read_guards(self, context: TraceContext, record: Record) -> None:
        """Read the guards of a graph, and from them the values that caused its compile."""
        symbols = self._symbols.of(record.graph)
        guards = guard_records.read_guards(context, record, symbols)
        for recompile in context.recompile_values.complete(record.graph, guards, symbols):
            context.emit(recompile)

    def _read_metrics(self, context: TraceContext, record: Record) -> None:
        """Read the figures at the end of a compile."""
        metrics = record.meta if isinstance(record.meta, dict) else {}
        graph = record.graph
        self._symbols.flush(context, graph)
        self._kernels.flush(context, graph)
        for key, name in (("pytorch_version", "torch"), ("python_version", "python"), ("triton_version", "triton")):
            if isinstance(metrics.get(key), str) and metrics[key]:
                self.versions[name] = ev.clean(metrics[key])
        if context.recompile_limit is None and isinstance(config := metrics.get("dynamo_config"), str):
            limit = re.search(r'"recompile_limit": (\d+)', config)
            context.recompile_limit = int(limit[1]) if limit else None
        for name, seconds in inductor_records.triton_times(metrics):
            if (graph, name) not in context.timed_kernels:
                context.emit(ev.KernelCompiled(graph=graph, name=name, seconds=seconds))
        if reason := metrics.get("cudagraph_skip_reason"):
            context.emit(ev.CudaGraphSkipped(graph=graph, reason=ev.clean(str(reason))))
        dynamo_records.read_failure(context, graph, metrics)
        self._restarts.finish_compile(context, graph, metrics)
        context.recompile_values.drop(graph)

    def _read_version(self, context: TraceContext, record: Record) -> None:
        facts = context.json(record)
        if isinstance(facts, dict) and isinstance(version := facts.get("pytorch_version"), str):
            self.versions["torch"] = ev.clean(version)


def _pid_at(starts: list[tuple[int, int]], number: int) -> int:
    return next((pid for first, pid in reversed(starts) if first <= number), -1)


def _read_script(context: TraceContext, record: Record) -> None:
    context.emit(ev.GraphScript(graph=record.graph, source=context.payload(record)))


MOST_SPANS = 20_000
"""Spans that are kept; after them, only spans of at least `LONG_US` are."""

LONG_US = 10_000.0


_PHASE = re.compile(rb'"ph": "(\w)",\s*"cat": "[^"\\]*",\s*(?:"\w+": (?:\d+|"\w*"),?\s*)*\}\s*$')
"""The end of the JSON of an event, which tells its kind without the rest."""

_PHASE_BYTES = 200


class _Span(NamedTuple):
    name: str
    began_us: float
    graph: str | None
    phase: ev.Phase | None
    kernel: str
    """Kernel that the span works on, if torch names it."""


class SpanRecords:
    """torch's spans (`chromium_event`): the time of each phase, from a stack of open spans for each thread."""

    def __init__(self) -> None:
        self._open: dict[Any, list[_Span]] = defaultdict(list)
        self._count = 0
        self.phase: ev.Phase | None = None
        """The phase under way; None between compiles."""
        self.graph: str | None = None
        self.phase_began: float | None = None
        """Start of the phase as a timestamp."""

    @property
    def innermost(self) -> _Span | None:
        """The span that began last of those under way."""
        return max((stack[-1] for stack in self._open.values() if stack), key=lambda s: s.began_us, default=None)

    def read(self, context: TraceContext, record: Record) -> None:
        """Process a begin or an end; ignore other events and an end without a begin."""
        kind = _PHASE.search(context.index.payload_end(record.number, _PHASE_BYTES))
        if kind is not None and kind[1] not in (b"B", b"E"):
            return  # such as a cache lookup, with all of its key
        span = context.json(record)
        if not isinstance(span, dict) or not isinstance(at := span.get("ts"), int | float):
            return
        if context.began is None:
            context.began = at / 1e6
        stack, kind, name = self._open[span.get("tid")], span.get("ph"), ev.clean(str(span.get("name") or ""))
        if kind == "B":
            parent = stack[-1] if stack else None
            graph = record.graph or (parent.graph if parent else None)
            phase = PHASE_OF.get(name) or (parent.phase if parent else None)
            stack.append(_Span(name, at, graph, phase, _kernel(span.get("args"))))
            self._enter(stack[-1].phase, graph, at)
        elif kind == "E" and any(begun.name == name for begun in stack):
            self._end(context, stack, name, at)

    def _end(self, context: TraceContext, stack: list[_Span], name: str, ended_us: float) -> None:
        while stack:
            span = stack.pop()
            lasted = ended_us - span.began_us
            self._count += 1
            if self._count <= MOST_SPANS or lasted >= LONG_US:
                at = span.began_us / 1e6 - (context.began or 0.0)
                context.emit(
                    ev.PhaseTimed(name=span.name, seconds=lasted / 1e6, graph=span.graph, depth=len(stack), at=at)
                )
            if span.name == name:
                break
        outer = stack[-1] if stack else None
        self._enter(outer.phase if outer else None, outer.graph if outer else None, ended_us)

    def _enter(self, phase: ev.Phase | None, graph: str | None, at_us: float) -> None:
        if (phase, graph) != (self.phase, self.graph):
            self.phase, self.graph, self.phase_began = phase, graph, at_us / 1e6


def _kernel(args: Any) -> str:
    kernel = args.get("kernel_name") if isinstance(args, dict) else None
    return ev.clean(kernel) if isinstance(kernel, str) else ""
