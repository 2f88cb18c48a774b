"""Inductor's generated modules: kernels and calls in their text, as events with ops and lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.torch_text.dynamo_names import RUNS_OP
from tcexplore.torch_text.kernel_source import KernelSource, read_definitions, written_user_kernel
from tcexplore.traces.inductor_records import GraphRecords, PostGrad
from tcexplore.traces.record_index import Record
from tcexplore.traces.trace_context import TraceContext
from tcexplore.traces.wrapper_dataflow import Dataflow, FlowStep, match_nodes

_FUSED = re.compile(r"^(?:cpp|triton_\w{3})_fused_(.+?)_\d+$")


_INDEXING = frozenset({"slice", "select", "index", "embedding_dense", "threshold", "cat", "view", "t", "transpose"})
"""Ops that graphs of Dynamo write in another way."""


_DECOMPOSED = frozenset({
    "to_copy", "lift_fresh", "clamp", "arange", "clone", "fill", "zeros", "ones", "full",
    "norm", "ones_like", "softmax", "log_softmax", "masked_fill", "nll_loss_forward",
})  # fmt: skip
"""Frequent ops that Inductor's decompositions replace."""


@dataclass(slots=True)
class _Pending:
    """The code of a graph or of a subgraph in a generated module, whose provenance records may follow."""

    graph: str
    phase: ev.GraphPhase
    text: WrapperText
    nodes: tuple[ev.FxNode, ...]
    prefix: str = ""
    """What begins the names of its nodes in the graph that was split."""
    inside: bool = False
    """Whether it is the code of a subgraph."""


@dataclass
class KernelRecords:
    """Generated modules, completed by the provenance records that follow them."""

    graphs: GraphRecords
    _pending: list[list[_Pending]] = field(default_factory=list)
    """Of each generated module, the code of its graph and that of each subgraph."""
    _nodes_of: dict[tuple[str, str], dict[str, tuple[str, ...]]] = field(default_factory=dict)
    """Post-grad nodes by handle, by compile id and phase."""
    _newest: dict[str, str] = field(default_factory=dict)
    """Phase of the newest module, by compile id."""
    _names: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    """Sources by the kernels' unique names, by compile id and phase."""

    def read_wrapper(self, context: TraceContext, record: Record) -> None:
        """Emit the generated module, and keep its kernels until its provenance is known."""
        source = context.payload(record)
        phase: ev.GraphPhase = "backward" if is_backward(source) else "forward"
        nodes, prefix, subgraphs = self.graphs.post_grad.get((record.graph, phase), PostGrad())
        bodies = {subgraph.name.rpartition(".")[2]: subgraph for subgraph in subgraphs}
        text = read_wrapper(source, bodies)
        path = record.meta.get("file_path") if isinstance(record.meta, dict) else None
        context.emit(
            ev.Wrapper(
                graph=record.graph,
                phase=phase,
                source=source,
                path=ev.clean(str(path or "")),
                reused=tuple(text.reused),
            )
        )
        self._newest[record.graph] = phase
        functions = [_Pending(record.graph, phase, text, nodes, prefix)]
        for name, function in text.functions.items():
            own = _own_nodes(bodies[name])
            functions.append(_Pending(record.graph, phase, function, own, f"{bodies[name].name}.", inside=True))
        self._pending.append(functions)

    def read_mappings(self, context: TraceContext, record: Record) -> None:
        """Keep which post-grad nodes are in each kernel of the module before the record.

        The handles of a backward are those of its forward again, and its record may have no nodes.
        """
        phase = self._newest.get(record.graph, "forward")
        facts = context.json(record) if record.checksum else None
        mapping = facts.get("cppCodeToPost") if isinstance(facts, dict) else None
        for handle, names in mapping.items() if isinstance(mapping, dict) else ():
            if isinstance(names, list):
                nodes = tuple(ev.clean(str(name)) for name in names)
                self._nodes_of.setdefault((record.graph, phase), {})[ev.clean(str(handle))] = nodes

    def flush(self, context: TraceContext, graph: str | None = None) -> None:
        """Emit the kernels of a compile, of all if None."""
        due = [functions for functions in self._pending if graph in (None, functions[0].graph)]
        self._pending = [functions for functions in self._pending if functions not in due]
        for functions in due:
            module = functions[0]
            names = self._names.setdefault((module.graph, module.phase), {})
            handles = self._nodes_of.get((module.graph, module.phase), {})
            made = [call for function in functions for call in _Kernels(context, function, handles).calls()]
            for kernel in _events(module, sorted(made, key=lambda call: call.event.order), names):
                context.emit(kernel)


