"""torch formats the texts of the structured trace only for events with a subscriber."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest

pytest.importorskip("torch")

import torch._logging

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace, TraceEvent
from tcexplore.events import Event

pytestmark = pytest.mark.torch


_LOG = logging.getLogger("torch.__trace")


@contextmanager
def _only_handler() -> Iterator[StructuredTrace]:
    """A trace that is the logger's only handler, without pytest's."""
    events: list[Event] = []
    hooks = Hooks(events.append)
    trace = StructuredTrace(hooks)
    trace.install()
    with mock.patch.object(_LOG, "handlers", [trace]):
        yield trace
    trace.remove()
    hooks.remove()
    assert events == []


def _is_formatted(name: str, artifact: str = "") -> bool:
    """Return whether torch formats the text of an event."""
    calls: list[str] = []

    def text() -> str:
        calls.append(name)
        return "text"

    metadata = {"name": artifact, "encoding": "string"} if artifact else {}
    torch._logging.trace_structured(name, metadata_fn=lambda: metadata, payload_fn=text, expect_trace_id=False)
    return bool(calls)


def test_only_events_with_a_subscriber_are_formatted() -> None:
    received: list[TraceEvent] = []
    with _only_handler() as trace:
        assert not _is_formatted("graph_text")
        trace.subscribe("fact", "graph_text", received.append)
        trace.subscribe("fact", "cache_miss", received.append)
        assert _is_formatted("graph_text")
        assert _is_formatted("artifact", "cache_miss")
        assert not _is_formatted("artifact", "cache_hit")
    assert [(event.name, event.payload) for event in received] == [("graph_text", "text"), ("cache_miss", "text")]


def test_file_names_are_interned() -> None:
    with _only_handler() as trace:
        torch._logging.trace_structured("str", lambda: ("model.py", 7), expect_trace_id=False)
    assert trace.strings[7] == "model.py"


def test_another_handler_gets_every_event() -> None:
    with _only_handler():
        _LOG.handlers.append(logging.NullHandler())
        assert _is_formatted("graph_text")
        _LOG.handlers.pop()
        assert not _is_formatted("graph_text")


def test_removal_restores_torchs_function() -> None:
    original = torch._logging.trace_structured
    hooks = Hooks(lambda _: None)
    trace = StructuredTrace(hooks)
    trace.install()
    assert torch._logging.trace_structured is not original
    trace.remove()
    hooks.remove()
    assert torch._logging.trace_structured is original
