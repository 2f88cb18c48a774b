"""Why torch gave up an attempt to trace a frame and began again, from the reason in its compilation metrics."""

from __future__ import annotations

import re

from tcexplore.torch_text.break_text import AND_THEN, explain_reason, parse_reason

TENSORIFY = "TensorifyScalarRestartAnalysis"
_CLASS = re.compile(r"^<class '[\w.]*?(\w+)'>$")
_SENTENCES = {
    TENSORIFY: "A float argument becomes a constant: Inductor cannot compute with it as a tensor.",
    "UnspecializeRestartAnalysis": "An attribute of a module that was taken as a constant has changed.",
    "CompileCollectiveRestartAnalysis": "The ranks have exchanged the sizes of their inputs.",
    "AutogradGradRestartAnalysis": "A call of `autograd.grad` used up the gradients of values that are returned.",
    "RequiresGradRestartAnalysis": "A value that `requires_grad_()` made inside the graph is returned.",
}


def restart_kind(reason: str) -> str:
    """Return torch's name of the reason: that of a graph break, or the class of the restart."""
    known = _CLASS.match(reason.strip())
    return known[1] if known else parse_reason(AND_THEN.split(reason)[0]).kind


def explain_restart(reason: str) -> str:
    """Return a sentence on the reason."""
    kind = restart_kind(reason)
    if kind in _SENTENCES:
        return _SENTENCES[kind]
    first, *further = (parse_reason(part) for part in AND_THEN.split(reason))
    return f"{kind}." if _CLASS.match(reason.strip()) else explain_reason(first, further)
