"""Hooks around functions: observers, failures, and restoration."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tcexplore.capture.hooks import Hooks
from tcexplore.events import Event, FactMissing

SYMBOL = "json:JSONDecoder.decode"


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def hooks(events: list[Event]) -> Iterator[Hooks]:
    hooks = Hooks(events.append)
    yield hooks
    hooks.remove()


def fail(*_: object) -> None:
    raise ValueError("broken")


def test_observers_run_around_the_function(hooks: Hooks):
    calls: list[object] = []
    assert hooks.watch(
        "fact", SYMBOL, before=lambda *args: calls.append(args[1]), after=lambda *args: calls.append(args[0])
    )
    assert json.loads("[1]") == [1]
    assert calls == ["[1]", [1]]


def test_an_exception_of_the_function_is_observed_and_propagates(hooks: Hooks):
    errors: list[Exception] = []
    hooks.watch("fact", SYMBOL, after=fail, failed=lambda error, *_: errors.append(error))
    with pytest.raises(json.JSONDecodeError) as raised:
        json.loads("[")
    assert errors == [raised.value]


def test_a_failing_observer_is_reported_once_as_a_missing_fact(hooks: Hooks, events: list[Event]):
    hooks.watch("fact", SYMBOL, before=fail)
    assert [json.loads("1"), json.loads("2")] == [1, 2]
    assert events == [FactMissing(fact="fact", symbol=SYMBOL, reason="ValueError: broken")]


def test_facts_of_one_symbol_fail_independently(hooks: Hooks, events: list[Event]):
    calls: list[int] = []
    hooks.attempt("memory", SYMBOL, fail)
    hooks.attempt("time", SYMBOL, calls.append, 1)
    assert calls == [1]
    assert [event.fact for event in events if isinstance(event, FactMissing)] == ["memory"]


@pytest.mark.parametrize("symbol", ["json:JSONDecoder.missing", "json.missing:function"])
def test_an_unknown_symbol_is_a_missing_fact(hooks: Hooks, events: list[Event], symbol: str):
    assert not hooks.watch("fact", symbol)
    (missing,) = events
    assert isinstance(missing, FactMissing)
    assert missing.reason.startswith(f"this torch has no {symbol}")


def test_removal_restores_functions_and_inherited_methods(events: list[Event]):
    hooks, decode = Hooks(events.append), json.JSONDecoder.decode
    hooks.watch("fact", SYMBOL)
    hooks.watch("fact", "json:JSONDecodeError.with_traceback")
    assert "with_traceback" in vars(json.JSONDecodeError)
    hooks.remove()
    assert json.JSONDecoder.decode is decode
    assert "with_traceback" not in vars(json.JSONDecodeError)


def test_silenced_hooks_emit_nothing(hooks: Hooks, events: list[Event]):
    with hooks.silenced():
        hooks.report_missing("fact", SYMBOL, "reason")
    assert events == []


@pytest.mark.torch
def test_a_warm_call_runs_no_function_of_tcexplore():
    torch = pytest.importorskip("torch")
    from tcexplore.capture.install_hooks import install_all
    from tcexplore.capture.user_files import UserFiles
    from tests.capture.called_functions import functions_of_tcexplore

    hooks = Hooks(lambda _: None)
    try:
        install_all(hooks, UserFiles(__file__))
        layer, x = torch.nn.Linear(4, 4), torch.randn(2, 4)

        @torch.no_grad()
        def broken() -> object:
            y = layer(x)
            torch._dynamo.graph_break()
            return layer(y)

        trained = torch.compile(layer)
        calls = (torch.compile(broken), lambda: trained(x).sum().backward())
        for call in calls:
            assert functions_of_tcexplore(call), "of hooks, while it compiles"
            call()
            assert functions_of_tcexplore(call) == {}
    finally:
        hooks.remove()
        torch._dynamo.reset()
