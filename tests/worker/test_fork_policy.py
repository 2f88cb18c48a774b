"""Runs are forked only if a child process can use the accelerator."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from tcexplore.worker.fork_policy import (
    NVML_CHECK,
    ChildProbe,
    ForkPolicy,
    NvmlCheck,
    call_in_copy,
    choose_policy,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")


class FakeProbe(ChildProbe):
    """A probe whose child gave this name, or raised this error."""

    def __init__(self, answer: str | Exception) -> None:
        self._answer = answer

    def result(self, limit_s: float = 0.0) -> str:  # noqa: ARG002
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("probe", "initialized", "policy"),
    [
        (None, False, ForkPolicy(forks=True)),
        (FakeProbe(""), False, ForkPolicy(forks=True)),
        (FakeProbe("H100"), False, ForkPolicy(forks=True, accelerator="H100")),
    ],
)
def test_runs_are_forked_without_a_gpu_and_with_one_that_children_can_use(
    probe: ChildProbe | None, initialized: bool, policy: ForkPolicy
) -> None:
    assert choose_policy(probe, lambda: initialized) == policy


def test_the_reason_for_not_forking_is_kept() -> None:
    failed = choose_policy(FakeProbe(RuntimeError("CUDA error: initialization error")), lambda: False)
    assert (failed.forks, "initialization error" in failed.problem) == (False, True)
    initialized = choose_policy(FakeProbe("H100"), lambda: True)
    assert (initialized.forks, initialized.accelerator) == (False, "H100")
    assert "initialized CUDA" in initialized.problem


def test_a_probe_returns_the_result_of_a_child_or_its_error() -> None:
    assert ChildProbe(lambda: ["x", os.getpid()]).result() != ["x", os.getpid()]
    assert ChildProbe(lambda: "x" * 300_000).result() == "x" * 300_000, "more than a pipe holds"
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        ChildProbe(lambda: 1 / 0).result()
    with pytest.raises(RuntimeError, match="SystemExit: 3"):
        ChildProbe(lambda: sys.exit(3)).result()
    with pytest.raises(RuntimeError, match="status -9"):
        ChildProbe(lambda: os.kill(os.getpid(), signal.SIGKILL)).result()
    with pytest.raises(RuntimeError, match="no answer"):
        ChildProbe(lambda: time.sleep(60)).result(0.01)


def test_the_environment_of_the_user_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (None, "0"):
        monkeypatch.delenv(NVML_CHECK, raising=False)
        if value is not None:
            monkeypatch.setenv(NVML_CHECK, value)
        check = NvmlCheck()
        assert os.environ[NVML_CHECK] == "1"
        check.undo()
        assert os.environ.get(NVML_CHECK) == value


def test_a_copy_runs_parallel_regions_as_the_process_does():
    """OpenMP would wait for threads that the copy does not have. The settings are those of the process."""
    torch = pytest.importorskip("torch")
    convolution, images = torch.nn.Conv2d(64, 64, 1), torch.randn(8, 64, 32, 32)

    def work() -> list[float]:
        convolution.zero_grad()
        convolution(images).sum().backward()
        solved = torch.linalg.solve(torch.eye(700) + 0.01, torch.ones(700, 3))
        settings = torch._dynamo.config.recompile_limit, torch.get_num_threads(), torch.is_inference_mode_enabled()
        return [convolution.weight.grad.sum().item(), solved.sum().item(), *settings]

    with torch._dynamo.config.patch(recompile_limit=3):
        expected = work()
        assert expected[2] == 3
        assert call_in_copy(work, 20.0) == pytest.approx(expected)
    assert work()[:2] == pytest.approx(expected[:2]), "the threads start again"
