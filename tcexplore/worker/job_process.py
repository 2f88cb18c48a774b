"""A process that waits for one job, runs it and exits."""

from __future__ import annotations

import os
import socket
import sys
import traceback

from tcexplore.events import Failed, decode_job
from tcexplore.worker import process_setup
from tcexplore.worker.command_queue import CommandQueue
from tcexplore.worker.link import GONE, Channel, receive

BROKEN = 70
"""Exit status of a worker that failed because of a bug in tcexplore."""


def serve(descriptors: tuple[int, ...], threads: int) -> None:
    """Wait on a run's descriptors for its job, and run it. Never return.

    Exit without running interpreter shutdown, which threads of the user's code could delay.
    """
    try:
        _serve(descriptors, threads)
    finally:
        os._exit(BROKEN)


def _serve(descriptors: tuple[int, ...], threads: int) -> None:
    protocol, stdout, stderr, crash = descriptors
    process_setup.prefer_oom_kill()
    process_setup.redirect_stdio(stdout, stderr)
    process_setup.write_crash_traceback(crash)
    sock = socket.socket(fileno=protocol)
    frame = receive(sock)
    if frame is None:
        os._exit(GONE)
    job = decode_job(frame.body)
    commands = CommandQueue(sock)
    process_setup.kill_group_after(commands.listen)
    channel = Channel(sock, job.run)
    try:
        from tcexplore.worker.run import run_job

        run_job(job, channel, threads, commands)
    except BaseException as error:  # noqa: BLE001  a bug in tcexplore, reported as the run's failure
        channel.send(_internal_error(error))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


def _internal_error(error: BaseException) -> Failed:
    return Failed(
        stage="worker",
        blame="compiler",
        type=type(error).__name__,
        message=f"tcexplore itself failed: {error}",
        hint="This is a bug in tcexplore. Please report it with the traceback.",
        traceback="".join(traceback.format_exception(error)),
    )
