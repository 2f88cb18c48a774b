"""Hooks keep their failures apart."""

from __future__ import annotations

from tcexplore.capture.hooks import Hooks
from tcexplore.events import Event, FactMissing


def fail() -> None:
    raise ValueError("broken")


def test_a_failing_fact_hides_no_other_fact_of_the_same_symbol() -> None:
    events: list[Event] = []
    hooks = Hooks(events.append)
    done: list[str] = []
    for fact in ("memory", "eager ops"):
        hooks.attempt(fact, "torch.profiler:profile", fail)
        hooks.attempt(fact, "torch.profiler:profile", lambda: done.append("not asked again"))
    hooks.attempt("call profile", "torch.profiler:profile", lambda: done.append("call profile"))
    assert done == ["call profile"]
    assert events == [
        FactMissing(fact=fact, symbol="torch.profiler:profile", reason="ValueError: broken")
        for fact in ("memory", "eager ops")
    ]
