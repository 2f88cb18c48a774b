"""The reasons of graph breaks, from the fields of Dynamo's messages."""

from __future__ import annotations

from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from tcexplore.capture.hooks import Hooks
from tcexplore.torch_text.break_text import AND_THEN, Reason, parse_reason


class Reasons:
    """Records the fields from which torch composes each message, to look up an exception's reasons by its text."""

    _by_hooks: ClassVar[WeakKeyDictionary[Hooks, Reasons]] = WeakKeyDictionary()

    def __init__(self, hooks: Hooks) -> None:
        self._by_message: dict[str, Reason] = {}
        hooks.watch("graph break fields", "torch._dynamo.exc:format_graph_break_message", after=self._composed)

    @classmethod
    def of_hooks(cls, hooks: Hooks) -> Reasons:
        """Return the one observer of these hooks."""
        if hooks not in cls._by_hooks:
            cls._by_hooks[hooks] = cls(hooks)
        return cls._by_hooks[hooks]

    def _composed(self, message: str, gb_type: str, context: str, explanation: str, hints: list[str]) -> None:
        self._by_message[message] = Reason(gb_type, explanation.strip(), tuple(hints), context.strip())

    def of_error(self, error: Any) -> tuple[Reason, ...]:
        """Return the reasons of an `Unsupported` or `UserError`: first the graph break, then its consequences."""
        message: str = getattr(error, "msg", None) or str(error)
        parts = AND_THEN.split(message)
        last_kind = getattr(error, "gb_type", None) or type(error).__name__
        return tuple(
            self._by_message.get(part) or parse_reason(part, last_kind if n == len(parts) else "")
            for n, part in enumerate(parts, 1)
        )
