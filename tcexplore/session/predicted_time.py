"""The time of a compiled call with other kernels, predicted from the profile of the program as it is.

Only the calls that one of the two has more of count: what both do cancels, whether it was measured or not. A call that
the program makes as well takes the time that it takes there. Another generated kernel takes the time of the bytes that
it moves, at the rate of all generated kernels of the profile; another library call that of its FLOPs, or else of its
bytes, at the rate of the same function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tcexplore import events as ev
from tcexplore.session.kernel_facts import measured_time
from tcexplore.session.snapshot import Snapshot
from tcexplore.targets.target_names import NATIVE

_Key = tuple[object, ...]


def predicted_time_ratio(base: Snapshot, changed: Snapshot) -> float | None:
    """Return the predicted time of a compiled call of `changed`, relative to that of `base`.

    None without a profile of `base`, or if nothing in it is like a call that only one of the two makes.
    """
    account = base.call_account
    if account is None or not account.total_us:
        return None
    prices = _Prices(base)
    before, after = ({_exact(*call): call for call in _calls(run)} for run in (base, changed))
    counts = [Counter(_exact(*call) for call in _calls(run)) for run in (base, changed)]
    added_us = 0.0
    for key in {*before, *after}:
        more = counts[1][key] - counts[0][key]
        if more:
            us = prices.of(*(after.get(key) or before[key]))
            if us is None:
                return None
            added_us += more * us
    return (account.total_us + added_us) / account.total_us


class _Prices:
    """The time of each kind of call in the profile of a run."""

    def __init__(self, run: Snapshot) -> None:
        self._times = dict[_Key, list[float]]()
        self._rates = dict[_Key, tuple[float, float]]()
        """Microseconds and work of calls that are alike."""
        for kernel in run.code_for(NATIVE).kernels:
            part = measured_time(run, kernel)
            if part is None or not kernel.calls:
                continue
            each = part.us / len(kernel.calls)
            for call in kernel.calls:
                self._times.setdefault(_exact(kernel, call), []).append(each)
                us, work = self._rates.get(_alike(kernel, call), (0.0, 0.0))
                self._rates[_alike(kernel, call)] = us + each, work + _work(kernel, call)

    def of(self, kernel: ev.Kernel, call: ev.KernelCall) -> float | None:
        """Return the microseconds of a call; None if the profile has nothing like it."""
        if known := self._times.get(_exact(kernel, call)):
            return sum(known) / len(known)
        us, work = self._rates.get(_alike(kernel, call), (0.0, 0.0))
        return us / work * _work(kernel, call) if work else None


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
