"""Hostile model files: each run ends as it should, its text is safe, and the next save is answered."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
import pytest_asyncio

from tcexplore.events import Event, Failed, Finished, Output
from tests.faults import programs
from tests.faults.programs import Fault
from tests.supervisor.runs import Runs, alive, descendants, until

pytestmark = [
    pytest.mark.torch,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(sys.platform != "linux", reason="the fork server needs Linux"),
]

FAULTS: dict[str, Fault] = {
    f"{family}: {name}": fault
    for family, faults in (
        ("exception", programs.EXCEPTIONS),
        ("inputs", programs.INPUTS),
        ("sabotage", programs.SABOTAGE),
        ("torch", programs.TORCH),
        ("output", programs.OUTPUT),
        ("exit", programs.EXITS),
    )
    for name, fault in faults.items()
}


@pytest_asyncio.fixture(loop_scope="session")
async def runs(shared_runs: Runs) -> AsyncIterator[Runs]:
    yield shared_runs
    shared_runs.supervisor.end()


def texts(value: Any) -> Iterator[str]:
    """Yield every string in a record."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from texts(item)
    elif is_dataclass(value):
        for member in fields(value):
            yield from texts(getattr(value, member.name))


def is_safe(text: str) -> bool:
    """Return whether a terminal shows the text without acting on it."""
    return all(char >= " " or char in "\n\t" for char in text) and not set(text) & set(map(chr, range(127, 160)))


def describe_end(event: Event) -> str:
    return f"{event.stage} {event.blame} {event.type}" if isinstance(event, Failed) else "ok"


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_is_reported_and_the_next_save_is_answered(shared_runs: Runs, name: str) -> None:
    """The next save is the next fault, or after the last one a good program: nothing ends the run before it."""
    fault = FAULTS[name]
    events = await shared_runs.run(fault.source, **fault.options)
    last = events[-1]
    assert all(is_safe(text) for event in events for text in texts(event))
    assert describe_end(last).startswith(fault.ends), last
    assert not isinstance(last, Failed) or fault.text in last.message


async def assert_answers(runs: Runs) -> None:
    """Assert that the next good save gets its result."""
    assert isinstance((await runs.run(programs.GOOD, examine=False))[-1], Finished)


async def test_a_good_save_is_answered_after_all_faults(runs: Runs) -> None:
    await assert_answers(runs)


@pytest.mark.parametrize("name", programs.ENDLESS)
async def test_the_next_save_ends_a_program_that_does_not_end(runs: Runs, name: str) -> None:
    others = descendants(os.getpid())
    runs.submit(programs.ENDLESS[name])
    await runs.wait_for(Output)
    started = descendants(os.getpid()) - others
    await assert_answers(runs)
    await until(lambda: not any(map(alive, started)))
