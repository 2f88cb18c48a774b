"""What is in use at the peak of memory of an eager call: storages, with the op, line and module that allocated them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tcexplore.capture.user_files import UserFiles
from tcexplore.events import EAGER_TENSORS, EagerPeak, EagerTensor
from tcexplore.events.result_events import TensorKind
from tcexplore.timing.line_timer import OpRecorder, TimedOp


@dataclass(slots=True)
class _Storage:
    bytes: int
    born: int
    """Position of the op that allocated it."""
    time: int
    """Position among all allocations and frees."""
    freed_at: int | None = None
    dies: int | None = None
    saved: bool = False


class StorageRecorder(OpRecorder):
    """Records the storages that ops allocate, and when each is freed."""

    def __init__(self, user_files: UserFiles) -> None:
        super().__init__(user_files)
        self.storages: list[_Storage] = []
        self.names: list[str] = []
        """The op at each position."""
        self.history: list[int] = []
        self._known: dict[int, tuple[weakref.ref[Any], _Storage | None]] = {}
        """Storages that exist, by address of the record in C++; None for one that existed before the call."""
        self._time = self._bytes = 0
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor)

    def __enter__(self) -> Any:
        self._hooks.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._hooks.__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for storage in _storages((args, kwargs)):
            self._add(storage, None)
        result = super().__torch_dispatch__(func, types, args, kwargs)
        self.names.append(str(func).removesuffix(".default"))
        for storage in _storages(result):
            self._add(storage, len(self.names) - 1)
        self.history.append(self._bytes)
        return result

    def _add(self, storage: Any, born: int | None) -> None:
        key = storage._cdata
        if key in self._known:
            return
        record = None
        if born is not None:
            self._time += 1
            record = _Storage(storage.nbytes(), born, self._time)
            self._bytes += record.bytes
            self.storages.append(record)

        def freed(_: Any) -> None:
            self._known.pop(key, None)
            if record is not None:
                self._time += 1
                self._bytes -= record.bytes
                record.freed_at, record.dies = self._time, max(record.born, len(self.names) - 1)

        self._known[key] = (weakref.ref(storage, freed), record)

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor:
        for storage in _storages(tensor):
            _, record = self._known.get(storage._cdata, (None, None))
            if record is not None:
                record.saved = True
        return tensor


def _storages(values: Any) -> Iterator[Any]:
    for leaf in pytree.tree_leaves(values):
        if isinstance(leaf, torch.Tensor):
            try:
                storage = leaf.untyped_storage()
                storage.nbytes()
            except (RuntimeError, NotImplementedError):
                # A sparse or nested tensor has no storage of its own.
                continue
            yield storage


def eager_peak(calls: Iterable[Callable[[], object]], user_files: UserFiles) -> EagerPeak | None:
    """Return the peak of the call that needs most memory; None if no op allocates."""
    peaks = [peak for call in calls if (peak := _peak_of(call, user_files)) is not None]
    return max(peaks, key=lambda peak: peak.bytes, default=None)


def _peak_of(call: Callable[[], object], user_files: UserFiles) -> EagerPeak | None:
    recorder = StorageRecorder(user_files)
    with recorder:
        output = call()
    outlive = {id(storage) for storage in recorder.storages if storage.freed_at is None}
    del output
    storages = recorder.storages
    if not storages:
        return None
    changes = [(storage.time, storage.bytes) for storage in storages]
    changes += [(s.freed_at, -s.bytes) for s in storages if s.freed_at is not None and id(s) not in outlive]
    total = highest = at = 0
    for time, change in sorted(changes):
        total += change
        if total > highest:
            highest, at = total, time
    live = [s for s in storages if s.time <= at and (id(s) in outlive or s.freed_at is None or s.freed_at > at)]
    live = sorted((s for s in live if s.bytes), key=lambda storage: -storage.bytes)
    step = max((s.born for s in live), default=0)
    ops = recorder.ops
    return EagerPeak(
        bytes=highest, step=step, steps=len(ops),
        forward_steps=sum(op.line.phase == "forward" for op in ops), phase=ops[step].line.phase,
        op=recorder.names[step],
        tensors=tuple(
            _tensor(s, ops[s.born], recorder.names[s.born], outlives=id(s) in outlive) for s in live[:EAGER_TENSORS]
        ),
        rest=sum(s.bytes for s in live[EAGER_TENSORS:]), history=tuple(recorder.history),
    )  # fmt: skip


def _tensor(storage: _Storage, op: TimedOp, name: str, *, outlives: bool) -> EagerTensor:
    kind: TensorKind = "temporary"
    if storage.saved:
        kind = "activation"
    elif outlives:
        kind = "gradient" if op.line.phase == "backward" else "output"
    root, path = op.module.place if op.module else ("", "")
    return EagerTensor(
        op=name, bytes=storage.bytes, kind=kind, location=op.line.location,
        module=".".join(filter(None, (root, path))) or None, born=storage.born,
        dies=None if outlives else storage.dies,
    )  # fmt: skip
