"""Rows of the timing pane about the device and its CUDA graphs, and texts about its measured rates."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from tcexplore import events as ev
from tcexplore.documents.document import Row
from tcexplore.documents.labels import kernel_links
from tcexplore.documents.prose import BLANK, heading, wrapped
from tcexplore.quantities import count, duration, size
from tcexplore.session import Snapshot
from tcexplore.session.kernel_facts import Achieved, PeakShare


def format_rate(per_second: float, unit: str) -> str:
    """Return `1.62 TB/s`, `840 GFLOP/s`: decimal units, as in vendors' peak figures."""
    amount, prefix = per_second, ""
    for prefix in ("", "k", "M", "G", "T", "P"):
        if amount < 1000 or prefix == "P":
            break
        amount /= 1000
    decimals = 0 if amount >= 100 else 1 if amount >= 10 else 2
    return f"{amount:.{decimals}f} {prefix}{unit}"


def shorten_device_function(name: str) -> str:
    """Return the name of a device function without types and arguments: `at::native::reduce_kernel`."""
    short = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    while (shorter := re.sub(r"<[^<>]*>", "", short)) != short:
        short = shorter
    # The parentheses of `Memcpy DtoH (Device -> Pinned)` are part of its name.
    return short if " (" in short else short.partition("(")[0]


def describe_device_share(estimate: ev.TimingEstimate) -> str:
    """Return `kernels run for 12.3 µs eager (9%), 8.10 µs compiled (40%) of a call, …`, empty without a device."""
    sides = (
        ("eager", estimate.eager_kernels_us, estimate.eager_device_span_us, estimate.eager_us),
        ("compiled", estimate.compiled_kernels_us, estimate.compiled_device_span_us, estimate.compiled_us),
    )
    kernels = [
        f"{duration(us / 1e6)} {name} ({min(us / wall, 1):.0%})" for name, us, _, wall in sides if us is not None
    ]
    spans = [f"{duration(us / 1e6)} {name}" for name, _, us, _ in sides if us is not None]
    parts = [f"kernels run for {', '.join(kernels)} of a call"] if kernels else []
    parts += [f"the device takes {', '.join(spans)} with the gaps between them"] if spans else []
    if estimate.launch_bound:
        parts.append("the rest is Python and launches, which CUDA graphs (mode reduce-overhead) can save")
    return "; ".join(parts)


def describe_device(device: ev.DeviceFacts) -> Iterator[str]:
    """Yield the name of the device, its clocks, why it is throttled, its memory, as far as known."""
    driver = f", driver {device.driver}" if device.driver else ""
    yield f"{device.name}, compute capability {device.capability}{driver}"
    clocks = [
        f"{name} at {now} of {most} MHz" if most else f"{name} at {now} MHz"
        for name, now, most in (
            ("SM clock", device.sm_clock, device.sm_clock_max),
            ("memory clock", device.memory_clock, device.memory_clock_max),
        )
        if now is not None
    ]
    power = [f"{device.power:.0f} of {device.power_limit:.0f} W"] if device.power and device.power_limit else []
    heat = [f"{device.temperature} °C"] if device.temperature is not None else []
    if clocks:
        yield ", ".join(clocks + power + heat)
    if device.slowed_by:
        yield f"throttled by {', '.join(device.slowed_by)}"
    if device.memory_total is not None and device.memory_free is not None:
        used = f", this process {size(device.memory_used)}" if device.memory_used is not None else ""
        held = f" ({size(device.memory_reserved)} by torch)" if used and device.memory_reserved is not None else ""
        yield f"memory {size(device.memory_free)} free of {size(device.memory_total)}{used}{held}"


def format_measured(rates: Achieved) -> str:
    """Return `measured 3.10 µs in 2 launches · 1.62 TB/s, 34% of peak`; a CPU has no peak, and no reason for that."""
    timed = rates.measured
    times = f" in {timed.launches} launches" if timed.launches > 1 else ""
    where = "" if timed.device == "cpu" else ", replayed" if timed.replayed else ""
    parts = [f"measured {duration(timed.us / 1e6)}{times}{where}"]
    of_arithmetic = f" in {rates.arithmetic}" if rates.arithmetic else ""
    for share, unit, of in ((rates.memory, "B/s", ""), (rates.compute, "FLOP/s", of_arithmetic)):
        if share.rate:
            parts.append(f"{format_rate(share.rate, unit)}{of}{_of_peak(share, on_device=timed.device != 'cpu')}")
    return " · ".join(parts)


