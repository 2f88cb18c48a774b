"""Lowering for an absent GPU with the installed torch."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import sympy
import torch

from tcexplore.events import TargetLowered, TargetSkipped
from tcexplore.targets.device_table import find_target
from tests.targets.models import SMALL

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch's deprecation warnings about itself
    from torch._inductor.graph import GraphLowering
    from torch._inductor.utils import sympy_subs
    from torch.utils._sympy.functions import Identity, Max

    from tcexplore.targets import retarget
    from tcexplore.targets.lowering import lower_graph
    from tests.targets import kernel_identity as identity

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def lowered(model: Any, inputs: tuple[Any, ...], name: str, **options: Any) -> tuple[list[str], list[Any]]:
    events: list[Any] = []

    def backend(gm: Any, example_inputs: Any) -> Any:
        lower_graph(gm, example_inputs, find_target(name), events.append)
        return gm.forward

    torch._dynamo.reset()
    with identity.generated() as codes:
        torch.compile(model, backend=backend, **options)(*inputs)
    return codes, events


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return identity.read(Path(__file__).with_name("h200.json.gz"))


@pytest.mark.timeout(300)
def test_kernels_match_those_recorded_on_an_h200(recorded: dict[str, Any]):
    """With the recorded versions of torch, triton and transformers, compare exactly; else require every model."""
    same_versions = recorded["versions"] == identity.versions()
    backend = identity.without_device(find_target("h200"))
    for name in ("norm_gelu", "dropout_mlp", "sdpa_mask", "conv_bn", "language_model"):
        real = recorded["models"][f"{name} training"]
        codes = identity.run(name, "training", "cpu", backend)
        kernels = identity.kernels(codes)
        assert len(codes) == 2, f"{name}: the forward and the backward"
        assert {e for e in identity.externs(codes) if "attention" in e} == {
            e for e in real["extern"] if "attention" in e
        }
        if same_versions:
            assert [identity.digest(source) for _, source in kernels] == real["kernels"]
        else:
            assert kernels


def test_each_target_has_different_code():
    model, inputs = SMALL["sdpa_bf16"]()
    with torch.no_grad():
        codes = {name: lowered(model.eval(), inputs, name) for name in ("h100", "l4", "b200", "mi300x")}
    assert all(type(event) is TargetLowered for _, events in codes.values() for event in events)
    text = {name: sources[0] for name, (sources, _) in codes.items()}
    assert "cc=90" in text["h100"]
    assert "cc=89" in text["l4"]
    assert "cc=100" in text["b200"]
    assert "gfx942" in text["mi300x"]
    assert "_cudnn_attention" in text["h100"]
    assert "_flash_attention" in text["l4"]


def test_lowering_leaves_torch_unchanged():
    before = torch.cuda.is_available(), torch._C._get_accelerator(), GraphLowering.save_output_code
    model, inputs = SMALL["mlp"]()
    codes, _ = lowered(model, inputs, "h200")
    assert "triton" in codes[0]
    assert (torch.cuda.is_available(), torch._C._get_accelerator(), GraphLowering.save_output_code) == before
    torch._dynamo.reset()
    out = torch.compile(model)(*inputs)
    out.sum().backward()
    torch.testing.assert_close(out, model(*inputs))


def test_dynamic_sizes_keep_their_symbols_and_add_no_guards():
    calls: list[int] = []

    def backend(gm: Any, example_inputs: Any) -> Any:
        calls.append(len(calls))
        lower_graph(gm, example_inputs, find_target("h200"), lambda _: None)
        return gm.forward

    torch._dynamo.reset()
    with identity.generated() as codes:
        compiled = torch.compile(lambda x: torch.softmax(x * 2, -1), backend=backend, dynamic=True)
        for size in (7, 16, 100):
            compiled(torch.randn(4, size))
    assert len(calls) == 1, "lowering must not add guards"
    assert "ks0" in codes[0]


def test_a_failed_lowering_names_the_op():
    @torch.library.custom_op("tcexplore_tests::no_meta", mutates_args=())
    def no_meta(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @no_meta.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        if x.device.type == "cuda":
            raise NotImplementedError("aten::something has no kernel here")
        return torch.empty_like(x)

    _, events = lowered(lambda x: no_meta(x) + 1, (torch.randn(8),), "h200")
    assert [type(e) for e in events] == [TargetSkipped]
    assert events[0].op == "torch.ops.tcexplore_tests.no_meta.default"
    assert "no kernel here" in events[0].reason


def test_tensors_created_on_the_device_type_of_an_input_move_to_the_target():
    def model(x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(4, 4, device=x.device.type)

    _, (event,) = lowered(model, (torch.ones(4, 4),), "h100")
    assert isinstance(event, TargetLowered), event
    assert any("device='cpu'" in note for note in event.notes)


def test_tensors_created_without_a_device_move_to_the_target_and_a_note_says_that_a_gpu_needs_one():
    table = torch.nn.Embedding(8, 16)

    def model(x: torch.Tensor) -> torch.Tensor:
        return x + table(torch.arange(x.size(0)))

    _, (event,) = lowered(model, (torch.ones(4, 16),), "h100")
    assert isinstance(event, TargetLowered), event
    assert any(note.startswith("torch.arange without a device makes its tensor on the target") for note in event.notes)


def test_the_op_is_named_if_an_error_of_the_scheduler_has_no_op(monkeypatch: pytest.MonkeyPatch):
    from torch._inductor.loop_body import LoopBody

    def fail(_: Any) -> Any:
        raise ValueError("The argument is not comparable.")

    monkeypatch.setattr(LoopBody, "merge_loops", fail)
    _, (event,) = lowered(lambda x: torch.sin(x), (torch.ones(4, 4),), "h100")
    assert isinstance(event, TargetSkipped), event
    assert event.op == "aten.sin.default"


@pytest.fixture(scope="module")
def optimizer_step() -> tuple[list[str], list[Any]]:
    """Code and events of a compiled `Adam.step`, whose learning rate becomes symbolic at the second call."""
    events: list[Any] = []

    def backend(gm: Any, example_inputs: Any) -> Any:
        lower_graph(gm, example_inputs, find_target("h100"), events.append)
        return gm.forward

    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    torch._dynamo.reset()
    step = torch.compile(optimizer.step, backend=backend)
    with identity.generated() as codes:
        for rate in (0.1, 0.05):
            optimizer.param_groups[0]["lr"] = rate
            model(torch.ones(2, 8)).sum().backward()
            step()
    return codes, events


def test_parameters_and_state_of_an_optimizer_move_to_the_target(optimizer_step: tuple[list[str], list[Any]]):
    codes, events = optimizer_step
    assert [type(event) for event in events] == [TargetLowered, TargetLowered], events
    for code in codes:
        assert "triton" in code
        assert "cpp_pybinding" not in code, "the steps are on the device too"


def test_a_symbolic_learning_rate_stays_on_the_cpu(optimizer_step: tuple[list[str], list[Any]]):
    first, second = optimizer_step[0]
    assert "device='cpu'" not in first
    assert second.count("device='cpu', dtype=torch.float64") == 1


def test_the_op_is_named_if_its_tensors_are_on_two_devices(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(retarget, "_input", lambda _, example, mode: mode.from_tensor(example))
    _, (event,) = lowered(lambda x: torch.ones(4, device=x.device).lerp_(x, 0.5), (torch.ones(4),), "h100")
    assert isinstance(event, TargetSkipped), event
    assert event.op == "aten.lerp.Scalar"
    assert "cpu" in event.reason


@pytest.mark.parametrize("data", [(), (1.0,), (1.0, 2.0)])
def test_a_tensor_of_python_numbers_is_made_on_the_target(data: tuple[float, ...]):
    """As in transformers' cache, whose first keys are an empty tensor: torch must not make it on the absent device."""

    def model(x: torch.Tensor) -> torch.Tensor:
        known = torch.tensor(data, dtype=x.dtype, device=x.device)
        return torch.cat([known, x.exp()]) * 2

    codes, events = lowered(model, (torch.randn(64),), "h100")
    assert [type(event) for event in events] == [TargetLowered], events
    assert "async_compile.triton" in codes[0]


def relative_bias(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """The attention bias of T5, padded as torch pads the bias of its attention kernel."""
    positions = torch.arange(12, device=x.device)
    distance = positions[None, :] - positions[:, None]
    bucket = -torch.min(distance, torch.zeros_like(distance))
    bias = torch.nn.functional.embedding(bucket, table).permute(2, 0, 1)[None]
    return torch.nn.functional.pad(bias.contiguous(), (0, 4)) + x


def test_a_fault_of_torch_on_any_gpu_is_told_from_one_of_the_emulation():
    codes, (event,) = lowered(relative_bias, (torch.randn(16), torch.randn(32, 4)), "h100")
    if isinstance(event, TargetLowered):
        assert "async_compile.triton" in codes[0]
        return
    assert event.reason.startswith(
        "torch cannot simplify an index into a padded or concatenated tensor, and fails on a "
    )
    assert event.reason.endswith("torch/_inductor/utils.py)")
    index = sympy.Symbol("index", integer=True, nonnegative=True)
    with pytest.raises(ValueError, match="is not comparable"):  # torch alone, without a device
        sympy_subs(Max(0, Identity(index) - 1), {index: sympy.S.Zero})