class _MadeCall(NamedTuple):
    """A call of a kernel, as it is written and as an event."""

    written: WrittenCall
    event: ev.KernelCall
    source: KernelSource | None
    """None for a library call."""


def _own_nodes(subgraph: ev.Subgraph) -> tuple[ev.FxNode, ...]:
    """Return the nodes of a subgraph with the names that they have in it."""
    path = f"{subgraph.name}."
    return tuple(
        replace(
            node,
            name=node.name.removeprefix(path),
            inputs=tuple(name.removeprefix(path) for name in node.inputs),
        )
        for node in subgraph.nodes
    )


def _events(module: _Pending, made: Sequence[_MadeCall], names: dict[str, str]) -> Iterator[ev.Kernel]:
    """Yield the kernels of a module; `names` has the sources of those of the compile by unique name."""
    calls: dict[str, list[_MadeCall]] = {}
    for call in made:
        calls.setdefault(_unique(call.written.name, call.source, names), []).append(call)
    for name, own in calls.items():
        yield _event(module, name, own)


def _unique(name: str, source: KernelSource | None, known: dict[str, str]) -> str:
    """Return a name that is unique in the compile: extern calls, and equal names of other modules, get a number."""
    number = 1
    unique = name
    while unique in known and (source is None or known[unique] != source.text):
        number += 1
        unique = f"{name}:{number}"
    known[unique] = source.text if source else ""
    return unique


def _event(module: _Pending, name: str, made: Sequence[_MadeCall]) -> ev.Kernel:
    calls, source = tuple(call.event for call in made), made[0].source
    return ev.Kernel(
        graph=module.graph,
        phase=module.phase,
        name=name,
        language=source.language if source else "extern",
        source=source.text if source else "\n".join(call.written.text for call in made),
        ops=_joined(call.ops for call in calls),
        nodes=_joined(call.nodes for call in calls),
        source_lines=_joined(call.source_lines for call in calls),
        calls=calls,
        user_op=written_user_kernel(source.text) if source else None,
    )


