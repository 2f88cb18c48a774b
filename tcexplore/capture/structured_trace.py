"""torch's structured trace, live and in-process: a handler on the logger `torch.__trace`."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.trace_filter import Unheard


class TraceEvent(NamedTuple):
    """One structured-trace event: `name` (an artifact's own name where it is one), its metadata, its payload text,
    the compile id it belongs to (`0/0`, None outside a compile) and the attempt."""

    name: str
    meta: Any
    payload: str | None
    graph: str | None
    attempt: int


Subscriber = Callable[[TraceEvent], None]


class StructuredTrace(logging.Handler):
    """Hands each structured-trace event to those that subscribed to its name."""

    def __init__(self, hooks: Hooks) -> None:
        super().__init__(logging.DEBUG)
        self.hooks = hooks
        self.strings: dict[int, str] = {}
        """torch's table of interned strings: file names in stacks are ids into it."""
        self._subscribers: dict[str, list[tuple[str, Subscriber]]] = defaultdict(list)

    def subscribe(self, fact: str, name: str, subscriber: Subscriber) -> None:
        """Call `subscriber` for each event named `name`; `fact` is what is missing should it fail."""
        self._subscribers[name].append((fact, subscriber))

    def install(self) -> None:
        """Listen. First in the list: torch's own lazy handler removes itself during the first event, and a handler
        behind it would miss that one."""
        logger = logging.getLogger("torch.__trace")
        logger.handlers.insert(0, self)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        Unheard(self, self._subscribers).install(self.hooks)

    def remove(self) -> None:
        """Listen no more."""
        logging.getLogger("torch.__trace").removeHandler(self)

    def handle(self, record: logging.LogRecord) -> bool:
        metadata: Mapping[str, Any] = getattr(record, "metadata", {})
        if "str" in metadata:
            text, key = metadata["str"]
            self.strings[key] = text
            return True
        kind = next(iter(metadata), "")
        name = metadata[kind]["name"] if kind == "artifact" else kind
        for fact, subscriber in self._subscribers.get(name, ()):
            self.hooks.guarded(fact, f"torch.__trace:{name}", subscriber, self._event(name, kind, metadata, record))
        return True

    @staticmethod
    def _event(name: str, kind: str, metadata: Mapping[str, Any], record: logging.LogRecord) -> TraceEvent:
        payload: str | None = getattr(record, "payload", None)
        return TraceEvent(name, metadata[kind], payload, _compile_id(metadata), metadata.get("attempt") or 0)


def _compile_id(metadata: Mapping[str, Any]) -> str | None:
    """As torch writes it: `0/0`, and `!0/4/0` for what compiled autograd has compiled."""
    frame, compile_ = metadata.get("frame_id"), metadata.get("frame_compile_id")
    if frame is None or compile_ is None:
        return None
    backward = metadata.get("compiled_autograd_id")
    return f"{frame}/{compile_}" if backward is None else f"!{backward}/{frame}/{compile_}"
