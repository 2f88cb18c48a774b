"""The graph break, guards and recompiles of the perceptron."""

from __future__ import annotations

from tcexplore.events import (
    CallPart,
    CallProfiled,
    FrameSkipped,
    GraphBreak,
    Guard,
    GuardsInstalled,
    Location,
    Recompiled,
)
from tests.snapshots.mlp_source import FILE, at

BREAK = GraphBreak(
    graph="0/0",
    registry_id="GB0059",
    kind="Failed to trace builtin operator",
    reason="Failed to trace builtin operator",
    explanation=(
        "Dynamo does not know how to trace builtin operator `print` with argument types ['str', 'Tensor'] "
        "(has_kwargs False)"
    ),
    hints=(
        "Avoid calling builtin `print` with argument types ['str', 'Tensor']. Consider using an equivalent alternative "
        "function/method to `print`.",
        "If you are attempting to call a logging function (e.g. `print`), you can try adding it to "
        "`torch._dynamo.config.reorderable_logging_functions`.",
        "Please report an issue to PyTorch.",
    ),
    context="builtin print [<class 'ConstantVariable'>, <class 'TensorVariable'>] False",
    registry_explanation="Dynamo does not know how to trace builtin operator `{}` with argument types {}",
    registry_hints=("Avoid calling builtin `{}` with argument types {}.",),
    url="https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html",
    location=at("print("),
    code='print("mean", h.mean())',
    stack=(Location(FILE, 30, "<module>"), at("print(")),
    count=2,
)

EAGER_OPS = {"aten.mean": 9.0, "aten.item": 2.5, "aten._local_scalar_dense": 1.0}
PROFILE = CallProfiled(
    total_us=314.5,
    repeats=8,
    parts=(
        CallPart(kind="launch", name="wrapper", us=302.0, low_us=290.0, high_us=305.0),
        *(
            CallPart(kind="eager op", name=name, us=us, low_us=0.9 * us, high_us=1.1 * us)
            for name, us in EAGER_OPS.items()
        ),
    ),
    region_entries=2,
)

SKIPPED = FrameSkipped(
    frame=at("super().__init__", "__init__"), reason="no tensor operations in the frame", has_ops=False
)


def guards(graph: str = "0/0", batch: str = "64") -> GuardsInstalled:
    """Return guards of interest to a user, and many structural ones."""
    fc1, norm = at("self.fc1(x)"), at("F.gelu")
    size = f"[{'None' if batch.startswith('s') else batch}, 512]"
    x = Guard(
        kind="TENSOR_MATCH", source="L['x']", name="x", summary=f"f32[{batch}, 512] cpu", location=fc1,
        code=(f"check_tensor(L['x'], Tensor, torch.float32, device=None, size={size}, stride=[512, 1])",),
        user_code="h = self.fc1(x)",
    )  # fmt: skip
    eps = Guard(
        kind="EQUALS_MATCH", source="L['self']._modules['norm'].eps", name="self.norm.eps", summary="== 1e-05",
        location=norm,
        code=("L['self']._modules['norm'].eps == 1e-05",), user_code="h = F.gelu(self.norm(h))",
    )  # fmt: skip
    shape = Guard(
        kind="EQUALS_MATCH", source="L['self']._modules['norm'].normalized_shape", name="self.norm.normalized_shape",
        summary="== (1024,)", location=norm,
        code=("L['self']._modules['norm'].normalized_shape == (1024,)",), user_code="h = F.gelu(self.norm(h))",
    )  # fmt: skip
    bias = Guard(
        kind="TENSOR_MATCH", source="L['self']._modules['norm']._parameters['bias']", name="self.norm.bias",
        location=norm,
        code=("check_tensor(L['self']._modules['norm']._parameters['bias'], Parameter, torch.float32, size=[1024])",),
        summary="f32[1024] cpu", user_code="h = F.gelu(self.norm(h))",
    )  # fmt: skip
    state = Guard(kind="GLOBAL_STATE", source="", code=("___check_global_state()",), summary="grad_mode off")
    return GuardsInstalled(graph=graph, guards=(x, eps, bias, shape, state, *_structural(59)), latency_us=80.7)


def _structural(count: int) -> tuple[Guard, ...]:
    where = at("self.fc1(x)")
    return tuple(
        Guard(
            kind=("TYPE_MATCH", "ID_MATCH", "DICT_CONTAINS")[n % 3], source=f"L['self']._modules['fc{n}']",
            name=f"self.fc{n}", structural=True,
            code=(f"___check_type_id(L['self']._modules['fc{n}'], {94_153_210_285_408 + n})",), location=where,
        )
        for n in range(count)
    )  # fmt: skip


RECOMPILE = Recompiled(
    graph="0/1",
    failed_entry="0/0",
    failed_guard="L['x'].size()[0] == 64",
    reason="tensor 'x' size mismatch at index 0. expected 64, actual 32",
    old="64",
    new="32",
    location=at("def forward"),
    entry_count=2,
    limit=8,
)