class _Kernels:
    """The calls of kernels in the code of one graph or subgraph."""

    def __init__(self, context: TraceContext, pending: _Pending, handles: Mapping[str, tuple[str, ...]]) -> None:
        self._context = context
        self._module = pending
        self._handles = handles
        self._by_name = {node.name: node for node in pending.nodes}
        self._places = {name: place for place, name in enumerate(self._by_name)}
        """Position of each node in the graph."""
        self._dynamo = _dynamo_nodes(context, pending)

    def calls(self) -> Iterator[_MadeCall]:
        """Yield the calls, with the names that their nodes have in the whole graph."""
        text, prefix = self._module.text, self._module.prefix
        made = [self._call(at, written, text.kernels.get(written.name)) for at, written in enumerate(text.calls)]
        for at, written in enumerate(text.calls):
            call = self._with_readers_line(made, at)
            call = replace(call, order=written.order, nodes=tuple(prefix + node for node in call.nodes))
            yield _MadeCall(written, call, text.kernels.get(written.name))

    def _call(self, order: int, written: WrittenCall, source: KernelSource | None) -> ev.KernelCall:
        comment = written.comment
        if source is not None:
            defined = self._module.text.comments.get(written.name, CommentBlock())
            # The comment at the definition is about the first call of equal code.
            own = defined if self._first_calls[written.name] == order else CommentBlock()
            comment = CommentBlock(
                comment.ops or defined.ops, comment.nodes or own.nodes or self._named_nodes(comment),
                comment.source_nodes or own.source_nodes, comment.handles,
            )  # fmt: skip
        nodes = self._nodes(written.name, comment, order, extern=source is None)
        placed = (self._by_name[name].location for name in nodes)
        lines = tuple(dict.fromkeys(place for place in placed if place))
        ops = self._ops(written.name, comment, nodes, extern=source is None)
        lines = lines or self._candidate_line(order) or self._source_lines(comment) or self._only_line(ops)
        return ev.KernelCall(
            order=order,
            ops=ops,
            nodes=nodes,
            source_lines=lines,
        )

    @cached_property
    def _flow(self) -> Dataflow:
        """The calls with the nodes that their buffers tell."""
        text = self._module.text
        # A copy may be any op that converts.
        ops = {call.name: "" if call.name == COPY else self._extern_op(call.name) for call in text.calls}
        comments = (call.comment.source_nodes for call in text.calls)
        return match_nodes(self._module.nodes, text.steps, text.kernels, ops, comments)

    @cached_property
    def _first_calls(self) -> dict[str, int]:
        """Position of the first call of each kernel."""
        first: dict[str, int] = {}
        for order, call in enumerate(self._module.text.calls):
            first.setdefault(call.name, order)
        return first

    def _named_nodes(self, comment: CommentBlock) -> tuple[str, ...]:
        """Return the nodes of a later call of equal code, if its comment names nodes of this graph only.

        A comment has the names of Dynamo's nodes, and of nodes that come from none, as in a backward.
        """
        names = comment.source_nodes
        own = all(name in self._by_name and name not in self._dynamo for name in names)
        return names if names and own else ()

    def _with_readers_line(self, calls: Sequence[ev.KernelCall], order: int) -> ev.KernelCall:
        """Return a call; a copy into another layout, which has no op, is on the line of the call that reads it."""
        call = calls[order]
        if call.nodes or call.source_lines or call.ops:
            return call
        written = {id(value) for value in self._flow.calls[order].writes}
        for later in calls[order + 1 :]:
            if any(id(value) in written for value in self._flow.calls[later.order].reads):
                return replace(call, source_lines=later.source_lines)
        return call

    def _candidate_line(self, order: int) -> tuple[ev.Location, ...]:
        """Return the line of a library call of an unknown node, if all nodes that it may be have the same."""
        call = self._flow.calls[order]
        places = {self._by_name[name].location for name in self._flow.candidates(order)} if call.op else set()
        place = places.pop() if len(places) == 1 else None
        return (place,) if place is not None else ()

    def _only_line(self, ops: tuple[str, ...]) -> tuple[ev.Location, ...]:
        """Return the line of all nodes of these ops, if it is one."""
        places = {node.location for op in ops for node in self._nodes_of.get(op, ())}
        place = places.pop() if len(places) == 1 else None
        return (place,) if place is not None else ()

    def _nodes(self, name: str, comment: CommentBlock, order: int, *, extern: bool) -> tuple[str, ...]:
        """Return post-grad nodes, from the comment, the provenance records, the buffers, or names without a choice."""
        recorded = tuple(node for handle in comment.handles for node in self._handles.get(handle, ()))
        # In a subgraph, torch also records nodes around it that compute its inputs, by names that it may have too.
        names = comment.nodes or (() if self._module.inside else recorded)
        if not names:
            call = self._flow.calls[order]
            names = (call.node,) if call.node else self._flow.kernel_nodes(call) if not call.op else ()
        names = names or recorded
        if not names:
            names = self._extern_nodes(name, comment) if extern else self._only_nodes(name)
        if extern:  # a comment also names what torch reads the inputs from
            op = self._extern_op(name)
            own = [node for node in names if node in self._by_name and _packet(self._by_name[node]) == op]
            names = tuple(own) if len(own) == 1 else names
        return tuple(sorted({node for node in names if node in self._places}, key=self._places.__getitem__))

    def _extern_op(self, name: str) -> str:
        """Return the op of a library call: the graph has `aten.bernoulli` for a call of `aten.bernoulli_`."""
        op = _extern_op(name)
        functional = op.removesuffix("_")
        return functional if op not in self._nodes_of and functional in self._nodes_of else op

    @cached_property
    def _nodes_of(self) -> dict[str, list[ev.FxNode]]:
        """The nodes by their op, in the order of the graph."""
        nodes: dict[str, list[ev.FxNode]] = {}
        for node in self._module.nodes:
            nodes.setdefault(_packet(node), []).append(node)
        return nodes

    def _extern_nodes(self, name: str, comment: CommentBlock) -> tuple[str, ...]:
        """Return the node of a library call if its op and its lines leave one."""
        lines = set(self._source_lines(comment))
        nodes = self._nodes_of.get(self._extern_op(name), [])
        placed = [node for node in nodes if node.location in lines] or nodes
        return (placed[0].name,) if len(placed) == 1 else ()

    def _only_nodes(self, name: str) -> tuple[str, ...]:
        """Return the nodes of ops that occur in the name of no other kernel."""
        own = [op for op in self._named_ops(name) if self._named_by[op] == 1]
        nodes = (node for op in own for node in self._nodes_of.get(op, ()))
        return tuple(node.name for node in nodes if node.op == "call_function")

    def _ops(self, name: str, comment: CommentBlock, nodes: tuple[str, ...], *, extern: bool) -> tuple[str, ...]:
        if extern:
            return tuple(dict.fromkeys(_packet(self._by_name[node]) for node in nodes)) or (self._extern_op(name),)
        return comment.ops or self._named_ops(name)

    def _named_ops(self, kernel: str) -> tuple[str, ...]:
        """Return the ops in a kernel's name: `cpp_fused_add_native_layer_norm_0`."""
        match = _FUSED.match(kernel)
        words = match[1].split("_") if match else []
        ops: list[str] = []
        rest: list[str] = []
        while words:
            names = ((n, "_".join(words[:n])) for n in range(len(words), 0, -1))
            size, op = next(((n, self._known_ops[name]) for n, name in names if name in self._known_ops), (1, ""))
            if op and rest != [""]:  # an unknown op whose name begins with an underscore
                ops += [f"aten.{'_'.join(rest)}"] if rest else []
                ops.append(op)
                rest = []
            else:
                size = 1
                rest.append(words[0])
            words = words[size:]
        return tuple(dict.fromkeys([*ops, *([f"aten.{'_'.join(rest)}"] if rest else [])]))

    @cached_property
    def _named_by(self) -> Counter[str]:
        """Number of kernels with each op in their name."""
        return Counter(op for kernel in self._module.text.kernels for op in self._named_ops(kernel))

    @cached_property
    def _known_ops(self) -> dict[str, str]:
        """Return the ops that a kernel's name may consist of: those of the graph, and what it was decomposed from."""
        own = {_packet(node) for node in self._module.nodes if node.op == "call_function"}
        called = self._context.functions.get(self._module.graph, frozenset()) | _INDEXING | _DECOMPOSED
        called |= {name.rpartition(".")[2] for name in own}
        called |= {name.removesuffix("_") for name in called}  # AOTAutograd makes `index_copy` of `index_copy_`
        forms = (
            "{}", "_{}", "{}_backward", "_{}_backward_data", "native_{}", "native_{}_backward",
            "_native_{}_legit", "_native_{}_legit_no_training", "_native_{}_legit_functional", "{}_with_indices",
            "unsafe_{}", "_unsafe_{}", "_safe_{}", "{}_interface", "linalg_{}", "linalg_vector_{}",
        )  # fmt: skip
        known = {form.format(name): f"aten.{form.format(name)}" for name in called for form in forms}
        return {**known, **{name.rpartition(".")[2]: name for name in own if "." in name}}

    def _source_lines(self, comment: CommentBlock) -> tuple[ev.Location, ...]:
        placed = (self._dynamo[name].location for name in comment.source_nodes if name in self._dynamo)
        return tuple(dict.fromkeys(place for place in placed if place))


