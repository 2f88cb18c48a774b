"""A graph break's reason in plain words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tcexplore.capture.dynamo.unsupported import Reason

_QUOTED = re.compile(r"`([^`]+?)\.?`")

_SAID = {
    "Data-dependent branching": (
        "Which way this branch goes depends on the values in a tensor, and those are not known while Dynamo traces."
    ),
    "Data-dependent branching with non-constant __bool__": (
        "Which way this branch goes depends on an object whose truth is not known while Dynamo traces."
    ),
    "Data-dependent assertion failed (cannot compile partial graph)": (
        "This assertion depends on the values in a tensor, and those are not known while Dynamo traces."
    ),
    "Unsupported Tensor.item() call with capture_scalar_outputs=False": (
        "`.item()` makes a Python number of a tensor's value, which is not known while Dynamo traces."
    ),
    "Tensor.tolist() with non-integer tensor": (
        "`.tolist()` makes Python numbers of a tensor's values, which are not known while Dynamo traces."
    ),
    "Dynamic shape operator": "The shape of this op's result depends on the values in its input.",
    "Dynamic shape operator (no meta kernel)": "The shape of this op's result depends on the values in its input.",
    "Data dependent operator": "The result of this op is a Python value that depends on the values in a tensor.",
    "Call to `torch._dynamo.graph_break()`": "The code itself asks for a graph break here.",
    "Skip calling `torch.compiler.disable()`d function": (
        "This calls a function that `torch.compiler.disable` keeps out of compiling."
    ),
    "Unsupported Tensor.backward() call": "Dynamo does not trace `.backward()` unless it is told to.",
    "Call to a time function": "Dynamo does not trace calls that ask for the time.",
    "Dynamo recompile limit exceeded": (
        "It was compiled as often as the limit allows: calls that no compiled version fits run as plain Python."
    ),
    "Unsupported context manager": "Dynamo cannot trace this context manager.",
}

_SAID_OF = {
    "Failed to trace builtin operator": "Dynamo cannot trace Python's builtin `{0}` with these arguments.",
    "Attempted to call function marked as skipped": "Dynamo does not trace into `{0}`.",
    "Unsupported method call": "Dynamo cannot trace the method `{0}` of `{1}`.",
}
"""The braces stand for what torch's explanation puts in backquotes, in order."""

_FOLLOWED = {
    "graph break in loop": "It is inside a loop, where Dynamo cannot break the graph.",
    "Graph break under GenericContextWrappingVariable": (
        "It is inside a `with` block that Dynamo cannot leave half way."
    ),
}

_CONSEQUENCES = {
    "Encountered graph break that we cannot resume from": (
        "Dynamo cannot go on from here: the rest of the function runs as plain Python."
    ),
    "Failed to handle graph break gracefully": "The whole function runs as plain Python.",
}


def plain_reason(reason: Reason, followed: Sequence[Reason] = (), logged: str = "") -> str:
    """A sentence on why, and more where the graph does not simply go on behind the break.

    `followed` are the further reasons that torch gave while it handled the break; `logged` is its log message. A kind
    that has no sentence here is given by torch's own name.
    """
    circumstances = [_FOLLOWED[other.kind] for other in followed if other.kind in _FOLLOWED]
    consequences = [said for start, said in _CONSEQUENCES.items() if logged.startswith(start)]
    return " ".join([_why(reason), *circumstances, *consequences])


def _why(reason: Reason) -> str:
    template, names = _SAID_OF.get(reason.kind), _QUOTED.findall(reason.explanation)
    if template and len(names) > template.count("{") - 1:
        return template.format(*names)
    return _SAID.get(reason.kind, reason.kind.rstrip(".") + ".")
