"""A process that waits for one job, runs it and ends."""

from __future__ import annotations

import os
import socket
import sys
import traceback

from tcexplore.events import Failed, decode_job
from tcexplore.worker import process_setup as process
from tcexplore.worker.command_queue import CommandQueue
from tcexplore.worker.link import GONE, Channel, receive

BROKEN = 70
"""Exit status of a worker that failed where it should not: in its own code."""


def serve(descriptors: tuple[int, ...], threads: int) -> None:
    """Take the descriptors of a seat, wait for its job, run it. Does not return.

    The process ends without Python's own farewell: what the user's code left running must not delay it.
    """
    try:
        _serve(descriptors, threads)
    finally:
        os._exit(BROKEN)


def _serve(descriptors: tuple[int, ...], threads: int) -> None:
    protocol, stdout, stderr, crash = descriptors
    process.first_to_go()
    process.take_stdio(stdout, stderr)
    process.say_where_it_crashed(crash)
    sock = socket.socket(fileno=protocol)
    frame = receive(sock)
    if frame is None:
        os._exit(GONE)
    job = decode_job(frame.body)
    orders = CommandQueue(sock)
    process.end_group_after(orders.listen)
    channel = Channel(sock, job.run)
    try:
        from tcexplore.worker.run import run

        run(job, channel, threads, orders)
    except BaseException as error:
        channel.emit(_our_fault(error))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


def _our_fault(error: BaseException) -> Failed:
    return Failed(
        stage="worker",
        blame="compiler",
        type=type(error).__name__,
        message=f"tcexplore itself failed: {error}",
        hint="This is a bug in tcexplore; the traceback belongs into a report of it.",
        traceback="".join(traceback.format_exception(error)),
    )
