"""Paths of modules through wrappers, decorators, breaks and regions, and odd layers of real models."""

from __future__ import annotations

import gc
import warnings
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor, nn

from tcexplore import events as ev
from tcexplore.capture.module_paths import (
    ModulePath,
    ModuleStack,
    RunModule,
    name_modules,
    paths_inside,
    running_module,
)
from tcexplore.documents.graph.graph_view import graph_document
from tcexplore.documents.graph.modules_view import modules_document
from tcexplore.documents.module_folds import timed_tree
from tcexplore.session.module_tree import ModuleRow
from tcexplore.session.snapshot import Snapshot, start_snapshot
from tests.capture import layered_model as layered
from tests.capture.dynamo_capture import capture, capture_events, hook_failures

pytestmark = pytest.mark.torch

INPUT = torch.ones(4, 2, 8)


def run_of(events: list[ev.Event]) -> Snapshot:
    """Return the run of captured events."""
    assert hook_failures(events) == []
    snapshot = start_snapshot(ev.Job(run=0, file=layered.__file__, source=""))
    for event in events:
        snapshot = snapshot.apply(event)
    return snapshot


def rows_of(program: Any, *calls: tuple[Any, ...]) -> dict[str, ModuleRow]:
    """Return the rows of a program by path."""
    return {row.path: row for row in timed_tree(run_of(capture(program, *(calls or ((INPUT,),))))).rows}


class Sequence(nn.Module):
    """A model with a break between two layers that are not in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(layered.Layer(), layered.Layer(), layered.Layer())

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers[0](x)
        torch._dynamo.graph_break()
        return self.layers[2](self.layers[1](x))


@pytest.mark.parametrize(
    ("wrap", "prefix"),
    [
        (lambda model: model, ""),
        (lambda _: layered.Decorated(), ""),
        (layered.DistributedDataParallel, ""),
        (layered.PeftModel, "base_model."),
    ],
    ids=["plain", "decorated", "ddp", "peft"],
)
def test_equal_layers_are_folded_in_every_wrapper(wrap: Any, prefix: str):
    rows = rows_of(wrap(layered.Model()))
    assert rows[f"{prefix}layers.0"].type == "Layer"
    folded = rows[f"{prefix}layers.1 – 7"]
    assert (folded.repeats, folded.same_as) == (7, f"{prefix}layers.0")
    assert rows[f"{prefix}layers.0.mlp.down"].bytes == 4 * (16 * 8 + 8)
    assert rows[""].ops == sum(rows[f"{prefix}{name}"].ops for name in ("layers.0", "layers.1 – 7", "head"))


def test_adapters_have_their_path():
    rows = rows_of(layered.PeftModel(layered.Model()))
    assert rows["base_model.layers.0.mlp.up.lora_A.default"].type == "Linear"


def test_graphs_after_a_break_continue_the_tree():
    rows = rows_of(Sequence())
    assert rows["layers.1 – 2"].same_as == "layers.0"
    assert rows[""].breaks == 1
    assert rows["layers.0"].breaks == 0


def test_layers_compiled_one_by_one_have_the_path_in_the_model_that_calls_them():
    model = layered.Model(3)
    for layer in model.layers:
        layer.compile(backend="eager")
    with capture_events(layered.__file__) as events:
        model(INPUT)
    graphs = run_of(events).graphs
    # Later layers run the code of the second one; the input of the first one needs no gradient.
    assert [(captured.root, captured.module) for captured in graphs][:2] == [
        (graphs[0].root, "layers.0"),
        (graphs[0].root, "layers.1"),
    ]


def test_two_compiled_models_are_apart():
    with capture_events(layered.__file__) as events:
        for model in (layered.Model(3), layered.Model(3)):
            torch.compile(model, backend="eager")(INPUT)
    roots = {module.root for captured in run_of(events).graphs for module in captured.modules}
    assert len(roots) == 2


def test_a_function_names_the_models_that_it_calls():
    class Decoder(nn.Linear):
        """A class of which this process has no other module: further ones get a number."""

    encoder, decoder = layered.Model(3), Decoder(4, 2)

    def step(x: Tensor) -> Tensor:
        return decoder(encoder(x))

    rows = rows_of(step)
    (folded,) = (row for row in rows.values() if row.same_as)
    assert folded.path.endswith("layers.1 – 2")
    assert rows["Decoder"].ops == 1


def test_a_method_and_a_function_that_reads_members_by_name_have_the_paths_of_the_model():
    class Encoder(layered.Model):
        """A class of which this process has no other module."""

    model = Encoder(3)
    with capture_events(layered.__file__) as events:
        name_modules(model.forward)  # as for a region of a script
        torch.compile(model.forward, backend="eager")(INPUT)
    assert {"layers.0", "layers.1 – 2"} <= {row.path for row in timed_tree(run_of(events)).rows}

    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
    weights = {name: value.detach() for name, value in net.named_parameters()}

    def call(x: Tensor) -> Tensor:
        return torch.func.functional_call(net, weights, (x,))

    rows = rows_of(call)
    assert {"0", "1"} <= {path.rpartition(".")[2] for path in rows}, rows


class Coder(nn.Module):
    """A model that is compiled in a method other than `forward`, and has none."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Sequential(nn.Linear(8, 2), nn.ReLU()), nn.Sequential(nn.Linear(2, 8))

    def loss(self, x: Tensor) -> Tensor:
        return (self.decoder(self.encoder(x)) - x).square().mean()


