"""Records as events: a real trace fills the same snapshot as a live run."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tcexplore import events as ev
from tcexplore.documents.ranks_view import collective_rows, split_rows
from tcexplore.documents.timing.timing_view import COMPILE_TIME, compile_time_rows
from tcexplore.session import Snapshot
from tcexplore.session.cache_misses import cache_misses
from tcexplore.session.communication import collective_calls
from tcexplore.session.memory_peak import memory_peak, why_unexplained
from tcexplore.session.snapshot import start_snapshot
from tcexplore.traces import span_records
from tcexplore.traces.graph_text import read_expression, read_graph
from tcexplore.traces.kernel_records import read_wrapper
from tcexplore.traces.trace_inputs import trace_inputs
from tcexplore.traces.trace_job import open_inputs
from tcexplore.traces.trace_run import TraceRun, read_snapshot
from tcexplore.ui.pane_table import PANES


def snapshot_of(folder: Path, rank: int = 0) -> Snapshot:
    job = open_inputs(trace_inputs([str(folder)])).jobs[0]
    return read_snapshot(TraceRun(job.ranks[rank], 1, len(job.ranks)))


@pytest.fixture(scope="module")
def same(traces: Path) -> Snapshot:
    return snapshot_of(traces / "same")


def test_events_added_together_make_the_same_snapshot(traces: Path, same: Snapshot):
    job = open_inputs(trace_inputs([str(traces / "same")])).jobs[0]
    run = TraceRun(job.ranks[0], 1, len(job.ranks))
    snapshot = start_snapshot(run.start())
    for event in (event for batch in run.batches() for event in batch):
        snapshot = snapshot.apply(event)
    assert snapshot == same


@pytest.mark.parametrize(
    ("end", "phase"),
    [
        ('"ph": "i",\n\t"cat": "dynamo_timed",\n\t"tid": 0,\n\t"pid": 0,\n\t"s": "p"\n\t}', "i"),
        ('"ph": "B",\n\t"cat": "dynamo_timed",\n\t"tid": 0,\n\t"pid": 0\n\t}', "B"),
        ('"args": {"ph": "i", "cat": "x", "tid": 0}}', None),
        ('"args": {"a": "\\"ph\\": \\"i\\", \\"cat\\": \\"\\"}"}', None),
    ],
)
def test_the_kind_of_a_span_is_told_by_the_end_of_its_record(end: str, phase: str | None):
    found = span_records._PHASE.search(end.encode())
    assert (found[1].decode() if found else None) == phase


def test_a_graph_has_nodes_with_the_users_lines(same: Snapshot):
    graph = same.graphs[0]
    calls = [(node.op, node.target, node.location.line if node.location else None) for node in graph.nodes if node.args]
    assert calls == [
        ("call_function", "torch.nn.functional.linear", 31),
        ("call_function", "add", 33),
        ("call_method", "sin", 34),
        ("call_function", "mul", 37),
        ("output", "output", None),
    ]
    assert graph.frame == ev.Location("/project/tests/traces/programs/seeded.py", 30, "forward")


def test_lines_of_the_trace_replace_a_source_that_is_not_on_disk(same: Snapshot):
    lines = same.source.split("\n")
    assert lines[30].strip() == "x = self.linear(x)"
    assert lines[0] == ""


def test_guards_have_their_value_and_line(same: Snapshot):
    guards = {guard.name: guard for guard in same.guards[0].guards if not guard.structural}
    assert (guards["x"].summary, guards["x"].location.line if guards["x"].location else 0) == (
        "f32[4, 8] cpu, contiguous", 31,
    )  # fmt: skip
    assert guards["self.label"].summary == "== 'any'"
    assert same.guards[0].latency_us


def test_kernels_have_source_ops_and_lines(same: Snapshot):
    kernels = {
        kernel.name: kernel for kernel in same.code.kernels if (kernel.graph, kernel.phase) == ("0/0", "forward")
    }
    fused = kernels["cpp_fused_add_mul_sin_0"]
    assert (fused.language, fused.ops) == ("cpp", ("aten.add", "aten.mul", "aten.sin"))
    assert sorted(place.line for place in fused.source_lines) == [33, 34, 37]
    assert "extern" in fused.source
    assert kernels["extern_kernels.addmm"].nodes == ("addmm",)


def test_stages_partitions_phases_and_caches_are_read(same: Snapshot):
    stages = [graph.stage for graph in same.code.aten_graphs if graph.graph == "0/0"]
    assert stages == ["joint", "forward", "backward", "post_grad", "post_grad"]
    assert [saved.name for saved in same.code.partitions[0].saved if not saved.input] == ["addmm"]
    assert {"dynamo", "entire_frame_compile"} <= {span.name for span in same.phase_times}
    assert [lookup.outcome for lookup in same.cache_lookups] == ["miss"] * 5
    assert cache_misses(same) == (), "each graph is compiled for the first time"
    first, second = [key.parts for key in same.cache_keys if key.cache == "fx_graph"][:2]
    assert len(first) > 400 > len(second) > 0
    assert any("example_inputs" in part.name for part in second)


def test_a_break_has_its_registry_id_and_line(traces: Path):
    (graph_break,) = snapshot_of(traces / "break", 1).breaks
    assert graph_break.location is not None
    assert (graph_break.location.line, graph_break.code) == (36, 'print("sum", x.sum())')
    assert graph_break.registry_id
    assert graph_break.hints


def test_a_recompile_has_its_cause(traces: Path):
    (recompile,) = snapshot_of(traces / "shape", 1).recompiles
    assert (recompile.graph, recompile.failed_entry, recompile.kind) == ("0/1", "0/0", "size")
    assert (recompile.name, recompile.dim, recompile.old, recompile.new) == ("x", 0, "4", "6")


def test_the_splits_of_ddp_are_read(traces: Path):
    splits = snapshot_of(traces / "ddp").splits
    assert [split.part for split in splits] == ["submod_0", "submod_1"]
    assert all(split.ops and split.parameter_bytes for split in splits)


def test_unknown_records_are_listed_and_unavailable_facts_named(same: Snapshot):
    listed = {record.kind: record for record in same.trace_records if not record.read}
    assert listed["before_post_grad_graph"].text.startswith("class GraphModule")
    assert {"accuracy", "memory"} <= {missing.fact for missing in same.missing_facts}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("_operator_not_(x)", ("call_function", "not_", "x", ("x",))),
        ("torch._C._nn.linear(x, w, None)", ("call_function", "torch.nn.functional.linear", "x, w, None", ("x", "w"))),
        ("torch.ops.aten.add.Tensor(x, 1)", ("call_function", "aten.add.Tensor", "x, 1", ("x",))),
        ("x.view(4, -1)", ("call_method", "view", "x, 4, -1", ("x",))),
        ("x[(slice(None, 2, None), 0)]", ("call_function", "getitem", "x, (:2, 0)", ("x",))),
        ("w @ x", ("call_function", "matmul", "w, x", ("w", "x"))),
        ("f(<object>, x)", ("call_function", "f", "<object>, x", ("x",))),
        ("zeros(device = device(type='cuda', index=1))", ("call_function", "zeros", "device=cuda:1", ())),
    ],
)
def test_statements_of_graphs_are_read(code: str, expected: tuple[str, str, str, tuple[str, ...]]):
    assert tuple(read_expression(code, {"x", "w"})) == expected


def test_in_place_statements_and_symbolic_sizes_are_read():
    text = """class GraphModule(torch.nn.Module):
    def forward(self, s0: "Sym(s0)", L_x_: "f32[s0, 8][8, 1]cpu"):
        l_x_ = L_x_

         # File: /p/m.py:3 in f, code: x += 1
        l_x_ += 1;  iadd: "f32[s0, 8][8, 1]cpu" = l_x_
        l_x_[0] = 2;  setitem = l_x_;  setitem = None
        return (iadd,)
