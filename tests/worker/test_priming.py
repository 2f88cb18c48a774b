"""A fork server only imports, and a child process tests what its children may do."""

from __future__ import annotations

import ast
import gc
import subprocess
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
    import torch

    from tcexplore.worker import priming

    primed: list[bool] = []
    monkeypatch.setattr(priming, "compile_tiny_model", lambda *_, backward=False: primed.append(backward))
    monkeypatch.setattr(gc, "freeze", lambda: None)
    threads = torch.get_num_threads()
    for survives in (True, False):
        monkeypatch.setattr(priming, "backward_survives_fork", lambda answer=survives: answer)
        priming.prime_fork_server()
    torch.set_num_threads(threads)
    assert primed == [False, True, False]


IMPORTS = """\
import os, sys
from tcexplore.worker.loading import load
from tcexplore.worker import priming
worker = load(forks=True)
for _ in priming.import_steps(accelerated=True):
    pass
import torch
assert worker.policy.forks and worker.policy.device == worker.standby.device
assert not torch.cuda.is_initialized()
assert len(os.listdir("/proc/self/task")) <= 2, "a thread of torch runs"
from torch._dynamo.utils import counters
assert not counters["frames"], "something was compiled"
before = set(sys.modules)
priming.compile_tiny_model("cpu")
compiler = ("torch._inductor.", "torch._dynamo.", "torch._functorch.")
late = [module for module in set(sys.modules) - before if module.startswith(compiler)]
late = [module for module in late if not any(part in module for part in ("serialized_", "compile_tasks", "codegen"))]
print(sorted(late))
"""


def test_the_fork_server_imports_all_that_a_compile_needs_without_compiling() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    late = ast.literal_eval(done.stdout.splitlines()[-1])
    assert len(late) <= 10, late
