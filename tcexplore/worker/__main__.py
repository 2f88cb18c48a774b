"""`python -m tcexplore.worker --control-fd N`: one worker process, started by the front end."""

from __future__ import annotations

import argparse
import os
import socket
import sys

from tcexplore.events import PROTOCOL, Failed
from tcexplore.events.commands import RUN_DESCRIPTORS, Hello, OpenRun, Ready, RunOpened, decode_worker_command
from tcexplore.worker.link import Channel, receive
from tcexplore.worker.priming import Prepared, prepare
from tcexplore.worker.process_setup import die_with_parent

UNUSABLE = 3
"""Exit status when torch cannot be imported."""


def main(argv: list[str] | None = None) -> int:
    """Prepare, then serve runs until the front end is gone; return the exit status."""
    parser = argparse.ArgumentParser(prog="tcexplore.worker")
    parser.add_argument("--control-fd", type=int, required=True)
    parser.add_argument("--parent", type=int, default=os.getppid())
    parser.add_argument("--single", action="store_true", help="serve one run in this process instead of forking")
    parser.add_argument("--no-prime", action="store_true", help="be ready once torch is imported")
    options = parser.parse_args(argv)
    die_with_parent(options.parent)
    control = socket.socket(fileno=options.control_fd)
    control.set_inheritable(False)
    channel = Channel(control)
    channel.send(Hello(protocol=PROTOCOL))
    try:
        prepared = prepare(allow_fork_server=not options.single, prime=not options.no_prime)
    except BaseException as error:  # noqa: BLE001  importing torch runs code that may raise anything
        channel.send(_unusable(error))
        return UNUSABLE
    channel.send(Ready(fork_server=prepared.fork_server, standby=prepared.standby))
    return _make_runs(control, prepared)


def _make_runs(control: socket.socket, prepared: Prepared) -> int:
    if prepared.fork_server:
        from tcexplore.worker.fork_server import ForkServer

        ForkServer(control, prepared.threads).serve()
        return 0
    from tcexplore.worker.job_process import serve

    while frame := receive(control, RUN_DESCRIPTORS):
        match decode_worker_command(frame.body):
            case OpenRun(number=number):
                Channel(control).send(RunOpened(number=number, pid=os.getpid()))
                serve(frame.descriptors, prepared.threads)
    return 0


def _unusable(error: BaseException) -> Failed:
    missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
    hint = f"Install it for this Python: {sys.executable} -m pip install torch" if missing else (
        f"Try: {sys.executable} -c 'import torch'. tcexplore needs it."
    )  # fmt: skip
    return Failed(
        stage="worker",
        blame="compiler",
        type=type(error).__name__,
        message="torch is not installed." if missing else f"torch cannot be imported: {error}",
        hint=hint,
    )


if __name__ == "__main__":
    sys.exit(main())