"""
    nodes = read_graph(text, lambda file, line, function, _: ev.Location(file, line, function))
    assert [(node.name, node.op, node.target) for node in nodes] == [
        ("s0", "placeholder", "s0"), ("l_x_", "placeholder", "L_x_"), ("iadd", "call_function", "iadd"),
        ("setitem", "call_function", "setitem"), ("output", "output", "output"),
    ]  # fmt: skip
    assert nodes[2].location == ev.Location("/p/m.py", 3, "f")
    assert (nodes[1].shape, nodes[1].contiguous) == (("s0", "8"), True)


def test_outputs_that_span_lines_are_read():
    code = """
    def forward(self, primals, tangents):
        primals_1: "f32[4][1]cpu"; tangents_1: "f32[4][1]cpu";

        primals_1, tangents_1, = fx_pytree.tree_flatten_spec([primals, tangents], self._in_spec)
        sin: "f32[4][1]cpu" = torch.ops.aten.sin.default(primals_1);  primals_1 = None
        return pytree.tree_unflatten([
            sin,  # PlainAOTOutput(idx=0)
            None,  # None
            tangents_1,  # GradAOTOutput(grad_of=PlainAOTInput(idx=0))
        ], self._out_spec)
"""
    *_, output = read_graph(code, lambda *_: None)
    assert (output.args, output.inputs) == ("[sin, None, tangents_1]", ("sin", "tangents_1"))
    *_, output = read_graph(
        code.replace("pytree.tree_unflatten([", "(").replace("], self._out_spec)", ")"), lambda *_: None
    )
    assert output.args == "(sin, None, tangents_1)"


def test_a_generated_module_without_kernels_has_none():
    assert read_wrapper("import torch\n").kernels == {}
    assert read_wrapper("x = async_compile.triton('x', '''\n").calls == []


def test_collectives_have_the_users_line_and_the_overlapping_kernels(traces: Path):
    calls = list(collective_calls(snapshot_of(traces / "groups", 0)))

    assert [(call.op, call.bytes, call.overlapping_kernels) for call in calls] == [("all_reduce", 16, ())] * 2
    assert all(call.location is not None for call in calls)


def test_a_bucket_of_ddp_names_its_modules(traces: Path):
    splits = snapshot_of(traces / "ddp", 0).splits
    assert [split.modules for split in splits] == [("self.first",), ("self.second",)]


def add_record(path: Path, name: str, payload: str, kind: str = "artifact", number: int = 0, **facts: Any) -> None:
    """Add a record of compile 0/`number` to a trace."""
    head = {kind: {"name": name, "encoding": "string", **facts}, "rank": 0, "frame_id": 0, "frame_compile_id": number,
            "attempt": 0, "has_payload": hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()}  # fmt: skip
    lines = "".join(f"\t{line}\n" for line in payload.split("\n"))
    pid = path.read_text().split(maxsplit=3)[2]
    with path.open("a") as file:
        file.write(f"V1122 05:00:00.000000 {pid} vllm/x.py:1] {json.dumps(head)}\n{lines}")


PIECE = """\
class GraphModule(torch.nn.Module):
    def forward(self, l_x_: "f32[4, 8]", l_self_modules_linear_parameters_weight_: "f32[8, 8]"):
         # File: /project/tests/traces/programs/seeded.py:33 in forward, code: x = self.linear(x)
        linear: "f32[4, 8]" = torch.nn.functional.linear(l_x_, l_self_modules_linear_parameters_weight_);  l_x_ = None
        return linear
