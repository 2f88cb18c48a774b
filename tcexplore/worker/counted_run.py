"""`main` of the process that Nsight Compute launches: one run of a job, of which one call is counted."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

from tcexplore.events import Failed, KernelAssembled, decode_job
from tcexplore.events.codec import encode
from tcexplore.worker.link import Channel, CommandQueue
from tcexplore.worker.loading import load
from tcexplore.worker.run import run_job


class _Kept(Channel):
    """Keeps the failure of a run and its machine code, and no other event."""

    def __init__(self) -> None:
        super().__init__(socket.socketpair()[0])
        self.failure: Failed | None = None
        self.code: list[KernelAssembled] = []

    def send(self, record: Any) -> None:
        if isinstance(record, Failed):
            self.failure = record
        elif isinstance(record, KernelAssembled):
            self.code.append(record)


def main() -> int:
    """Run the job in a file, and write the machine code of its kernels to another; return the exit status.

    The paths of both are the arguments. Autotuning may pick other configurations here than in the run itself.
    """
    job_file, code_file = map(Path, sys.argv[1:])
    job = decode_job(job_file.read_bytes())
    worker, channel = load(forks=False), _Kept()
    run_job(job, channel, worker.threads, CommandQueue(channel.sock))
    code_file.write_bytes(b"".join(map(encode, channel.code)))
    if channel.failure is None:
        return 0
    sys.stderr.write(f"{channel.failure.type}: {channel.failure.message}\n")
    return 1
