"""What Dynamo's `Unsupported` says, in fields: they are noted when torch composes the message out of them."""

from __future__ import annotations

import re
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

from tcexplore.capture.hooks import Hooks

_AND_THEN = re.compile(r"\n\n\*\*\* While handling this graph break, another graph break occurred: \*\*\*\n\n")
_EXPLANATION = re.compile(r"^  Explanation: (.*?)(?=^  Hint: |^\s*Developer debug context:|\Z)", re.M | re.S)
_HINT = re.compile(r"^  Hint: (.*?)(?=^  Hint: |^\s*Developer debug context:|\Z)", re.M | re.S)
_CONTEXT = re.compile(r"^  Developer debug context: (.*?)(?=^\s*For more details|\Z)", re.M | re.S)


class Reason(NamedTuple):
    """Why Dynamo could not go on. `kind` is torch's `gb_type`."""

    kind: str
    explanation: str
    hints: tuple[str, ...]
    context: str


class Reasons:
    """Remembers the fields of each message, so that an exception's reasons are found by its text."""

    _watching: ClassVar[WeakKeyDictionary[Hooks, Reasons]] = WeakKeyDictionary()

    def __init__(self, hooks: Hooks) -> None:
        self._by_message: dict[str, Reason] = {}
        hooks.watch("graph break fields", "torch._dynamo.exc:format_graph_break_message", after=self._compose)

    @classmethod
    def watching(cls, hooks: Hooks) -> Reasons:
        """The one observer of these hooks, shared by all that ask for reasons."""
        if hooks not in cls._watching:
            cls._watching[hooks] = cls(hooks)
        return cls._watching[hooks]

    def _compose(self, message: str, gb_type: str, context: str, explanation: str, hints: list[str]) -> None:
        self._by_message[message] = Reason(gb_type, explanation.strip(), tuple(hints), context.strip())

    def of(self, error: Any) -> tuple[Reason, ...]:
        """The reasons of an `Unsupported` or `UserError`: the graph break itself first, then what followed from it."""
        message: str = getattr(error, "msg", None) or str(error)
        parts = _AND_THEN.split(message)
        last = getattr(error, "gb_type", None) or type(error).__name__
        return tuple(
            self._by_message.get(part) or parse_reason(part, last if n == len(parts) else "")
            for n, part in enumerate(parts, 1)
        )


def parse_reason(message: str, kind: str = "") -> Reason:
    """The same from text alone, for a message that was not composed from fields; `kind` defaults to the first line."""
    explanation, context = _EXPLANATION.search(message), _CONTEXT.search(message)
    headline = message.strip().splitlines()[0] if message.strip() else ""
    return Reason(
        kind or headline,
        _flat(explanation.group(1)) if explanation else message.strip(),
        tuple(map(_flat, _HINT.findall(message))),
        _flat(context.group(1)) if context else "",
    )


def _flat(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())