"""


def test_vllms_pieces_and_merged_collectives_are_read(traces: Path, tmp_path: Path):
    (source,) = (traces / "groups").glob("*_rank_0_*")
    path = tmp_path / source.name
    path.write_text(source.read_text())
    piece = {"piecewise_index": 0, "submod_name": "submod_0", "total_piecewise_compiles": 2, "is_single_size": False}
    for first, last, cuda_graph in ((1, 8192, False), (8, 8, True)):
        facts = {"compile_range_start": first, "compile_range_end": last, "is_cudagraph_capture_size": cuda_graph}
        add_record(path, "vllm_piecewise_compile_start", json.dumps({**piece, **facts}))
    add_record(path, "vllm_submod_0", PIECE, "graph_dump")
    add_record(path, "vllm_piecewise_split_graph", PIECE, "graph_dump")
    add_record(path, "fx_bucketing_passes_all_gather_buckets", "[[a, b], [c, d, e]]")
    run = snapshot_of(tmp_path)
    assert [(split.part, split.ops, split.parameter_bytes, split.origin) for split in run.splits] == [
        ("submod_0", 1, 256, "vllm")
    ]
    assert [merged.buckets for merged in run.merged_collectives] == [(("a", "b"), ("c", "d", "e"))]
    text = "\n".join(row.text for row in (*collective_rows(run), *split_rows(run)))
    assert "vLLM pieces" in text
    assert "sizes 1 to 8192, 8 (CUDA graph)" in text
    assert "Inductor merged 5 all_gathers into 2: a, b | c, d, e" in text
    assert not any(record.kind.startswith("fx_bucketing") and not record.read for record in run.trace_records)


def test_pieces_that_are_compiled_in_the_first_call_belong_to_the_graph_that_was_split(traces: Path):
    run = snapshot_of(traces / "pieces")
    assert [(split.graph, split.part, split.modules) for split in run.splits] == [
        ("0/0", "submod_0", ("fn.0.project",)),
        ("0/0", "submod_2", ("fn.0.out", "fn.1.project")),
        ("0/0", "submod_4", ("fn.1.out",)),
    ]
    assert {piece.graph for piece in run.pieces} == {"0/0"}
    assert {kernel.graph for kernel in run.code.kernels} == {"0/0"}
    assert {lookup.graph for lookup in run.cache_lookups} == {"0/0"}


def test_nodes_of_ddps_parts_are_told_apart(traces: Path):
    code = snapshot_of(traces / "ddp").code
    for stage, phase in (("forward", "forward"), ("backward", "backward"), ("post_grad", "backward")):
        names = [n.name for g in code.aten_graphs if (g.stage, g.phase) == (stage, phase) for n in g.nodes]
        assert len(names) == len(set(names)) > 0
    nodes = {(g.phase, n.name): n for g in code.aten_graphs if g.stage == "post_grad" for n in g.nodes}
    assert {nodes[kernel.phase, name].module for kernel in code.kernels for name in kernel.nodes} >= {
        "self.first", "self.second",
    }  # fmt: skip
    assert nodes["forward", "addmm"].module == "self.first"
    assert nodes["forward", "submod_1.addmm"].module == "self.second"


def test_a_graph_in_parts_has_no_peak_of_memory_but_a_reason(traces: Path):
    run = snapshot_of(traces / "ddp")
    assert memory_peak(run) is None
    assert "graph 4/0 is compiled in several parts" in why_unexplained(run)
    assert memory_peak(snapshot_of(traces / "same")) is not None
    assert not why_unexplained(snapshot_of(traces / "same"))


WHOLE = """\
class GraphModule(torch.nn.Module):
    def forward(self, l_x_: "f32[4, 4]", l_w_: "f32[4, 4]"):
         # File: /project/tests/traces/programs/seeded.py:31 in forward, code: x = self.linear(x)
        linear: "f32[4, 4]" = torch._C._nn.linear(l_x_, l_w_)
         # File: /project/tests/traces/programs/seeded.py:34 in forward, code: x = x.sin() if self.smooth else x.cos()
        sin: "f32[4, 4]" = linear.sin();  linear = None
         # File: /project/tests/traces/programs/seeded.py:37 in forward, code: return x * 2
        linear_1: "f32[4, 4]" = torch._C._nn.linear(sin, l_w_);  sin = l_w_ = None
        return linear_1
