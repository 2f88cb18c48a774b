"""Run a script once as each rank of a distributed job, on one machine, with torch's fake process group.

Collectives return at once, with this rank's own data: nothing is communicated.
"""

from __future__ import annotations

import argparse
import importlib
import os
import runpy
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tcexplore.events.rank_events import ENDED_EARLY
from tcexplore.worker.process_setup import unshare_progress_bars

_OBJECT_CALLS = (
    "all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list", "send_object_list",
    "recv_object_list",
)  # fmt: skip
"""Functions of torch.distributed whose results are Python objects of other ranks."""

NEEDS_RESULTS = 3
"""Exit status of a rank that needs what another rank sends."""


class NeedsResultsError(RuntimeError):
    """The program needs objects of other ranks."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script as each of the ranks; return the first exit status that is not 0."""
    parser = argparse.ArgumentParser(prog="python -m tcexplore.worker.fake_ranks", allow_abbrev=False)
    parser.add_argument("--world", type=int, required=True)
    parser.add_argument("--rank", type=int, default=None)
    parser.add_argument("--standby", action="store_true", help="once torch is imported, wait for a line on stdin")
    parser.add_argument("file")
    parser.add_argument("argv", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    # The ranks are forked from this process, so that torch is imported once.
    for name in ("torch", "torch.distributed", "torch._dynamo", "torch.testing._internal.distributed.fake_pg"):
        importlib.import_module(name)
    if given.standby and not sys.stdin.readline():
        return 0
    ranks = range(given.world) if given.rank is None else (given.rank,)
    return _run_all(ranks, lambda rank: _run_rank(rank, given.world, given.file, given.argv))


def _run_all(ranks: Sequence[int], run: Callable[[int], int]) -> int:
    most, running, worst = max(1, os.cpu_count() or 1), set[int](), 0
    for rank in ranks:
        if len(running) >= most:
            ended = _wait(running)
            worst = worst or ended
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            _exit(run, rank)
        running.add(pid)
    while running:
        ended = _wait(running)
        worst = worst or ended
    return worst


def _exit(run: Callable[[int], int], rank: int) -> None:
    status = 1
    try:
        status = run(rank)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(running: set[int]) -> int:
    pid, status = os.wait()
    running.discard(pid)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _run_rank(rank: int, world: int, file: str, argv: Sequence[str]) -> int:
    os.environ.update(
        RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(world),
        MASTER_ADDR="localhost", MASTER_PORT="0",
    )  # fmt: skip
    unshare_progress_bars()
    _start_fake_group(rank, world)
    sys.argv = [file, *argv]
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    try:
        runpy.run_path(file, run_name="__main__")
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except NeedsResultsError as error:
        sys.stderr.write(f"rank {rank}: {error}\n")
        _record_end(str(error))
        return NEEDS_RESULTS
    except BaseException as error:  # noqa: BLE001  any error of the program ends its rank
        traceback.print_exc()
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if os.path.abspath(frame.filename) == os.path.abspath(file)]
        place = f"{file}:{own[-1].lineno} " if own else ""
        _record_end(f"{place}{type(error).__name__}: {error}".partition("\n")[0])
        return 1
    return 0


def _record_end(reason: str) -> None:
    """Write into the trace why this rank ended early."""
    importlib.import_module("torch._logging").trace_structured(
        "artifact", metadata_fn=lambda: {"name": ENDED_EARLY, "encoding": "string"}, payload_fn=lambda: reason,
        expect_trace_id=False,
    )  # fmt: skip


def _start_fake_group(rank: int, world: int) -> None:
    """Start the process group at once, so that each record has its rank; the program's own call then does nothing."""
    dist: Any = importlib.import_module("torch.distributed")
    store = importlib.import_module("torch.testing._internal.distributed.fake_pg").FakeStore()
    dist.init_process_group("fake", rank=rank, world_size=world, store=store)
    _complete_reductions()

    def keep(*_: Any, **__: Any) -> None:
        """Keep the fake process group."""

    for name, function in {"init_process_group": keep, **{name: _refuse(name) for name in _OBJECT_CALLS}}.items():
        for module in (dist, dist.distributed_c10d):
            if hasattr(module, name):
                setattr(module, name, function)


_LIBRARIES: list[Any] = []
"""Libraries with the op implementations of this module: torch removes those of a library that is collected."""


def _complete_reductions() -> None:
    """Make the future of an all-reduce hold its tensors, which DDP reads: in the fake group it holds None."""
    c10d = importlib.import_module("torch._C._distributed_c10d")
    library, futures = map(importlib.import_module, ("torch.library", "torch.futures"))
    if not (hasattr(c10d, "_create_work_from_future") and hasattr(c10d.Work, "boxed")):
        return  # without these private symbols, DDP fails in its first backward

    def reduce(tensors: Sequence[Any], *_: Any, **__: Any) -> tuple[Sequence[Any], Any]:
        devices = {tensor.device for tensor in tensors if tensor.device.type != "cpu"}
        future = futures.Future(devices=list(devices))
        future.set_result(list(tensors))
        return tensors, c10d.Work.boxed(c10d._create_work_from_future(future))

    implementations = library.Library("c10d", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that its implementation is replaced
        for device in ("CPU", "CUDA"):
            implementations.impl("allreduce_", reduce, device, allow_override=True)
    _LIBRARIES.append(implementations)


def _refuse(name: str) -> Callable[..., None]:
    def refuse(*_: Any, **__: Any) -> None:
        frame = sys._getframe(1)
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        raise NeedsResultsError(f"{place} needs the results of communication ({name}): run it with torchrun.")

    return refuse


if __name__ == "__main__":
    sys.exit(main())
