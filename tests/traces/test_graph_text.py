"""Graphs, guards and generated modules in torch's printed form."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tcexplore import events as ev
from tcexplore.torch_text.guard_text import Check
from tcexplore.traces import graph_text, guard_records
from tcexplore.traces.graph_text import name_sizes, read_graph, read_subgraphs, read_tensor
from tcexplore.traces.guard_records import guard_checks
from tcexplore.traces.kernel_records import KernelRecords, read_wrapper
from tcexplore.traces.trace_modules import with_modules
from tcexplore.traces.trace_sources import TraceSources

SIMPLE = (
    "torch.ops.aten.mul.Tensor(x, y)",
    "torch.ops.aten.view.default(x, [4, 64, -1])",
    "torch.ops.aten.add.Tensor(x, 1e-05, alpha = 2)",
    "torch.ops.aten.sum.dim_IntList(x, [0], True, dtype = torch.float32)",
    "torch.ops.aten.clone.default(x, memory_format = torch.contiguous_format)",
    "torch._C._nn.gelu(x)",
    "torch.nn.functional.dropout(x, 0.5, False, False)",
    "torch.ops.aten.cat.default([x, y, x])",
    "torch.ops.aten.empty.default([])",
    "torch.ops.aten.bernoulli.p(x)",
    "torch.ops.aten.pow.Tensor_Scalar(x, -0.5)",
    "torch.ops.aten.zeros()",
)


@pytest.mark.parametrize("code", SIMPLE)
def test_a_simple_call_is_read_without_the_parser_and_alike(code: str, monkeypatch: pytest.MonkeyPatch):
    assert graph_text._SIMPLE_CALL.match(code)
    read = graph_text.read_expression(code, {"x", "y"})
    monkeypatch.setattr(graph_text, "_SIMPLE_CALL", re.compile("(?!)"))
    assert read == graph_text.read_expression(code, {"x", "y"})


@pytest.mark.parametrize(
    "code",
    ["torch.ops.aten.f(x[0])", "torch.f((1, 2))", "torch.f('a')", "torch.f(x.y())", "torch.f(torch.ops.aten.g)",
     f"torch.f([{', '.join(['x'] * 17)}])", "x.view(1)", "torch.f(Ellipsis)"],
)  # fmt: skip
def test_any_other_call_is_parsed(code: str):
    assert not graph_text._SIMPLE_CALL.match(code)


LOOP = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[3][1]cpu"):
        l_x_ = L_x_

        # File: /job.py:7 in step, code: y = while_loop(go_on, body, (x,))
        cond_fn_0 = self.cond_fn_0
        body_fn_0 = self.body_fn_0
        while_loop = torch.ops.higher_order.while_loop(cond_fn_0, body_fn_0, (l_x_,), ());  cond_fn_0 = body_fn_0 = None
        getitem: "f32[3][1]cpu" = while_loop[0];  while_loop = None
        return (getitem,)

    class cond_fn_0(torch.nn.Module):
        def forward(self, child: "f32[3][1]cpu"):
            # File: /job.py:2 in go_on, code: return x.sum() < 9
            sum_1: "f32[][]cpu" = child.sum();  child = None
            lt: "b8[][]cpu" = sum_1 < 9;  sum_1 = None
            return lt

    class body_fn_0(torch.nn.Module):
        def forward(self, child: "f32[3][1]cpu"):
            true_0 = self.true_0
            cond = torch.ops.higher_order.cond(child, true_0, (child,));  true_0 = None
            return cond

        class true_0(torch.nn.Module):
            def forward(self, child: "f32[3][1]cpu"):
                clone: "f32[3][1]cpu" = child.clone();  child = None
                return (clone,)
"""


def place(file: str, line: int, function: str, _code: str) -> ev.Location:
    return ev.Location(file, line, function)