"""
SECOND = """\
class GraphModule(torch.nn.Module):
    def forward(self, sin: "f32[4, 4]", l_w_: "f32[4, 4]"):
         # File: /project/tests/traces/programs/seeded.py:37 in forward, code: return x * 2
        linear: "f32[4, 4]" = torch._C._nn.linear(sin, l_w_);  sin = l_w_ = None
        return linear
"""
POST_GRAD = """\
class <lambda>(torch.nn.Module):
    def forward(self, primals_1: "f32[4, 4]", primals_2: "f32[4, 4]", tangents_1: "f32[4, 4]"):
        # No stacktrace found for following nodes
        addmm_default: "f32[4, 4]" = torch.ops.aten.addmm.default(tangents_1, primals_2, primals_1)

         # File: /project/tests/traces/programs/seeded.py:37 in forward, code: return x * 2
        mm: "f32[4, 4]" = torch.ops.aten.mm.default(tangents_1, primals_2)
        return (addmm_default, mm)
"""
BACKWARD = """\
# AOT ID: ['0_backward']
class Runner:
    def call(self, args):
        primals_1, primals_2, tangents_1 = args
        args.clear()
        buf0 = empty_strided_cpu((4, 4), (4, 1), torch.float32)
        # Topologically Sorted Source Nodes: [linear, permute], Original ATen: [aten.t, aten.addmm]
        extern_kernels.addmm(tangents_1, primals_2, primals_1, alpha=1, beta=1, out=buf0)
        buf1 = empty_strided_cpu((4, 4), (4, 1), torch.float32)
        # Topologically Sorted Source Nodes: [mm], Original ATen: [aten.mm]
        extern_kernels.mm(tangents_1, primals_2, out=buf1)
        return (buf0, buf1, )

