"""The assembling process that a run forks: it answers, has nothing of the run's open, and ends."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterable
from typing import IO

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def listing(requests: Iterable[str], answers: IO[str]) -> None:
    """Answers each request with the descriptors that are open."""
    for line in requests:
        answers.write(f"{line.strip()} {len(os.listdir('/proc/self/fd'))}\n")
        answers.flush()


def test_a_forked_process_answers_and_holds_nothing_else_open(monkeypatch: pytest.MonkeyPatch):
    from tcexplore.targets import assembler_process
    from tcexplore.worker.forked_assembler import forked

    monkeypatch.setattr(assembler_process, "serve", listing)
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile():
        first, second = forked(said), forked(said)
        first.stdin.write("one\n")
        first.stdin.flush()
        # Standard streams, its two pipes, and the listing's own.
        assert first.stdout.readline() == "one 6\n"
        assert first.poll() is None
        first.stdin.close()
        assert first.wait() == 0
        second.terminate()
        assert second.wait() == -signal.SIGTERM
        for end in (first.stdout, second.stdin, second.stdout):
            end.close()
