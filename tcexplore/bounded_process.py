"""Run a program for its answer, within limits on time and output. Whatever it does, the call ends."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

MOST_BYTES = 1 << 20
"""Default limit of each stream."""

_LINGER_S = 0.5
"""Seconds to read on after the program has ended: a process that it started may hold its pipes open."""

_CHUNK = 1 << 16


class BoundedOutput(NamedTuple):
    """What a program wrote, and how it ended."""

    status: int
    """Exit status; negative for a signal."""
    output: bytes
    errors: bytes
    pid: int


class NoAnswerError(Exception):
    """A program was killed, since it exceeded a limit; the message is a verb phrase: `gives no answer within 20 s`."""


def run_bounded(
    command: Sequence[str],
    seconds: float,
    *,
    most_bytes: int = MOST_BYTES,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> BoundedOutput:
    """Return what a program answers. Its process group is killed at the end. Raises `OSError` or `NoAnswerError`."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0,
        env=env, cwd=cwd, bufsize=0,
    ) as process:  # fmt: skip
        try:
            return _read(process, seconds, most_bytes)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def _read(process: subprocess.Popen[bytes], seconds: float, most_bytes: int) -> BoundedOutput:
    assert process.stdout is not None, "both streams are pipes"
    assert process.stderr is not None
    texts = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    output, errors = texts.values()
    deadline, ended = time.monotonic() + seconds, False
    with selectors.DefaultSelector() as selector:
        for descriptor in texts:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            # A program that has ended leaves its pipes open if another process has them.
            for key, _ in selector.select(min(0.05, max(0.0, deadline - time.monotonic()))):
                chunk = os.read(key.fd, _CHUNK)
                texts[key.fd] += chunk
                if not chunk:
                    selector.unregister(key.fd)
                if len(texts[key.fd]) > most_bytes:
                    raise NoAnswerError(f"writes more than {most_bytes >> 10:,} KiB")
            if not ended and process.poll() is not None:
                ended, deadline = True, min(deadline, time.monotonic() + _LINGER_S)
            if time.monotonic() >= deadline:
                break
    if not ended:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise NoAnswerError(f"gives no answer within {seconds:g} s") from None
    return BoundedOutput(process.returncode, bytes(output), bytes(errors), process.pid)