runner = Runner(partitions=[])
"""


def test_a_part_of_a_split_graph_has_its_own_names(traces: Path, tmp_path: Path):
    (source,) = (traces / "groups").glob("*_rank_0_*")
    path = tmp_path / source.name
    path.write_text(source.read_text())
    add_record(path, "", WHOLE, "dynamo_output_graph", 7)
    add_record(path, "submod_0", WHOLE.split("         # File: /project/tests/traces/programs/seeded.py:37")[0],
               "optimize_ddp_split_child", 7)  # fmt: skip
    add_record(path, "submod_1", SECOND, "optimize_ddp_split_child", 7)
    add_record(path, "inductor_post_grad_graph", POST_GRAD, number=7)
    add_record(path, "", BACKWARD, "inductor_output_code", 7)
    kernels = {kernel.name: kernel for kernel in snapshot_of(tmp_path).code.kernels if kernel.graph == "0/7"}
    lines = {name: [place.line for place in kernel.source_lines] for name, kernel in kernels.items()}
    assert lines == {"extern_kernels.addmm": [37], "extern_kernels.mm": [37]}, "`linear` of the whole graph is line 31"


SINES = """\
class <lambda>(torch.nn.Module):
    def forward(self, arg0_1: "f32[4]", arg1_1: "f32[4]"):
        # File: /project/tests/traces/programs/seeded.py:34 in forward, code: x = x.sin() if self.smooth else x.cos()
        sin: "f32[4]" = torch.ops.aten.sin.default(arg0_1)
        sin_1: "f32[4]" = torch.ops.aten.sin.default(arg1_1)
        return (sin, sin_1)
"""
SINES_CODE = """\
# AOT ID: ['0_inference']
cpp_fused_sin_0 = async_compile.cpp_pybinding(['float*'], r'''
extern "C" void kernel(float* in_out_ptr0) {}
''')
cpp_fused_sin_1 = async_compile.cpp_pybinding(['float*'], r'''
extern "C" void kernel(float* in_out_ptr0) { }
''')
class Runner:
    def call(self, args):
        arg0_1, arg1_1 = args
        args.clear()
        cpp_fused_sin_0(unknown)
        cpp_fused_sin_1(unknown)
        return (arg0_1, arg1_1, )

