"""The time of a compiled call with other kernels, predicted from the profile of the program as it is.

A kernel that the program has, too, takes the time that it takes there. Another generated one takes the time of the
bytes that it moves, at the rate of all generated kernels of the profile; another library call that of its FLOPs, or
else of its bytes, at the rate of the same function.
"""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore import events as ev
from tcexplore.session.kernel_facts import measured_time
from tcexplore.session.snapshot import Snapshot
from tcexplore.targets.target_names import NATIVE

_Key = tuple[object, ...]


def predicted_time_ratio(base: Snapshot, changed: Snapshot) -> float | None:
    """Return the predicted time of a compiled call of `changed`, relative to that of `base`.

    None without a profile of `base`, or if it calls no function that a kernel of `changed` calls.
    """
    account = base.call_account
    if account is None or not account.total_us:
        return None
    times = dict[_Key, list[float]]()
    rates = dict[_Key, tuple[float, float]]()
    before = after = 0.0
    for kernel in base.code_for(NATIVE).kernels:
        part = measured_time(base, kernel)
        if part is None or not kernel.calls:
            continue
        before += part.us
        each = part.us / len(kernel.calls)
        for call in kernel.calls:
            times.setdefault(_exact(kernel, call), []).append(each)
            us, work = rates.get(_alike(kernel, call), (0.0, 0.0))
            rates[_alike(kernel, call)] = us + each, work + _work(kernel, call)
    for kernel, call in _calls(changed):
        known = times.get(_exact(kernel, call))
        us, work = rates.get(_alike(kernel, call), (0.0, 0.0))
        if known:
            after += sum(known) / len(known)
        elif work:
            after += us / work * _work(kernel, call)
        else:
            return None
    return (account.total_us - before + after) / account.total_us


def _calls(run: Snapshot) -> Iterator[tuple[ev.Kernel, ev.KernelCall]]:
    for kernel in run.code_for(NATIVE).kernels:
        for call in kernel.calls:
            yield kernel, call


def _alike(kernel: ev.Kernel, call: ev.KernelCall) -> _Key:
    """Return what calls share whose time grows with their work."""
    return (True,) if kernel.generated else (kernel.name.partition(":")[0], call.flops is None)


def _exact(kernel: ev.Kernel, call: ev.KernelCall) -> _Key:
    """Return what calls of equal duration share; the views that a library call reads do not matter."""
    ops = tuple(sorted(call.ops)) if kernel.generated else ()
    return (*_alike(kernel, call), ops, call.bytes_read, call.bytes_written, call.flops)


def _work(kernel: ev.Kernel, call: ev.KernelCall) -> float:
    moved = (call.bytes_read or 0) + (call.bytes_written or 0)
    return float(moved if kernel.generated else call.flops or moved)
