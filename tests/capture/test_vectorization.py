"""Vectorization of C++ loops, and the reason for scalar ones."""

from __future__ import annotations

import pytest
import torch

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor import vectorization
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.documents.code.target_notes import describe_loops
from tcexplore.events import Job, Kernel, LoopVectorized
from tcexplore.session.kernel_facts import kernel_loops
from tcexplore.session.snapshot import start_snapshot
from tests.capture.compiling import compiled, watching

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.relu(x) * 2, x.to(torch.int16) + 1, x.t().contiguous() + 3


def loops_by_form(**options: object) -> dict[str, LoopVectorized]:
    """Return the loop nests of the model by their form."""
    with watching(__file__, traced=False) as events:
        hooks = Hooks(events.append)
        vectorization.install(hooks, StructuredTrace(hooks), UserFiles(__file__))
        try:
            with torch._inductor.config.patch(options):
                compiled(model, (torch.randn(64, 128),))
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
    forms = loops_by_form(**{"cpp.simdlen": 1})
    assert forms.keys() == {"scalar"}
    assert forms["scalar"].isa == ""
    assert "cpp.simdlen = 1" in describe_loops(list(forms.values()))
