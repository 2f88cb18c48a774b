"""torch's structured trace, live and in-process: a handler of the logger `torch.__trace`."""

from __future__ import annotations

import logging
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from tcexplore.capture.hooks import Hooks
from tcexplore.events.base import join_compile_id

FACT = "structured trace"
_LOGGER = "torch.__trace"
_WRITER = "trace_structured"
_ALWAYS_WRITTEN = ("str",)
"""File names, to which other trace events refer by number."""


class TraceEvent(NamedTuple):
    """One event of the structured trace."""

    name: str
    """The kind of event; for an artifact, the artifact's name."""
    meta: Any
    payload: str | None
    graph: str | None
    """The compile id (`0/0`), None outside a compile."""
    attempt: int


Subscriber = Callable[[TraceEvent], None]


class StructuredTrace(logging.Handler):
    """Log handler that passes each event of the structured trace to the subscribers of its name."""

    def __init__(self, hooks: Hooks) -> None:
        super().__init__(logging.DEBUG)
        self.hooks = hooks
        self.strings: dict[int, str] = {}
        """torch's table of interned strings: stacks refer to file names by these ids."""
        self._subscribers: dict[str, list[tuple[str, Subscriber]]] = defaultdict(list)
        self._filter = TraceFilter(self, self._subscribers)

    def subscribe(self, fact: str, name: str, subscriber: Subscriber) -> None:
        """Call `subscriber` for each event named `name`; `fact` is reported as missing if it fails."""
        self._subscribers[name].append((fact, subscriber))

    def install(self) -> None:
        """Insert this handler as the logger's first one.

        torch's own lazy handler removes itself during the first event, so a handler after it would miss that event.
        """
        logger = logging.getLogger(_LOGGER)
        logger.handlers.insert(0, self)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        self.filter_unused()

    def filter_unused(self) -> None:
        """Skip events without a subscriber in all torch modules, including those loaded since the last call."""
        self._filter.install(self.hooks)

    def remove(self) -> None:
        """Remove this handler from the logger."""
        logging.getLogger(_LOGGER).removeHandler(self)

    def handle(self, record: logging.LogRecord) -> bool:
        metadata: Mapping[str, Any] = getattr(record, "metadata", {})
        if "str" in metadata:
            text, key = metadata["str"]
            self.strings[key] = text
            return True
        kind = next(iter(metadata), "")
        name = metadata[kind]["name"] if kind == "artifact" else kind
        for fact, subscriber in self._subscribers.get(name, ()):
            self.hooks.observe(fact, f"{_LOGGER}:{name}", subscriber, self._event(name, kind, metadata, record))
        return True

    @staticmethod
    def _event(name: str, kind: str, metadata: Mapping[str, Any], record: logging.LogRecord) -> TraceEvent:
        payload: str | None = getattr(record, "payload", None)
        return TraceEvent(
            name, metadata[kind], payload, join_compile_id(metadata) or None, metadata.get("attempt") or 0
        )


class TraceFilter:
    """Filter of trace events without a subscriber, so that torch does not format their texts.

    It is active only while `handler` is the trace's only handler. `names` are the names with a subscriber.
    """

    def __init__(self, handler: logging.Handler, names: Collection[str]) -> None:
        self._only_handler = [handler]
        self._names = names
        self._logger = logging.getLogger(_LOGGER)
        self._original: Callable[..., None] | None = None

    def install(self, hooks: Hooks) -> None:
        """Replace `trace_structured` in every torch module that imported it by name."""
        if self._original is None:
            self._original = getattr(sys.modules.get("torch._logging"), _WRITER, None)
        for name, module in list(sys.modules.items()):
            if self._original is not None and name.startswith("torch.") and vars(module).get(_WRITER) is self._original:
                hooks.wrap(FACT, f"{name}:{_WRITER}", self._filtered)

    def _filtered(self, original: Callable[..., None]) -> Callable[..., None]:
        def trace_structured(name: str, *args: Any, **kwargs: Any) -> None:
            if self._logger.handlers != self._only_handler or self._has_subscriber(name, *args, **kwargs):
                original(name, *args, **kwargs)

        return trace_structured

    def _has_subscriber(self, name: str, metadata_fn: Callable[[], Any] = dict, **_: Any) -> bool:
        if name == "artifact":
            name = metadata_fn()["name"]
        return name in _ALWAYS_WRITTEN or name in self._names
