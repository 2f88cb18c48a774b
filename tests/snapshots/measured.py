"""A run on a GPU with measured kernels, an autotuned matrix product, and a recorded and a skipped CUDA graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tcexplore import events as ev
from tcexplore.events.result_events import PartKind
from tcexplore.session import Snapshot
from tcexplore.session.snapshot import start_snapshot
from tests.snapshots import gpu

POINTWISE = "triton_poi_fused_relu_0"
PRODUCT = "extern_kernels.mm"
_OF: dict[str, Any] = {"graph": "0/0", "phase": "forward"}


def run(number: int = 1) -> Snapshot:
    """Return the complete run."""
    snapshot = start_snapshot(ev.Job(run=number, file=gpu.FILE, source=gpu.SOURCE, config=ev.Config(device="cuda")))
    own = (event for event in gpu.run(number).code.kernels if event.language != "cpp")
    points = (replace(point, target="native", run=number) for point in gpu.run(number).code.roofline)
    kernels = (replace(kernel, target="native", scheduler_nodes=(f"op{at}",)) for at, kernel in enumerate(own))
    for event in (*gpu.run(number).graphs, *kernels, *points, *_events()):
        snapshot = snapshot.apply(replace(event, run=number))
    return snapshot


def _part(kind: PartKind, name: str, us: float, **more: Any) -> ev.CallPart:
    return ev.CallPart(kind=kind, name=name, us=us, low_us=0.9 * us, high_us=1.1 * us, device="cuda", **more)


def _events() -> tuple[ev.Event, ...]:
    choices = (
        ev.TuningChoice("triton_mm_8 BLOCK_M=64, num_warps=4", "template", 6.75, chosen=True),
        ev.TuningChoice("mm", "extern", 9.9),
        ev.TuningChoice("triton_mm_2 BLOCK_M=128, num_warps=8", "template"),
    )
    configurations = tuple(
        ev.TuningChoice(f"XBLOCK={1 << at}, num_warps=4", "configuration", 4.0 + at, at == 0) for at in range(14)
    )
    return (
        ev.Autotuned(method="algorithms", op="mm", node="mm", input_sizes=("256 × 512", "512 × 1024"), choices=choices,
                 seconds=7.2, **_OF),
        ev.Autotuned(method="configurations", kernel=POINTWISE, choices=configurations, **_OF),
        ev.CudaGraphRecorded(number=0, part="partition_0", inputs_copied=2, inputs_copied_bytes=131072,
                             peak_bytes=3 << 20, **_OF),
        ev.CudaGraphSkipped(reason="cpu ops", nodes=("op1",), **_OF),
        ev.CudaGraphSkipped(graph="1/0", reason="skipping cudagraphs due to mutated inputs (1 instances)"),
        ev.CallProfiled(
            total_us=120.0, repeats=5, device_busy_us=22.2, launch_gaps_us=31.0, device_tasks=4, launches=3,
            replays=1, replayed_tasks=2,
            parts=(
                _part("kernel", PRODUCT, 17.7, functions=("gemm", "reduce"), replayed=True, **_OF),
                _part("kernel", POINTWISE, 3.5, launches=2, functions=(POINTWISE,), **_OF),
                _part("eager op", "aten.item", 1.0, functions=("Memcpy DtoH (Device -> Pinned)",)),
                replace(_part("guards", "", 5.0), device="cpu"),
            ),
        ),
        ev.DeviceFacts(
            name="NVIDIA H200", capability="9.0", driver="580.1", sm_clock=1200, sm_clock_max=1980, memory_clock=3201,
            memory_clock_max=3201, slowed_by=("the power limit",), temperature=61, power=690.0, power_limit=700.0,
            memory_total=150 << 30, memory_free=100 << 30, memory_used=2 << 30, memory_reserved=1 << 30,
        ),
        ev.ProfileEffect(ratio_before=2.0, ratio_after=2.25, noise=0.02, changed=True),
        ev.TimingEstimate(
            eager_us=200.0, eager_spread_us=2.0, compiled_us=100.0, compiled_spread_us=1.0, speedup=2.0, low=1.9,
            high=2.1, noise_floor=0.01, pairs=30, verdict="faster", threads=16, device="cuda: NVIDIA H200",
            eager_kernels_us=40.0, compiled_kernels_us=22.0, eager_device_span_us=48.0, compiled_device_span_us=31.0,
            launch_bound=True,
        ),
        ev.Finished(),
    )  # fmt: skip
