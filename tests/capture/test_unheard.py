"""Texts for the structured trace are written when someone listens, and only then."""

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
def _alone() -> Iterator[StructuredTrace]:
    """A listener beside which nobody listens, not pytest either."""
    events: list[Event] = []
    hooks = Hooks(events.append)
    trace = StructuredTrace(hooks)
    trace.install()
    with mock.patch.object(_LOG, "handlers", [trace]):
        yield trace
    trace.remove()
    hooks.remove()
    assert events == []


def _written(name: str, artifact: str = "") -> bool:
    """Whether torch writes the text of an event."""
    calls: list[str] = []

    def text() -> str:
        calls.append(name)
        return "text"

    about = {"name": artifact, "encoding": "string"} if artifact else {}
    torch._logging.trace_structured(name, metadata_fn=lambda: about, payload_fn=text, expect_trace_id=False)
    return bool(calls)


def test_only_what_is_subscribed_to_is_written() -> None:
    taken: list[TraceEvent] = []
    with _alone() as trace:
        assert not _written("graph_text")
        trace.subscribe("fact", "graph_text", taken.append)
        trace.subscribe("fact", "cache_miss", taken.append)
        assert _written("graph_text")
        assert _written("artifact", "cache_miss")
        assert not _written("artifact", "cache_hit")
    assert [(event.name, event.payload) for event in taken] == [("graph_text", "text"), ("cache_miss", "text")]


def test_names_of_files_are_kept() -> None:
    with _alone() as trace:
        torch._logging.trace_structured("str", lambda: ("model.py", 7), expect_trace_id=False)
    assert trace.strings[7] == "model.py"


def test_another_listener_gets_everything() -> None:
    with _alone():
        _LOG.handlers.append(logging.NullHandler())
        assert _written("graph_text")
        _LOG.handlers.pop()
        assert not _written("graph_text")


def test_torch_has_its_own_function_back() -> None:
    own = torch._logging.trace_structured
    hooks = Hooks(lambda _: None)
    trace = StructuredTrace(hooks)
    trace.install()
    assert torch._logging.trace_structured is not own
    trace.remove()
    hooks.remove()
    assert torch._logging.trace_structured is own
