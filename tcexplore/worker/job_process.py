"""A process that waits for one job, runs it and exits."""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import socket
import sys
import traceback
from collections.abc import Generator
from typing import TYPE_CHECKING

from tcexplore.events import Failed, decode_job
from tcexplore.events.run_events import BROKEN_STATUS
from tcexplore.worker import process_setup
from tcexplore.worker.link import GONE, Channel, CommandQueue, receive

_exit, _write = os._exit, os.write
"""Functions that the model file may replace."""

if TYPE_CHECKING:
    from tcexplore.worker.timing_process import TimingSeed

LONGEST_TRACEBACK = 16_000


def serve(descriptors: tuple[int, ...], threads: int, steps: Generator[float], seed: TimingSeed | None = None) -> None:
    """Wait on a run's descriptors for its job, and run it. Never return. `seed` forks processes to time it in.

    Until the job arrives, take `steps`, which prime this process; each yields the seconds to wait before the next one.
    Exit without running interpreter shutdown, which threads of the user's code could delay.
    """
    try:
        _serve(descriptors, threads, steps, seed)
    except BaseException:  # noqa: BLE001  the program may have replaced anything
        with contextlib.suppress(BaseException):
            _write(descriptors[-1], traceback.format_exc()[-LONGEST_TRACEBACK:].encode("utf-8", "replace"))
    finally:
        _exit(BROKEN_STATUS)


def _serve(descriptors: tuple[int, ...], threads: int, steps: Generator[float], seed: TimingSeed | None) -> None:
    protocol, stdout, stderr, crash = descriptors
    process_setup.prefer_oom_kill()
    sock = socket.socket(fileno=protocol)
    with contextlib.closing(steps):
        for wait_s in itertools.chain([0.0], steps):
            if select.select([sock], [], [], wait_s)[0]:
                break
    process_setup.redirect_stdio(stdout, stderr)
    process_setup.write_crash_traceback(crash)
    if "tcexplore.worker.early_imports" in sys.modules:
        from tcexplore.worker.early_imports import use_imports

        use_imports()
    frame = receive(sock)
    if frame is None:
        _exit(GONE)
    job = decode_job(frame.body)
    commands = CommandQueue(sock)
    process_setup.kill_group_after(commands.listen)
    process_setup.unshare_progress_bars()
    channel = Channel(sock, job.run)
    try:
        from tcexplore.worker.run import run_job

        run_job(job, channel, threads, commands, seed)
    except BaseException as error:  # noqa: BLE001  a bug in tcexplore, reported as the run's failure
        channel.send(_internal_error(error))
    process_setup.flush_output()
    _exit(0)


def _internal_error(error: BaseException) -> Failed:
    return Failed(
        stage="worker",
        blame="compiler",
        type=type(error).__name__,
        message=f"tcexplore itself failed: {error}",
        hint="This is a bug in tcexplore. Please report it with the traceback.",
        traceback="".join(traceback.format_exception(error)),
    )
