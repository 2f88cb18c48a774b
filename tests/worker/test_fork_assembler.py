"""The forked assembler process answers requests, has no other file open, and ends."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterable
from typing import IO

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def count_descriptors(requests: Iterable[str], answers: IO[str]) -> None:
    """Answer each request with the number of open descriptors."""
    for line in requests:
        answers.write(f"{line.strip()} {len(os.listdir('/proc/self/fd'))}\n")
        answers.flush()


def test_a_forked_assembler_answers_and_has_no_other_file_open(monkeypatch: pytest.MonkeyPatch):
    from tcexplore.targets import assembler_process
    from tcexplore.worker.kernel_assembly import fork_assembler

    monkeypatch.setattr(assembler_process, "serve", count_descriptors)
    with tempfile.TemporaryFile("w+") as log, tempfile.TemporaryFile():
        first, second = fork_assembler(log), fork_assembler(log)
        first.stdin.write("one\n")
        first.stdin.flush()
        # Standard streams, its two pipes, and the directory that it lists.
        assert first.stdout.readline() == "one 6\n"
        assert first.poll() is None
        first.stdin.close()
        assert first.wait() == 0
        second.terminate()
        assert second.wait() == -signal.SIGTERM
        for end in (first.stdout, second.stdin, second.stdout):
            end.close()
