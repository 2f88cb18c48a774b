"""`python -m tcexplore.worker --control-fd N`: one worker process, started by the front end."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Generator
from functools import partial

from tcexplore.events import PROTOCOL, Failed
from tcexplore.events.commands import (
    RUN_DESCRIPTORS,
    Hello,
    OpenRun,
    Ready,
    RunOpened,
    RunPrimed,
    decode_worker_command,
)
from tcexplore.model_python import install_hint
from tcexplore.worker import process_setup
from tcexplore.worker.fork_policy import can_fork
from tcexplore.worker.link import Channel, receive
from tcexplore.worker.loading import LoadedWorker, load
from tcexplore.worker.process_setup import call_with_frame_room

UNUSABLE = 3
"""Exit status when torch cannot be imported."""


def main(argv: list[str] | None = None) -> int:
    """Import torch, then serve runs until the front end is gone; return the exit status."""
    return call_with_frame_room(partial(_serve, argv))


def _serve(argv: list[str] | None) -> int:
    parser = argparse.ArgumentParser(prog="tcexplore.worker")
    parser.add_argument("--control-fd", type=int, required=True)
    parser.add_argument("--parent", type=int, default=os.getppid())
    parser.add_argument("--single", action="store_true", help="serve one run in this process instead of forking")
    parser.add_argument("--prime", action="store_true", help="if it serves one run, prime until its job arrives")
    options = parser.parse_args(argv)
    process_setup.front_end = options.parent
    process_setup.die_with_parent(options.parent)
    control = socket.socket(fileno=options.control_fd)
    control.set_inheritable(False)
    channel = Channel(control)
    channel.send(Hello(protocol=PROTOCOL))
    try:
        worker = load(forks=not options.single and can_fork())
    except BaseException as error:  # noqa: BLE001  importing torch runs code that may raise anything
        channel.send(_unusable(error))
        return UNUSABLE
    forks, prime = worker.policy.forks, options.prime
    channel.send(Ready(stage="loaded", standby=worker.standby, forks=forks, self_priming=prime and not forks))
    if forks:
        from tcexplore.worker.fork_server import ForkServer

        ForkServer(control, worker).serve()
    else:
        _serve_one_run(control, worker, prime=prime)
    return 0


def _serve_one_run(control: socket.socket, worker: LoadedWorker, *, prime: bool) -> None:
    from tcexplore.worker.job_process import serve

    while frame := receive(control, RUN_DESCRIPTORS):
        match decode_worker_command(frame.body):
            case OpenRun(number=number):
                channel = Channel(control)
                channel.send(RunOpened(number=number, pid=os.getpid()))
                standby = _become_standby(channel, number, worker, prime=prime)
                serve(frame.descriptors, worker.threads, standby, worker.seed)


def _become_standby(channel: Channel, number: int, worker: LoadedWorker, *, prime: bool) -> Generator[float]:
    if prime:
        from tcexplore.worker.priming import prime_steps

        yield from prime_steps("cuda" if worker.policy.accelerator else "cpu")
        channel.send(RunPrimed(number=number))


def _unusable(error: BaseException) -> Failed:
    missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
    hint = install_hint(sys.executable) if missing else (
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