def test_modules_of_a_method_have_their_path_from_its_module():
    coder = Coder()
    rows = rows_of(Coder.loss, (coder, INPUT))
    assert {path: row.type for path, row in rows.items() if "." not in path} == {
        "": "Coder", "encoder": "Sequential", "decoder": "Sequential",
    }  # fmt: skip
    stack = ModuleStack()
    with stack:
        coder.loss(INPUT)
    assert [run.place for run in stack.ran if run.type == "Linear"] == [
        ModulePath(_root_of(coder), "encoder.0"),
        ModulePath(_root_of(coder), "decoder.0"),
    ]


def _root_of(module: nn.Module) -> str:
    return paths_inside(module)[id(module)].root


def test_a_wrapper_with_a_class_of_its_own_is_left_out_of_paths():
    compiled = torch.compile(nn.Sequential(nn.Linear(8, 8)), backend="eager")
    compiled.__class__ = type("FSDPOptimizedModule", (type(compiled),), {})  # as `fully_shard` does
    assert sorted(place.path for place in paths_inside(nn.Sequential(compiled)).values()) == ["", "0", "0", "0.0"]


def test_the_stack_of_an_eager_call_has_the_paths_of_a_graph():
    model = layered.DistributedDataParallel(layered.Model(2))
    stack = ModuleStack()
    with stack:
        model(INPUT)
    ran = {run.place.path: run.type for run in stack.ran}
    assert ran["layers.1.mlp.act"] == "SiLU"
    assert stack.innermost is None
    model(INPUT)
    assert len(stack.ran) == len(set(stack.ran))


def test_torch_warns_of_the_users_hooks_only():
    model = torch.compile(nn.Linear(2, 2), backend="eager")
    stack = ModuleStack()
    with torch.compiler.set_stance("force_eager"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stack.__enter__()
        model(torch.ones(1, 2))
        stack.__exit__()
        assert stack.ran
        assert not caught
        own = nn.modules.module.register_module_forward_hook(lambda *_: None)
        stack.__enter__()
        model(torch.ones(1, 2))
        stack.__exit__()
        own.remove()
        model(torch.ones(1, 2))
        assert ["global hooks" in str(warning.message) for warning in caught] == [True]


def test_a_module_keeps_its_path_once_the_wrapper_that_compiled_it_is_gone():
    model = Sequence()
    (root,) = {graph.root for graph in capture(model, (INPUT,)) if isinstance(graph, ev.GraphCaptured)}
    gc.collect()
    places: list[RunModule | None] = []
    model.layers[1].register_forward_hook(lambda *_: places.append(running_module()))
    model(INPUT)
    assert places == [RunModule(ModulePath(root, "layers.1"), "Layer")]


@pytest.mark.parametrize("kind", layered.ODD_LAYERS)
def test_an_odd_layer_is_named_with_what_differs(kind: str):
    snapshot = run_of(capture(layered.odd_model(kind), (INPUT,)))
    odd = [row for row in timed_tree(snapshot).rows if row.differs]
    assert [row.path for row in odd] == [f"layers.{layered.ODD}"]
    assert layered.ODD_LAYERS[kind][1] in odd[0].differs
    document = modules_document(snapshot, frozenset(), 100)
    shown = [document.row(index).text for index in range(len(document))]
    assert len(shown) <= 40
    assert len(graph_document(snapshot, frozenset(), 100)) <= 40
    assert any("differs: " in line for line in shown)
    assert sum(row.ops for row in timed_tree(snapshot).rows if row.depth == 1) == timed_tree(snapshot).rows[0].ops