def _dynamo_nodes(context: TraceContext, module: _Pending) -> dict[str, ev.FxNode]:
    """Return the nodes that the comments of a generated module name.

    If the graph was split, they are those of one part: the one with all lines of the module. A name that several such
    parts have on different lines is left out.
    """
    if module.inside:  # the comments have names of nodes of any graph
        return {}
    parts = context.parts.get(module.graph)
    if parts is None:
        return {node.name: node for node in context.graphs.get(module.graph, ())}
    lines = {node.location for node in module.nodes if node.location}
    fitting = [part for part in parts if lines <= {node.location for node in part.nodes}] or parts
    named: dict[str, list[ev.FxNode]] = {}
    for node in (node for part in fitting for node in part.nodes):
        named.setdefault(node.name, []).append(node)
    return {name: nodes[0] for name, nodes in named.items() if len({node.location for node in nodes}) == 1}


def _joined(tuples: Iterable[tuple[object, ...]]) -> tuple:  # type: ignore[type-arg]
    return tuple(dict.fromkeys(item for items in tuples for item in items))


def _packet(node: ev.FxNode) -> str:
    """Return `aten.mul` for `aten.mul.Tensor`, and for a call of it that sets the state of random numbers around it."""
    return ev.packet(_op_inside(node.target, node.args) or node.target)


