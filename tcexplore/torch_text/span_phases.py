"""Phases of a run by the names of torch's spans."""

from __future__ import annotations

from tcexplore.events import Phase

PHASE_OF: dict[str, Phase] = {
    "dynamo": "dynamo",
    "entire_frame_compile": "dynamo",
    "backend_compile": "dynamo",
    "create_aot_dispatcher_function": "aot",
    "inductor_compile": "inductor",
    "fx_codegen_and_compile": "inductor",
    "async_compile.wait": "compiler",
    "compile_file": "compiler",
    "entire_backward_compile": "backward",
}
"""Phases by the torch spans that open them; any other span belongs to the enclosing phase."""