def test_subgraphs_are_read_with_their_paths_and_callers():
    nodes = read_graph(LOOP, place)
    subgraphs = read_subgraphs(LOOP, nodes, place)
    assert [(part.name, part.node, len(part.nodes)) for part in subgraphs] == [
        ("cond_fn_0", "while_loop", 4),
        ("body_fn_0", "while_loop", 4),
        ("body_fn_0.true_0", "body_fn_0.cond", 3),
    ]
    compared = subgraphs[0].nodes[2]
    assert (compared.name, compared.inputs) == ("cond_fn_0.lt", ("cond_fn_0.sum_1",))
    assert compared.location is not None
    assert compared.location.line == 2
    assert read_subgraphs(LOOP.partition("    class cond_fn_0")[0], nodes, place) == ()


@pytest.mark.parametrize(
    ("annotation", "shape", "stride", "device"),
    [
        ("f32[4, 8][8, 1]cuda:0", ("4", "8"), ("8", "1"), "cuda:0"),
        ("NestedTensor(f32[2, s27, 4][4*s27, 4, 1]cpu)", ("2", "s27", "4"), None, "cpu"),
        ("Scaled(f32[3][1]cpu)", ("3",), ("1",), "cpu"),
        ("f32[s0, Min(s1, s2)][Max(1, s1, s2), 1]cpu", ("s0", "Min(s1, s2)"), ("Max(1, s1, s2)", "1"), "cpu"),
    ],
)
def test_annotations_of_tensors_are_read(
    annotation: str, shape: tuple[str, ...], stride: tuple[str, ...] | None, device: str
):
    tensor = read_tensor(annotation)
    assert tensor is not None
    assert (tensor.shape, tensor.stride, tensor.device) == (shape, stride, device)


@pytest.mark.parametrize(
    "comment",
    ["# File: /a.py:7 in f, code: x = x + 1", "# Backward of forward node: File: /a.py:7 in f, code: x = x + 1",
     "# Annotation: {'stage': 0} ac_graph_id: 1 - MUST_RECOMPUTE File: /a.py:7 in f, code: x = x + 1"],
)  # fmt: skip
def test_comments_with_the_line_of_nodes_have_several_forms(comment: str):
    """torch 2.14 writes the second form, activation checkpointing the third."""
    code = f"""\
def forward(self, x: "f32[4]"):
    # File: /a.py:3 in f, code: x = x.sin()
    sin: "f32[4]" = torch.ops.aten.sin.default(x)

    {comment}
    add: "f32[4]" = torch.ops.aten.add.Tensor(sin, 1)
    return add
"""
    nodes = read_graph(code, lambda file, line, function, _: ev.Location(file, line, function))
    assert [node.location.line for node in nodes if node.location] == [3, 7]


def test_a_symbolic_number_is_no_tensor():
    assert read_tensor("Sym(s27)") is None


def test_inputs_that_are_sizes_and_values_named_output_have_their_names():
    code = """
    def forward(self, u0: "Sym(u0)", L_x_: "f32[u0, 4][4, 1]cpu"):
        l_x_ = L_x_

        output: "f32[u0, 4][4, 1]cpu" = l_x_[(Ellipsis, slice(None, 3, None))];  l_x_ = None
        return (output, u0)
"""
    nodes = name_sizes(read_graph(code, place, {"L_x_": "x"}))
    assert [(node.name, node.target) for node in nodes] == [
        ("u0", "x.size()[0]"), ("l_x_", "x"), ("output", "getitem"), ("output_1", "output"),
    ]  # fmt: skip
    assert nodes[2].args == "l_x_, (..., :3)"


GUARDS = """
TREE_GUARD_MANAGER:
+- RootGuardManager
| +- LAMBDA_GUARD: torch._functorch.aot_autograd.utils.top_saved_tensors_hooks ids == None  # (comment)
| +- GuardManager: source=L['x'], accessed_by=FrameLocalsGuardAccessor(key='x'), type=<class 'torch.Tensor'>
| | +- NO_TENSOR_ALIASING: check_no_aliasing(L['x'], L['y'])
| +- GuardManager: source=L['y'], accessed_by=FrameLocalsGuardAccessor(key='y'), type=<class 'torch.Tensor'>
| | +- TYPE_MATCH: ___check_type_id(L['y'], 123), type=<class 'torch.Tensor'> (HINT: type Tensor)
| | +- NO_TENSOR_ALIASING
+- LAMBDA_GUARD: not math.isnan(L['lr'])  # implicit guard for float input
"""