def _op_inside(name: str, arguments: str) -> str:
    """Return the op that a call runs with a state of random numbers, empty for any other call."""
    match = _OP_ARGUMENT.search(arguments) if name.endswith(RUNS_OP) else None
    return match[1] if match else ""


def _extern_op(name: str) -> str:
    parts = name.removeprefix("torch.ops.").replace("extern_kernels.", "aten.").split(".")
    return ".".join(parts[:2])


_AOT_ID = re.compile(r"^# AOT ID: \['(.+?)'\]", re.M)
_FUNCTION = re.compile(r"^def (\w+)\(")
_CALLED = re.compile(r"^(?:\w+ = )?(\w+)\(")
_ATEN = re.compile(r"Original ATen: \[(.*?)\]")
_SOURCE_NODES = re.compile(r"Source Nodes: \[(.*?)\]")
_HANDLE = re.compile(r"\[Provenance debug handles\] (\S+)")
_MAPPING = re.compile(r"^#\s{2,}(\S+) => (.+)$")
_FRAGMENT = re.compile(r"^#\s+%(\w+) : .*= call_function\[target=([\w.]+)\]")
_EXTERN = re.compile(r"^(?:(\w+) = )?((?:extern_kernels|aten|torch\.ops)\.[\w.]+)\((.*)$")
_OP_ARGUMENT = re.compile(r"\b(?:torch\.ops\.)?([a-z]\w*\.\w+\.\w+)\b")
"""An op as an argument, `torch.ops.aten.mul.Tensor` or `aten.mul.Tensor`."""
COPY = "aten.copy_"
_COPY = re.compile(r"^\w+\.copy_\(\w+, (?:True|False)\)")
"""A copy to another device or layout: `buf4.copy_(arg0_1, False)`."""
_DEFINED_SIZE = re.compile(r"^(?:u|zuf)\d+ = (\w+)[.\[]")
"""A size or value that torch reads from the result of a call: `u0 = buf5.size(0)`."""
_REUSE = re.compile(r"^(\w+) = (\w+); del \2  # reuse$|^(\w+) = reinterpret_tensor\((\w+), .*\); del \4  # reuse$")


