"""The records of one process as events. Those below Dynamo's are left for later, unless the trace still grows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tcexplore import events as ev
from tcexplore.torch_text import compile_workers
from tcexplore.traces import dynamo_records, guard_records, inductor_records
from tcexplore.traces.inductor_records import CacheRecords
from tcexplore.traces.later_records import MOST_PROBLEMS, CodeRecords, LaterRecords, unread_records
from tcexplore.traces.record_index import BadRecordError, Record, RecordIndex
from tcexplore.traces.restart_records import RestartRecords
from tcexplore.traces.span_records import SPAN, SpanRecords
from tcexplore.traces.trace_context import Converter, Emit, TraceContext
from tcexplore.traces.trace_sources import read_string

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

    def __init__(self, index: RecordIndex, emit: Emit, pid: int | None = None, *, growing: bool = False) -> None:
        """`pid` selects the records of one process of a file that several share.

        Of a `growing` trace, no record is left for later.
        """
        self._index = index
        self._pid = pid
        self.context = TraceContext(index, emit)
        self.spans = SpanRecords()
        self.versions: dict[str, str] = {}
        """Versions of torch, Python and Triton."""
        self._symbols = dynamo_records.SymbolRecords()
        self._code = CodeRecords()
        self._later = None if growing else LaterRecords(index)
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
            **self._code.converters,
            **CacheRecords().converters,
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
            SPAN: self.spans.read,
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
        if self._later is not None and kind == SPAN:
            self._later.add_span(number)
            return
        with unread_records(self.context, number, kind):
            record = inductor_records.with_split_graph(self.context, self._index.record(number))
            known.graphs[record.graph] = None
            self._restarts.observe(self.context, record)
            if self._later is not None and kind in self._later.kinds:
                self._later.add(number, record.graph)
            else:
                converter(self.context, record)

    def _converter(self, kind: str) -> Converter | None:
        if kind.endswith(dynamo_records.REWRITTEN):  # the kind begins with the name of the function
            return dynamo_records.read_rewritten
        return self._converters.get(kind)

    def _graph_of(self, number: int) -> str:
        try:
            return self._index.record(number).graph
        except BadRecordError:
            return ""

    def read_later(self) -> Iterator[Iterator[ev.Event]]:
        """Yield the events of the records that were left, part by part, after all others are read."""
        if self._later is not None:
            yield from self._later.read(self.context)
            if spans := self._kinds.get(SPAN):
                spans.graphs |= self._later.span_graphs

    def finish(self) -> None:
        """Emit what later records could have completed, the sources, and what a trace cannot tell."""
        context = self.context
        self._code.finish_compile(context)
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
        for _, problem in sorted(context.problems.items())[:MOST_PROBLEMS]:
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
        if self._later is None:
            self._code.finish_compile(context, graph)
        else:
            self._later.add(record.number, graph)
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