def test_conditions_after_the_tree_and_repeated_relations_are_recognized():
    assert [(check.kind, check.source, check.code) for check in guard_checks(GUARDS)] == [
        ("LAMBDA_GUARD", "", "torch._functorch.aot_autograd.utils.top_saved_tensors_hooks ids == None"),
        ("NO_TENSOR_ALIASING", "L['x']", "check_no_aliasing(L['x'], L['y'])"),
        ("TYPE_MATCH", "L['y']", "___check_type_id(L['y'], 123), type=<class 'torch.Tensor'>"),
        ("SHAPE_ENV", "", "not math.isnan(L['lr'])"),
    ]


def test_a_value_that_torch_writes_in_several_lines_is_left_out_and_its_place_is_read():
    tree = """TREE_GUARD_MANAGER:
+- RootGuardManager
| +- GuardManager: source=L['self'], accessed_by=FrameLocalsGuardAccessor(key='self'), type=<class 'a.Adam'>
| | +- ID_MATCH: ___check_obj_id(L['self'], 140339), type=Adam (
Parameter Group 0
    amsgrad: False
)  # self = cast(Optimizer, self)  # optim/optimizer.py:515 in wrapper
| | +- TYPE_MATCH: ___check_type_id(L['self'], 7, type=<class 'x.Y'>)  # y = x  # train.py:3 in step

Guard latency = 1.25 us
"""
    identity, of_type = guard_checks(tree)
    assert identity.code == "___check_obj_id(L['self'], 140339)"
    assert identity.place == ("optim/optimizer.py", 515, "wrapper")
    assert of_type.place == ("train.py", 3, "step")


def test_a_guard_on_a_member_of_an_enum_names_its_class():
    (leaf,) = guard_records._leaves(
        "+- RootGuardManager\n"
        "| +- GuardManager: source=G['Action'].STOP, accessed_by=GetAttrGuardAccessor(STOP), type=<enum 'Action'>\n"
        "| | +- ID_MATCH: ___check_obj_id(G['Action'].STOP, 123), type=<enum 'Action'>\n"
    )
    check = Check(code=leaf.check, comment="")
    assert guard_records._summary(leaf, check, None, {}) == "is the same Action"


MODULE = """\
# AOT ID: ['0_inference']
cpp_fused_lt_0 = async_compile.cpp_pybinding(['bool*'], r'''
extern "C"  void  kernel(bool* out_ptr0)
{
}
''')


def while_loop_cond_graph_0(args):
    # [Provenance debug handles] cpp_fused_lt_0:1
    cpp_fused_lt_0(buf0)
    return [buf0]


# Topologically Sorted Source Nodes: [mul], Original ATen: [aten.mul]
cpp_fused_mul_1 = async_compile.cpp_pybinding(['float*'], r'''
extern "C"  void  kernel(float* out_ptr0)
{
}
''')

class Runner:
    def call(self, args):
        # [Provenance debug handles] cpp_fused_mul_1:2
        cpp_fused_mul_1(buf1)
        return (buf1, )
"""


def test_kernels_that_a_subgraph_calls_are_read():
    calls = read_wrapper(MODULE).calls
    assert [(call.name, call.comment.handles) for call in calls] == [
        ("cpp_fused_lt_0", ("cpp_fused_lt_0:1",)),
        ("cpp_fused_mul_1", ("cpp_fused_mul_1:2",)),
    ]


def test_a_call_includes_the_sizes_that_are_read_from_its_result():
    code = """
class Runner:
    def call(self, args):
        buf5 = torch.ops.aten.index.Tensor(arg1_1, [arg2_1])
        u0 = buf5.size(0)
        buf7 = torch.ops.aten.nonzero.default(arg3_1)
        u1 = buf5.size(1)
"""
    assert [call.text for call in read_wrapper(code).calls] == [
        "buf5 = torch.ops.aten.index.Tensor(arg1_1, [arg2_1])\nu0 = buf5.size(0)",
        "buf7 = torch.ops.aten.nonzero.default(arg3_1)",
    ]


