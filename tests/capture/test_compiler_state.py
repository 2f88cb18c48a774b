"""The settings of a compile that have not their default are recorded, with those of its mode."""

from __future__ import annotations

import pytest

from tcexplore.events import CompilerState, FactMissing


@pytest.mark.torch
def test_settings_and_libraries_of_a_compile() -> None:
    import torch
    from torch._inductor import config

    from tcexplore.capture.inductor import compiler_state
    from tests.capture import compiling

    inputs = (torch.ones(64),)
    with (
        config.patch({"max_fusion_size": 3, "cpp.simdlen": 0}),
        compiling.watching(__file__, modules=(compiler_state,)) as events,
    ):
        compiling.compiled(lambda x: x.relu() + 1, inputs, code_only=True)
        compiling.compiled(lambda x: x.sin() + 1, inputs, code_only=True)
    assert [event for event in events if isinstance(event, FactMissing)] == []
    (state,) = (event for event in events if isinstance(event, CompilerState))
    changed = {setting.name: (setting.value, setting.default) for setting in state.settings}
    assert changed["torch._inductor.config.max_fusion_size"] == ("3", "64")
    assert changed["torch._inductor.config.cpp.simdlen"] == ("0", "None")
    assert "torch._inductor.config.split_reductions" in dict(state.defaults)
    own = {"torch._inductor.config.fx_graph_cache", "torch._inductor.config.trace.provenance_tracking_level"}
    assert not own & {*changed, *dict(state.defaults)}
    assert dict(state.libraries)["vector instructions"]
    assert state.torch == torch.__version__