runner = Runner(partitions=[])
"""


def test_a_kernel_of_unknown_nodes_is_on_the_line_that_all_of_its_ops_have(traces: Path, tmp_path: Path):
    (source,) = (traces / "groups").glob("*_rank_0_*")
    path = tmp_path / source.name
    path.write_text(source.read_text())
    add_record(path, "inductor_post_grad_graph", SINES, number=7)
    add_record(path, "", SINES_CODE, "inductor_output_code", 7)
    kernels = [kernel for kernel in snapshot_of(tmp_path).code.kernels if kernel.graph == "0/7"]
    assert [kernel.nodes for kernel in kernels] == [(), ()]
    assert [[place.line for place in kernel.source_lines] for kernel in kernels] == [[34], [34]]


def test_reports_of_compile_workers_and_compiles_of_native_ops_are_read(traces: Path):
    run = snapshot_of(traces / "workers")
    slow, end = run.compile_workers
    assert (slow.graph, slow.job, slow.phase) == ("0/0", 0, "compiling")
    assert slow.seconds is not None
    assert slow.seconds >= 2
    assert slow.pid not in {None, end.pid}
    assert (end.job, end.phase, end.status) == (None, "ended", -9)
    assert [(compiled.name, compiled.seconds >= 0.05) for compiled in run.kernel_compiles] == [
        ("aten::topk (cutedsl)", True)
    ], "the second call found the kernel in the cache"
    text = "\n".join(row.text for row in compile_time_rows(run, frozenset([COMPILE_TIME]), 100))
    assert f"graph 0/0: job 0 is not done after 2.00 s (compile worker {slow.pid}, compiling for 2.00 s)" in text
    assert f"the process {end.pid} of torch's compile workers ended, exit status -9" in text
    assert "slowest kernels: aten::topk (cutedsl)" in text
    kinds = {record.kind: record.read for record in run.trace_records}
    assert kinds["compile_worker_status"]
    assert kinds["compile_worker_sidecar_death"]
    assert kinds["native_dsl_compile"]


def test_a_miss_of_aotautograd_has_the_settings_that_differ(traces: Path, tmp_path: Path):
    (source,) = (traces / "groups").glob("*_rank_0_*")
    runs = []
    for budget in (1.0, 0.5):
        path = tmp_path / f"budget{budget}" / source.name
        path.parent.mkdir()
        path.write_text(source.read_text())
        missed = {"key": f"key{budget}", "cache_state": "miss", "components": []}
        add_record(path, "aotautograd_cache_miss", json.dumps(missed), number=7)
        settings = {"_save_config_ignore": [], "activation_memory_budget": budget, "cse": True}
        add_record(path, "torch._functorch.config", json.dumps(settings, indent=0), number=7)
        runs.append(snapshot_of(path.parent))
    (miss,) = (miss for miss in cache_misses(runs[1], runs[0]) if miss.graph == "0/7")
    assert [(one.part, one.before, one.after) for one in miss.differences] == [
        ("functorch_config[activation_memory_budget]", "1.0", "0.5")
    ]
    assert (miss.key, miss.nearest_key) == ("key0.5", "key1.0")


LIMIT = "Dynamo recompile limit exceeded\n  Explanation: Dynamo attempted to recompile the code object too many times"
BROKEN = "Failed to trace builtin operator\n  Explanation: Dynamo does not know how to trace builtin operator `print`"


def test_a_frame_at_its_limit_and_a_break_with_fullgraph_are_read_from_the_metrics(traces: Path, tmp_path: Path):
    (source,) = (traces / "same").glob("*_rank_0_*")
    path = tmp_path / source.name
    path.write_text(source.read_text())
    add_record(path, "recompile_reasons", "0/0: self.label == 'any'", number=1)
    add_record(path, "", "", "compilation_metrics", number=1, fail_type="Unsupported", fail_reason=LIMIT)
    user = {"fail_user_frame_filename": "/project/tests/traces/programs/seeded.py", "fail_user_frame_lineno": 36}
    add_record(path, "", "", "compilation_metrics", number=2, fail_type="Unsupported", fail_reason=BROKEN, **user)
    run = snapshot_of(tmp_path)
    (recompile,) = run.recompiles
    assert (recompile.graph, recompile.limit_hit, recompile.entry_count) == ("0/1", True, 1)
    (skipped,) = run.skipped_frames
    assert (skipped.graph, "limit is reached" in skipped.reason) == ("0/1", True)
    (broken,) = run.breaks
    assert (broken.graph, broken.kind, broken.location.line if broken.location else 0) == (
        "0/2", "Failed to trace builtin operator", 36,
    )  # fmt: skip


WRAPPED = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_args_0_a: "f32[3][1]cpu", L_args_0_b_c: "f32[3][1]cpu"):
        l_args_0_a = L_args_0_a
        l_args_0_b_c = L_args_0_b_c

        add: "f32[3][1]cpu" = l_args_0_a + l_args_0_b_c;  l_args_0_a = l_args_0_b_c = None
        return (add,)
"""
WRAPPER_GUARDS = """
TREE_GUARD_MANAGER:
+- RootGuardManager
| +- GuardManager: source=L['args'][0], accessed_by=TupleGetItemGuardAccessor(0), type=<class '__main__.Scaled'>
| | +- TYPE_MATCH: ___check_type_id(L['args'][0], 12), type=<class '__main__.Scaled'> (HINT: type Scaled)
| | +- TENSOR_MATCH: check_tensor(L['args'][0], Scaled, DispatchKeySet(CPU, Python), torch.float32, device=None, \
requires_grad=False, size=[3], stride=[1])
| +- GuardManager: source=L['options'], accessed_by=DictGetItemGuardAccessor('options'), type=<class '__main__.Options'>
| | +- TYPE_MATCH: ___check_type_id(L['options'], 13), type=<class '__main__.Options'> (HINT: type Options)
"""