def test_a_function_of_the_users_module_has_its_dotted_name():
    sources = TraceSources()
    sources.observe_line("/job/blocks/tools.py", 3, "y = inside(x)")
    names = ("tools_inside", "blocks_tools_inside", "__main___inside", "getitem", "new_zeros")
    assert list(map(sources.qualify, names)) == [
        "tools.inside", "blocks.tools.inside", "__main__.inside", "getitem", "new_zeros",
    ]  # fmt: skip


def test_parameters_of_a_module_tell_it_and_those_that_an_optimizer_holds_do_not():
    nodes = [
        ev.FxNode(name="w", op="placeholder", target="self.head.weight"),
        ev.FxNode(name="g", op="placeholder", target="self.param_groups[0]['params'][1].grad"),
        ev.FxNode(name="y", op="call_function", target="linear", inputs=("w",)),
        ev.FxNode(name="z", op="call_function", target="add", inputs=("g",)),
    ]
    assert [node.module for node in with_modules(nodes, TraceSources(), None)] == [None, None, "self.head", None]


BLOCKS = """\
def scaled(x):
    return x * 3

class Norm:
    def forward(self, x):
        spread = x.square()
        return self.weight * spread

class Block:
    def forward(self, x):
        y = self.norm(x)
        y = x + y
        y = self.up(y)
        y = scaled(y)
        y = self.down(y)
        return x + y

class Net:
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        x = x + 1
        return self.head(x)
"""


def test_ops_without_parameters_are_of_the_module_that_runs_their_function(tmp_path: Path):
    file, sources = tmp_path / "net.py", TraceSources()
    file.write_text(BLOCKS)
    parameters: list[ev.FxNode] = []
    calls: list[ev.FxNode] = []

    def add(line: int, module: str = "") -> None:
        sources.observe_line(str(file), line, BLOCKS.splitlines()[line - 1])
        name = f"l_args_0_parameters_{module.replace('.', '_')}_weight_"
        if module:
            parameters.append(ev.FxNode(name=name, op="placeholder", target=f"args[0].{module}.weight"))
        calls.append(ev.FxNode(name=f"n{len(calls)}", op="call_function", target="op", inputs=(name,) if module else (),
                               location=ev.Location(str(file), line, "forward")))  # fmt: skip

    expected: list[str | None] = []
    for block in ("blocks.0", "blocks.1"):
        for line, module in ((6, ""), (7, "norm"), (12, ""), (13, "up"), (2, ""), (15, "down"), (16, "")):
            add(line, module and f"{block}.{module}")
        expected += [f"args[0].{block}{name}" for name in (".norm", ".norm", "", ".up", "", ".down", "")]
    add(22)
    add(23, "head")
    expected += [None, "args[0].head"]
    nodes = with_modules([*parameters, *calls], sources, None)
    assert [node.module for node in nodes[len(parameters) :]] == expected


class Mappings:
    """A context whose records map handles to nodes."""

    def __init__(self, facts: dict[str, object]) -> None:
        self.facts = facts

    def json(self, _record: object) -> object:
        return self.facts


def test_a_backward_without_nodes_in_its_record_has_not_those_of_its_forward():
    """Both number the handles of their library calls from 1; a node of the forward is an input of the backward."""
    records, record = KernelRecords(cast(Any, None)), cast(Any, SimpleNamespace(graph="0/0", checksum="1"))
    records._newest["0/0"] = "forward"
    records.read_mappings(cast(Any, Mappings({"cppCodeToPost": {"extern_kernels.mm:1": ["mm"]}})), record)
    records._newest["0/0"] = "backward"
    records.read_mappings(cast(Any, Mappings({"version": 2.0})), record)
    assert records._nodes_of == {("0/0", "forward"): {"extern_kernels.mm:1": ("mm",)}}
