"""Dynamo's FX graphs, captured when Dynamo hands them to any backend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from tcexplore.capture.dynamo.trace_position import current_compile_id, record_caller
from tcexplore.capture.fx_nodes import (
    fx_node,
    graphs_of,
    module_path,
    module_stacks,
    node_name,
    read_subgraphs,
    subgraph_paths,
)
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.module_paths import FramePaths, RunModule
from tcexplore.capture.structured_trace import StructuredTrace, TraceEvent
from tcexplore.capture.user_files import NodeNames, UserFiles
from tcexplore.events import CapturedModule, FxNode, GraphCaptured, Location
from tcexplore.events.base import backward_number
from tcexplore.events.dynamo_events import with_subgraphs
from tcexplore.torch_text.dynamo_names import readable_source

_FACT = "FX graphs"
_CALLS = ("call_function", "call_method", "call_module")
_PARTS = "names of DDP's parts"
_NamesByModule = dict[str, dict[str | None, str]]
_GENERATED_FILE = "<eval_with_key>"
"""The file name that torch gives to the code of a graph."""


def install(hooks: Hooks, trace: StructuredTrace, user_files: UserFiles) -> None:
    """Emit a `GraphCaptured` for each graph before the backend compiles it."""
    observer = _GraphObserver(hooks, user_files)
    trace.subscribe(_FACT, "dynamo_output_graph", observer.graph_printed)
    hooks.watch(_FACT, "torch._dynamo.output_graph:OutputGraph.call_user_compiler", before=observer.graph_finished)
    trace.subscribe(_PARTS, "optimize_ddp_split_graph", observer.split_begins)


class _GraphObserver:
    def __init__(self, hooks: Hooks, user_files: UserFiles) -> None:
        self._hooks = hooks
        self._user_files = user_files
        self._printed: tuple[str | None, str] = (None, "")
        self._splits = False
        """Whether splits of graphs are observed."""

    def graph_printed(self, event: TraceEvent) -> None:
        """Keep the text that torch prints for its trace: printing it again would double the cost."""
        self._printed = (event.graph, event.payload or "")

    def graph_finished(self, output_graph: Any, gm: Any, *_args: Any) -> None:
        graph = current_compile_id() or ""
        record_caller(graph, self._user_files)
        nodes = tuple(fx_node(node, self._user_files) for node in gm.graph.nodes)
        subgraphs = read_subgraphs(gm, partial(fx_node, user_files=self._user_files))
        names = frozenset(node.name for node in with_subgraphs(nodes, subgraphs))
        calls = tuple((node.name, node.target) for node in gm.graph.nodes if node.op in _CALLS)
        self._user_files.node_names[graph] = NodeNames(names, *_names_by_module(gm), subgraph_paths(gm), calls)
        self._user_files.readers[graph] = dict(_first_readers(nodes))
        printed_graph, code = self._printed
        paths = FramePaths(output_graph)
        frame_module = paths.of_frame()
        self._hooks.emit(
            GraphCaptured(
                graph=graph,
                ops=sum(node.op in _CALLS for node in nodes),
                nodes=nodes,
                code=code if printed_graph == graph else gm.print_readable(print_output=False),
                subgraphs=subgraphs,
                frame=self._frame(graph, output_graph),
                module=frame_module.place.path if frame_module else None,
                root=frame_module.place.root if frame_module else "",
                modules=tuple(_modules(gm.graph.nodes, paths, frame_module)),
            )
        )

    def split_begins(self, _event: TraceEvent) -> None:
        """Observe the split of a graph. Not earlier: importing DDP's compiler takes time."""
        if not self._splits:
            self._splits = True
            symbol = "torch._dynamo.backends.distributed:SubmodCompiler.__init__"
            self._hooks.watch(_PARTS, symbol, after=self.graph_split)

    def graph_split(self, _result: Any, _compiler: Any, split: Any, *_args: Any, **_options: Any) -> None:
        """Learn the names in the parts of a graph: DDP splits its calls in order."""
        graph = current_compile_id() or ""
        parts = [part.graph for _, part in split.named_children()]
        calls = [(part, node) for part in parts for node in part.nodes if node.op in _CALLS]
        known = self._user_files.node_names[graph]
        if [node.target for _, node in calls] != [target for _, target in known.calls]:
            return
        names: dict[int | None, dict[str, str]] = {id(part): {} for part in parts}
        for (part, node), (name, _) in zip(calls, known.calls, strict=True):
            names[id(part)][node.name] = name
        self._user_files.node_names[graph] = known._replace(parts=names)

    def _frame(self, graph: str, output_graph: Any) -> Location | None:
        """Return the compiled frame, with the line where it resumes after a break.

        None for a graph that compiled autograd generated.
        """
        code = getattr(getattr(output_graph, "root_tx", None), "f_code", None)
        if code is None or (backward_number(graph) and code.co_filename.startswith(_GENERATED_FILE)):
            return None
        return self._user_files.location_of(code)


def _modules(nodes: Iterable[Any], paths: FramePaths, of_frame: RunModule | None) -> Iterator[CapturedModule]:
    """Yield the module of the frame, and each module that runs a node."""
    if of_frame is not None:
        place = of_frame.place
        yield CapturedModule(source="self", type=of_frame.type, path=place.path, root=place.root)
    stacks = list(module_stacks(nodes))
    known = paths.of_sources(stacks)
    for source, name in {source: name for stack in stacks for source, name in stack.items()}.items():
        path = known.get(source)
        yield CapturedModule(
            source=readable_source(source), type=name, path=path.path if path else None, root=path.root if path else ""
        )


def _first_readers(nodes: tuple[FxNode, ...]) -> Iterator[tuple[str, Location]]:
    """Yield the readable name of an input, and the line of a node that reads it, the first reader last."""
    inputs = {node.name: node.target for node in nodes if node.op == "placeholder"}
    for node in reversed(nodes):
        for name in node.inputs:
            if name in inputs and node.location is not None:
                yield inputs[name], node.location


def _names_by_module(gm: Any) -> tuple[_NamesByModule, _NamesByModule]:
    """Return the final names of calls by their names in their own graph, and by their first names.

    Dynamo names a node after its function, records that name as the source, and finally renames the node after the
    user's variable. Later stages keep the source.
    """
    by_name, by_first = _NamesByModule(), _NamesByModule()
    for path, graph in graphs_of(gm):
        for node in graph.nodes:
            if node.op in _CALLS:
                module, name = module_path(node.meta), node_name(path, node.name)
                by_name.setdefault(node.name, {}).setdefault(module, name)
                if functions := node.meta.get("source_fn_stack"):
                    by_first.setdefault(str(functions[-1][0]), {}).setdefault(module, name)
    return by_name, by_first