def _of_peak(share: PeakShare, *, on_device: bool) -> str:
    if share.share is not None:
        return f", {share.share:.0%} of peak"
    return f" (no share of a peak: {share.reason})" if on_device else ""


def device_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the facts about the GPU, nothing on a CPU."""
    if snapshot.device is None:
        return
    yield BLANK
    yield heading("Device")
    for text in describe_device(snapshot.device):
        yield from wrapped(text, width, "warn" if text.startswith("throttled") else "")
    if (effect := snapshot.profile_effect) is not None:
        yield from wrapped(describe_effect(effect), width, "warn" if effect.changed else "muted")


def describe_effect(effect: ev.ProfileEffect) -> str:
    """Return how profiles changed the ratio of both sides, and what follows."""
    ratios = f"{effect.ratio_before:.2f}× in pairs before the profiles, {effect.ratio_after:.2f}× after them"
    end = "the timing ended before them" if effect.changed else "no difference"
    return f"{ratios} (± {effect.noise:.0%}): {end}"


# ---- CUDA graphs


_LOGGED = "skipping cudagraphs due to "


def cuda_graph_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the recorded CUDA graphs and the reasons for skipping others, nothing if torch tried neither."""
    text = summarize_cuda_graphs(snapshot)
    if not text:
        return
    yield BLANK
    yield heading("CUDA graphs")
    yield from wrapped(text, width)
    for recorded in snapshot.cuda_graphs:
        yield from wrapped(describe_recorded(recorded), width, "muted", indent=3)
    for kernels, reason in skipped_reasons(snapshot):
        own = tuple(link for kernel in kernels for link in kernel_links(kernel))
        place = next((kernel.source_lines[0] for kernel in kernels if kernel.source_lines), None)
        yield from wrapped(reason, width, "warn", lead="! ", links=own, location=place)


def summarize_cuda_graphs(snapshot: Snapshot) -> str:
    """Return how much of a call is replayed, empty if torch neither recorded nor skipped anything."""
    if not snapshot.cuda_graphs and not snapshot.cuda_graphs_skipped:
        return ""
    text = count(len(snapshot.cuda_graphs), "CUDA graph") + " recorded"
    call = snapshot.call_profile
    if call is None or not snapshot.cuda_graphs:
        return text
    alone = call.device_tasks - call.replayed_tasks
    rest = f"; {alone} are launched separately" if alone else ""
    launches = "1 launch" if call.replays == 1 else f"{call.replays} launches"
    return f"{text}: a call replays {call.replayed_tasks} kernels and copies in {launches}{rest}"


def describe_recorded(recorded: ev.CudaGraphRecorded) -> str:
    """Return `0/0 forward partition_0: 2 inputs copied before replay (128 KiB), peak 1.5 MiB`."""
    parts = [f"{recorded.graph} {recorded.phase}".strip() + (f" {recorded.part}" if recorded.part else "")]
    copies = f"{count(recorded.inputs_copied, 'input')} copied before a replay ({size(recorded.inputs_copied_bytes)})"
    parts.append(copies if recorded.inputs_copied else "no inputs copied")
    if recorded.peak_bytes is not None:
        parts.append(f"peak {size(recorded.peak_bytes)}")
    return f"{parts[0]}: {', '.join(parts[1:])}"


def skipped_reasons(snapshot: Snapshot) -> Iterator[tuple[tuple[ev.Kernel, ...], str]]:
    """Yield each of torch's reasons once, with the kernels that it keeps out of the CUDA graphs."""
    nodes: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for skip in snapshot.cuda_graphs_skipped:
        nodes[skip.graph, skip.phase, skip.reason].update(skip.nodes)
    for (graph, phase, reason), left_out in nodes.items():
        kernels = tuple(
            kernel
            for kernel in snapshot.code.kernels
            if (kernel.graph, kernel.phase, kernel.target) == (graph, phase, "native")
            and not left_out.isdisjoint(kernel.scheduler_nodes)
        )
        names = f" ({', '.join(kernel.name for kernel in kernels)})" if kernels else ""
        where = f"{graph} {phase}".strip()
        yield kernels, f"{where}{': ' if where else ''}not recorded{names}: {_without_prefix(reason)}"


def _without_prefix(reason: str) -> str:
    """Return torch's reason without the prefix of its log message."""
    while reason.startswith(_LOGGED):
        reason = reason.removeprefix(_LOGGED)
    return reason.strip()
