"""The reason of a graph break: the fields of Dynamo's message, a plain sentence, and torch's registry of breaks."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

AND_THEN = re.compile(r"\n\n\*\*\* While handling this graph break, another graph break occurred: \*\*\*\n\n")
OBSERVED_EXCEPTION, LIMIT_EXCEEDED = "Observed exception", "Dynamo recompile limit exceeded"
NOT_BREAKS = frozenset({OBSERVED_EXCEPTION, LIMIT_EXCEEDED})
"""The first is an exception that the user's own code raised; the second is a skipped frame, which has its own event."""

_EXPLANATION = re.compile(r"^  Explanation: (.*?)(?=^  Hint: |^\s*Developer debug context:|\Z)", re.M | re.S)
_HINT = re.compile(r"^  Hint: (.*?)(?=^  Hint: |^\s*Developer debug context:|\Z)", re.M | re.S)
_CONTEXT = re.compile(r"^  Developer debug context: (.*?)(?=^\s*For more details|\Z)", re.M | re.S)
_QUOTED = re.compile(r"`([^`]+?)\.?`")


class Reason(NamedTuple):
    """Why Dynamo broke the graph."""

    kind: str
    """torch's `gb_type`."""
    explanation: str
    hints: tuple[str, ...]
    context: str


def parse_reason(message: str, kind: str = "") -> Reason:
    """Read the fields from the text of a message. `kind` defaults to its first line."""
    explanation, context = _EXPLANATION.search(message), _CONTEXT.search(message)
    headline = message.strip().splitlines()[0] if message.strip() else ""
    return Reason(
        kind or headline,
        _unindent(explanation.group(1)) if explanation else message.strip(),
        tuple(map(_unindent, _HINT.findall(message))),
        _unindent(context.group(1)) if context else "",
    )


def _unindent(text: str) -> str:
    """Return a field of a message without torch's indentation of its further lines."""
    return "\n".join(line.removeprefix("    ").rstrip() for line in text.strip().splitlines())


_SENTENCES = {
    "Data-dependent branching": (
        "This branch depends on the values in a tensor, which are unknown while Dynamo traces."
    ),
    "Data-dependent branching with non-constant __bool__": (
        "This branch depends on an object whose truth value is unknown while Dynamo traces."
    ),
    "Data-dependent assertion failed (cannot compile partial graph)": (
        "This assertion depends on the values in a tensor, which are unknown while Dynamo traces."
    ),
    "Unsupported Tensor.item() call with capture_scalar_outputs=False": (
        "`.item()` converts a tensor's value, which is unknown while Dynamo traces, to a Python number."
    ),
    "Tensor.tolist() with non-integer tensor": (
        "`.tolist()` converts a tensor's values, which are unknown while Dynamo traces, to Python numbers."
    ),
    "Dynamic shape operator": "The shape of this op's result depends on the values in its input.",
    "Dynamic shape operator (no meta kernel)": "The shape of this op's result depends on the values in its input.",
    "Data dependent operator": "The result of this op is a Python value that depends on the values in a tensor.",
    "Call to `torch._dynamo.graph_break()`": (
        "This line, or a function that it calls, asks for a graph break: `torch._dynamo.graph_break()`. The `step` of "
        "torch's optimizers does."
    ),
    "Skip calling `torch.compiler.disable()`d function": (
        "This calls a function that `torch.compiler.disable` excludes from compiling."
    ),
    "Unsupported Tensor.backward() call": "By default, Dynamo does not trace `.backward()`.",
    "Call to a time function": "Dynamo does not trace calls that read the clock.",
    "Dynamo recompile limit exceeded": (
        "The recompile limit is reached: calls that match no compiled version run as plain Python."
    ),
    "Unsupported context manager": "Dynamo cannot trace this context manager.",
}

_TEMPLATES = {
    "Failed to trace builtin operator": "Dynamo cannot trace Python's builtin `{0}` with these arguments.",
    "Attempted to call function marked as skipped": "Dynamo does not trace into `{0}`.",
    "Unsupported method call": "Dynamo cannot trace the method `{0}` of `{1}`.",
}
"""Sentences with the names that torch's explanation puts in backquotes, in order."""

_CIRCUMSTANCES = {
    "graph break in loop": "It is inside a loop, where Dynamo cannot break the graph.",
    "Graph break under GenericContextWrappingVariable": "It is inside a `with` block that Dynamo cannot leave.",
}

_CONSEQUENCES = {
    "Encountered graph break that we cannot resume from": (
        "Dynamo cannot resume from here: the rest of the function runs as plain Python."
    ),
    "Failed to handle graph break gracefully": "The whole function runs as plain Python.",
}


def explain_reason(reason: Reason, further: Sequence[Reason] = (), logged: str = "") -> str:
    """Return a sentence on the reason, with more if the graph does not simply resume after the break.

    `further` are the reasons that torch gave while it handled the break, `logged` is its log message. A kind without
    a sentence is described by torch's name.
    """
    circumstances = [_CIRCUMSTANCES[other.kind] for other in further if other.kind in _CIRCUMSTANCES]
    consequences = [sentence for start, sentence in _CONSEQUENCES.items() if logged.startswith(start)]
    return " ".join([_explain_kind(reason), *circumstances, *consequences])


def _explain_kind(reason: Reason) -> str:
    template, names = _TEMPLATES.get(reason.kind), _QUOTED.findall(reason.explanation)
    if template and len(names) >= template.count("{"):
        return template.format(*names)
    return _SENTENCES.get(reason.kind, reason.kind.rstrip(".") + ".")


_EXPRESSION = re.compile(r'^[\w.]+$|^f?"|" \+ ')


class RegistryEntry(NamedTuple):
    """The registry's id, explanation and hints for one kind of graph break."""

    id: str
    explanation: str
    hints: tuple[str, ...]


@functools.cache  # a process that forks runs parses it once for all of them
def read_registry(torch_folder: str) -> dict[str, RegistryEntry]:
    """Return the entries by `gb_type`. Raise OSError or ValueError if the file is not readable."""
    path = os.path.join(torch_folder, "_dynamo", "graph_break_registry.json")
    with open(path, encoding="utf-8") as file:
        registry: dict[str, list[dict[str, Any]]] = json.load(file)
    # A kind may have several ids; torch's own links use the last one.
    return {version["Gb_type"]: _entry(id_, versions) for id_, versions in registry.items() for version in versions}


def _entry(id_: str, versions: list[dict[str, Any]]) -> RegistryEntry:
    """Return the newest version, which comes first, unless its explanation is a Python expression."""
    readable = [version for version in versions if not _EXPRESSION.search(version["Explanation"])]
    hints = _join_hints((readable or versions)[0]["Hints"])
    return RegistryEntry(id_, readable[0]["Explanation"] if readable else "", hints)


def _join_hints(pieces: list[str]) -> tuple[str, ...]:
    """Return whole hints: the registry cuts a long hint after a space, where torch's source breaks the string."""
    return tuple(filter(None, "".join(p if p.endswith(" ") else p + "\n" for p in pieces).split("\n")))