def test_a_tensor_subclass_has_the_names_of_its_tensors_and_a_structural_type(traces: Path, tmp_path: Path):
    (source,) = (traces / "same").glob("*_rank_0_*")
    path = tmp_path / source.name
    path.write_text(source.read_text())
    for tensor, attributes in ((2, {"c": 1}), (3, {"a": 0, "b": 2}), (4, {"itself": 4})):
        add_record(path, "", "", "describe_tensor", 3, describer_id=7, id=tensor, attrs=attributes)
    for tensor, argument in ((3, "L['args'][0]"), (4, "L['damaged']")):
        add_record(path, "", "", "describe_source", 3, describer_id=7, id=tensor, source=argument)
    add_record(path, "", WRAPPED, "dynamo_output_graph", 3)
    add_record(path, "", WRAPPER_GUARDS, "dynamo_cpp_guards_str", 3)
    run = snapshot_of(tmp_path)
    nodes = next(graph.nodes for graph in run.graphs if graph.graph == "0/3")
    assert [node.target for node in nodes if node.op == "placeholder"] == ["args[0].a", "args[0].b.c"]
    guards = next(installed.guards for installed in run.guards if installed.graph == "0/3")
    assert {(guard.name, guard.kind): guard.structural for guard in guards} == {
        ("args[0]", "TYPE_MATCH"): True, ("args[0]", "TENSOR_MATCH"): False, ("options", "TYPE_MATCH"): False,
    }  # fmt: skip
    assert not [missing for missing in run.missing_facts if missing.fact == "a record"]


def test_views_that_a_trace_cannot_fill_say_so(same: Snapshot):
    texts = {}
    for pane in PANES:
        for view in pane.views:
            document = view.build(same, frozenset(), 78)
            texts[view.name] = " ".join(document.row(number).text for number in range(len(document)))
    assert {name for name, text in texts.items() if "not in a trace" in text} == {
        "check", "fusion", "device", "lines", "timeline", "regions", "state dict", "output",
    }  # fmt: skip
    assert not [name for name, text in texts.items() if "This torch version" in text or "Press" in text]
    assert "statement" not in texts["decomp"]
    assert "call 1" not in texts["entries"]
