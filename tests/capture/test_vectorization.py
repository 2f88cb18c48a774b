"""Vectorization of C++ loops, and the reason for scalar ones."""

from __future__ import annotations

import contextlib
import functools
import threading

import pytest
import torch
from torch._inductor import cpu_vec_isa

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor import vector_probe, vectorization
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.documents.code.target_notes import describe_loops
from tcexplore.events import Job, Kernel, LoopVectorized
from tcexplore.session.kernel_facts import kernel_loops
from tcexplore.session.snapshot import start_snapshot
from tcexplore.worker.priming import vector_steps
from tests.capture.compiling import compiled, no_gpu, watching

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.relu(x) * 2, x.to(torch.int16) + 1, x.t().contiguous() + 3


def loops_by_form(simdlen: int | None = None, *, code_only: bool = True) -> dict[str, LoopVectorized]:
    """Return the loop nests of the model by their form."""
    stopped = no_gpu.stop_after_codegen() if code_only else contextlib.nullcontext()
    with stopped, watching(__file__, traced=False) as events:
        hooks = Hooks(events.append)
        for module in (vectorization, vector_probe):
            module.install(hooks, StructuredTrace(hooks), UserFiles(__file__))
        try:
            with torch._inductor.config.patch({"cpp.simdlen": simdlen}):
                compiled(model, (torch.randn(64, 128),), code_only=code_only)
        finally:
            hooks.remove()
    snapshot = start_snapshot(Job(run=0, file=__file__, source=""))
    for event in events:
        snapshot = snapshot.apply(event)
    kernels = [event for event in events if isinstance(event, Kernel)]
    by_kernel = [loop for kernel in kernels for loop in kernel_loops(snapshot.code, kernel)]
    assert {loop.nodes for loop in by_kernel} == {loop.nodes for loop in snapshot.code.vectorized}, (
        "each loop has a kernel"
    )
    return {loop.form + (" int16" if "int16" in loop.reason else ""): loop for loop in by_kernel}


def test_tiles_and_the_reason_for_a_scalar_loop():
    forms = loops_by_form()
    if not next(iter(forms.values())).isa:
        pytest.skip("torch has no vector instructions for this machine")
    assert {"tiles", "scalar int16"} <= forms.keys()
    assert "vectors of int16" in describe_loops([forms["scalar int16"]])
    tiles = forms["tiles"]
    assert tiles.width == tiles.lanes * 32
    assert "transposed tiles" in describe_loops([tiles])


def test_without_vector_instructions_the_reason_names_the_setting():
    forms = loops_by_form(simdlen=1)
    assert forms.keys() == {"scalar"}
    assert forms["scalar"].isa == ""
    assert "cpp.simdlen = 1" in describe_loops(list(forms.values()))


def test_torch_tests_its_vector_instructions_in_a_thread_and_the_compile_waits_for_it(monkeypatch: pytest.MonkeyPatch):
    threads: list[str] = []
    known = cpu_vec_isa.valid_vec_isa_list()

    @functools.cache
    def valid_vec_isa_list() -> object:
        threads.append(threading.current_thread().name)
        return known

    monkeypatch.setattr(cpu_vec_isa, "valid_vec_isa_list", valid_vec_isa_list)
    forms = loops_by_form(code_only=False)
    assert threads == ["vector probe"]
    assert cpu_vec_isa.valid_vec_isa_list is valid_vec_isa_list
    loops_by_form(code_only=False)
    assert len(threads) == 1, "a known result is not tested again"
    assert "scalar int16" in forms


def test_a_server_that_only_imports_tests_each_set_of_vector_instructions_in_a_step():
    if not cpu_vec_isa.valid_vec_isa_list():
        pytest.skip("torch has no vector instructions for this machine")
    steps = sum(1 for _ in vector_steps())
    assert steps >= len(cpu_vec_isa.valid_vec_isa_list())
