"""The device view: each kernel on the device, from the bound of the hardware down to machine code."""

from __future__ import annotations

from collections.abc import Callable

from tcexplore import events as ev
from tcexplore.documents.code.autotuning_view import autotuning_document
from tcexplore.documents.code.resources_view import resources_section
from tcexplore.documents.code.roofline_view import roofline_section
from tcexplore.documents.code.stages_view import stages_section
from tcexplore.documents.code.target_notes import (
    LOCAL_CODE_LATER,
    awaits_local_code,
    format_progress,
    is_assembled,
    target_rows,
)
from tcexplore.documents.document import Parts, fixed
from tcexplore.documents.empty_states import empty_part
from tcexplore.documents.prose import BLANK, fold
from tcexplore.keymap import hint
from tcexplore.session import Snapshot
from tcexplore.targets.target_names import NATIVE

EMPTY_TEXT = (
    "GPU only: {} picks a target, which need not be present. Then each kernel has its roofline, resources and stages "
    "here: Triton, TTIR, TTGIR, LLVM IR, PTX and SASS (AMDGCN for AMD). --assembly shows that of C++ kernels."
)


def _autotuning(snapshot: Snapshot, toggled: frozenset[str], width: int) -> Parts:
    return autotuning_document(snapshot, toggled, width) if snapshot.autotuned else Parts("", [])


SECTIONS: dict[str, Callable[[Snapshot, frozenset[str], int], Parts]] = {
    "roofline": roofline_section, "resources": resources_section, "autotuning": _autotuning, "stages": stages_section,
}  # fmt: skip
"""In the order from a kernel's bound to its instructions."""


def device_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """Return the document of the view: the sections that have something to say of the run."""
    parts, titles = [fixed(target_rows(snapshot, toggled, width))], []
    for name, build in SECTIONS.items():
        section = build(snapshot, toggled, width)
        if not len(section):
            continue
        closed = f"device {name}" in toggled
        heading = fold(f"device {name}", not closed, (name, "heading"), (f"  {section.title}", "muted"), indent=0)
        parts += [fixed([heading]), *(() if closed else (*section.parts, fixed([BLANK])))]
        titles.append(name)
    if not titles:
        text = EMPTY_TEXT.format(hint("target"))
        if snapshot.target != NATIVE and not is_assembled(snapshot):
            text = f"Under way for {format_progress(snapshot)}."
        elif awaits_local_code(snapshot):
            text = LOCAL_CODE_LATER
        parts.append(empty_part(snapshot, width, text, ev.RunFact.MACHINE_CODE))
    return Parts(" · ".join(titles), parts)
