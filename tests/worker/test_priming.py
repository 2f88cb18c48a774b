"""A child process tests whether a fork server may run autograd before it forks."""

from __future__ import annotations

import gc
import sys

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.skipif(sys.platform != "linux", reason="forks")]


def fail() -> None:
    raise RuntimeError("as torch does in a child that must not run autograd")


def test_a_failure_in_a_child_is_detected(capfd: pytest.CaptureFixture[str]) -> None:
    from tcexplore.worker.priming import _succeeds_in_child

    assert _succeeds_in_child(lambda: None)
    assert not _succeeds_in_child(fail)
    capfd.readouterr()


def test_training_is_primed_only_if_forked_children_can_train(monkeypatch: pytest.MonkeyPatch) -> None:
    from tcexplore.worker import priming

    primed: list[bool] = []
    monkeypatch.setattr(priming, "_prime", lambda *_, backward=False, **__: primed.append(backward))
    monkeypatch.setattr(priming, "_modules", lambda: ())
    monkeypatch.setattr(gc, "freeze", lambda: None)
    for survives in (True, False):
        monkeypatch.setattr(priming, "backward_survives_fork", lambda answer=survives: answer)
        threads = priming.prepare().threads
        import torch

        torch.set_num_threads(threads)
    assert primed == [False, True, False]