_ALIAS = re.compile(r"^\w+ = (?:reinterpret_tensor\(\w+, |\w+(?:\[\d+\])?(?:;|$))")


@dataclass(slots=True)
class CommentBlock:
    """Inductor's comment above a kernel or an extern call."""

    ops: tuple[str, ...] = ()
    """Original ATen ops."""
    nodes: tuple[str, ...] = ()
    """Post-grad nodes."""
    source_nodes: tuple[str, ...] = ()
    """Dynamo nodes."""
    handles: tuple[str, ...] = ()
    """Keys of the provenance records: `cpp_fused_add_0:2`."""


@dataclass(slots=True)
class WrittenCall:
    """One call of a kernel."""

    name: str
    text: str
    comment: CommentBlock
    order: int = 0
    """Its position among the calls of the module."""


@dataclass(slots=True)
class WrapperText:
    """Definitions and calls of a generated module."""

    kernels: dict[str, KernelSource] = field(default_factory=dict)
    comments: dict[str, CommentBlock] = field(default_factory=dict)
    """By the name of the kernel."""
    calls: list[WrittenCall] = field(default_factory=list)
    reused: list[tuple[str, str]] = field(default_factory=list)
    steps: list[FlowStep] = field(default_factory=list)
    """The statements about buffers: calls, aliases, the results."""
    functions: dict[str, WrapperText] = field(default_factory=dict)
    """The code of each subgraph, with names as if it stood alone, and with the same kernels."""
    made: list[WrittenCall] = field(default_factory=list)
    """All calls as Inductor generates them: those of a subgraph where it is called first."""


def is_backward(text: str) -> bool:
    """Return whether a generated module is that of a backward graph."""
    aot_id = _AOT_ID.search(text)
    return aot_id is not None and aot_id[1].endswith("backward")


def read_wrapper(text: str, subgraphs: Collection[str] = ()) -> WrapperText:
    """Return the kernels, extern calls and reused buffers of a generated module.

    `subgraphs` are the names of functions that belong to subgraphs.
    """
    wrapper = WrapperText()
    end = 0
    functions = ""
    for name, source, start, stop in read_definitions(text):
        functions += _functions(text[end:start]) if end else ""
        end = stop
        wrapper.kernels[name] = source
        wrapper.comments[name] = read_comment(_lines_above(text, start))
    for name, lines in _by_function(f"{functions}{text[max(end, 0) :]}".split("\n"), subgraphs):
        if name:
            own = wrapper.functions[name] = WrapperText(wrapper.kernels, wrapper.comments)
            _read_calls(own, lines, re.compile(rf"\b{re.escape(name)}_"))
        else:
            _read_calls(wrapper, lines)
    # A subgraph may be called several times, or by another one only.
    made = [*wrapper.made, *(call for function in wrapper.functions.values() for call in function.calls)]
    wrapper.made = list({id(call): call for call in made}.values())
    for order, call in enumerate(wrapper.made):
        call.order = order
    return wrapper


