"""What a template may do before it forks is tried in a child first."""

from __future__ import annotations

import sys

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.skipif(sys.platform != "linux", reason="forks")]


def fails() -> None:
    raise RuntimeError("as torch does in a child that may not run autograd")


def test_what_a_child_can_do_is_told_from_what_it_cannot(capfd: pytest.CaptureFixture[str]) -> None:
    from tcexplore.worker.priming import _done_in_child

    assert _done_in_child(lambda: None)
    assert not _done_in_child(fails)
    capfd.readouterr()


def test_training_is_primed_only_where_its_children_can_train(monkeypatch: pytest.MonkeyPatch) -> None:
    from tcexplore.worker import priming as standby

    primed: list[bool] = []
    monkeypatch.setattr(standby, "_prime", lambda *_, backward=False, **__: primed.append(backward))
    monkeypatch.setattr(standby, "_modules", lambda: ())
    monkeypatch.setattr(standby.gc, "freeze", lambda: None)
    for survives in (True, False):
        monkeypatch.setattr(standby, "backward_survives_fork", lambda answer=survives: answer)
        threads = standby.prepare().threads
        import torch

        torch.set_num_threads(threads)
    assert primed == [False, True, False]