def _by_function(lines: Sequence[str], subgraphs: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of the function of each subgraph with its name, and those between them without one."""
    name, own = "", list[str]()
    for line in lines:
        defined = _FUNCTION.match(line)
        inside = defined[1] if defined and defined[1] in subgraphs else "" if line[:1].strip() else name
        if inside != name:
            yield name, own
            own = []
        name = inside
        own.append(line)
    yield name, own


def _functions(text: str) -> str:
    """Return the functions between two definitions, which run subgraphs, without comments on the next definition."""
    start = text.find("\ndef ")
    return f"{text[start:]}\n    pass\n" if start >= 0 else ""


def _lines_above(text: str, start: int) -> list[str]:
    """Return the comment lines right above a position."""
    lines: list[str] = []
    end = start - 1
    while end > 0:
        begin = text.rfind("\n", 0, end) + 1
        line = text[begin:end].strip()
        if not line.startswith("#"):
            break
        lines.append(line)
        end = begin - 1
    return lines[::-1]


def read_comment(lines: Sequence[str]) -> CommentBlock:
    """Return the ops and nodes that a comment names."""
    block = CommentBlock()
    mapped: list[str] = []
    fragment: list[str] = []
    for line in lines:
        if aten := _ATEN.search(line):
            block.ops = _names(aten[1])
            source_nodes = _SOURCE_NODES.search(line)
            block.source_nodes = _names(source_nodes[1]) if source_nodes else ()
        elif handle := _HANDLE.search(line):
            block.handles = (*block.handles, handle[1])
        elif node := _FRAGMENT.match(line):
            fragment.append(node[1])
        elif pair := _MAPPING.match(line):
            mapped += [name.strip() for name in pair[2].split(",")]
    block.nodes = tuple(dict.fromkeys(fragment or mapped))
    return block


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _read_calls(wrapper: WrapperText, lines: Iterable[str], prefix: re.Pattern[str] | None = None) -> None:
    """Read the calls and the statements about buffers; `prefix` begins the names of those in a subgraph."""
    comment: list[str] = []
    for code in _body(lines):
        if code.startswith("#"):
            comment.append(code)
            continue
        call = _call(code, wrapper)
        step = code if prefix is None else prefix.sub("", code)
        if call is not None:
            wrapper.calls.append(WrittenCall(call, code, read_comment(comment)))
            wrapper.made.append(wrapper.calls[-1])
            wrapper.steps.append(FlowStep("call", step, call))
            comment = []
            continue
        called = _CALLED.match(code)
        if called and called[1] in wrapper.functions:
            wrapper.made += wrapper.functions[called[1]].calls
        if code.startswith("return ("):
            wrapper.steps.append(FlowStep("return", step))
        elif _ALIAS.match(step):
            wrapper.steps.append(FlowStep("alias", step))
        if wrapper.calls and _reads_result(code, wrapper.calls[-1]):
            wrapper.calls[-1].text += f"\n{code}"
        elif reuse := _REUSE.match(code):
            wrapper.reused.append((reuse[2] or reuse[4], reuse[1] or reuse[3]))
        elif not _keeps_comment(code):
            comment = []


def _reads_result(code: str, call: WrittenCall) -> bool:
    """Return whether a statement defines a symbol from the result of an extern call: it is part of that call."""
    match = _DEFINED_SIZE.match(code)
    return match is not None and call.text.startswith(f"{match[1]} = ")


def _body(lines: Iterable[str]) -> Iterator[str]:
    """Yield the statements before the module's benchmark, joined if they span lines."""
    pending = ""
    for line in lines:
        if line.startswith(("def benchmark_compiled_module", "def get_args")):
            return
        code = line.strip()
        if not code or (not line.startswith(" ") and not line.startswith("#")):
            continue
        code = f"{pending} {code}" if pending else code
        pending = code if _is_open(code) and len(code) < 20_000 else ""
        if not pending:
            yield code


def _is_open(code: str) -> bool:
    return not code.startswith("#") and code.endswith((",", "(")) and code.count("(") > code.count(")")


def _keeps_comment(code: str) -> bool:
    return " = empty_strided" in code or code.startswith(("with ", "stream", "raw_stream", "torch.cuda.set_device"))


def _call(code: str, wrapper: WrapperText) -> str | None:
    """Return the name of the called kernel, None for any other statement."""
    name = code.partition("(")[0].strip()
    kernel = name.removesuffix(".run")
    if kernel in wrapper.kernels:
        return kernel
    library, dot, _ = name.rpartition(".")
    if dot and library in wrapper.kernels:  # a function of a compiled library: mps_lib_0.generated_kernel
        return library
    match = _EXTERN.match(code)
    if match is None:
        return COPY if _COPY.match(code) else None
    inside = _op_inside(match[2], match[3])
    return f"torch.ops.{inside}" if inside else match[2]
