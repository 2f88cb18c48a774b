"""Code after a graph break that is compiled for a value: what other values in the inputs compile again."""

from __future__ import annotations

import pytest

from tcexplore.events import Event, Finished, GuardsInstalled, OtherValuesTried
from tests.supervisor.runs import Runs, only

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]

ITEM = """\
import torch
def model(x):
    largest = x.max().item()
    return x.sin() {}
inputs = (torch.arange(4.0),)
"""


async def events_of(runs: Runs, source: str, *, examine: bool = True) -> list[Event]:
    events = await runs.run(source, time_for=0.0, profile=False, examine=examine)
    assert isinstance(events[-1], Finished)
    return events


async def test_a_number_compiles_the_code_after_its_break_again_once(runs: Runs) -> None:
    events = await events_of(runs, ITEM.format("* largest"))
    (tried,) = only(events, OtherValuesTried)
    assert tried.calls == 3
    (again,) = tried.recompiles
    assert again.frame is not None
    assert (again.frame.line, again.call) == (3, 1)
    assert again.seconds > 0
    graphs = [event.graph for event in only(events, GuardsInstalled)]
    assert len(graphs) == len(set(graphs)) == 2, "those of the copy are not the run's"


async def test_text_compiles_it_again_for_each_value(runs: Runs) -> None:
    source = ITEM.replace("x.max().item()", "str(x.max().item())").format("if largest == 'a' else x.cos()")
    (tried,) = only(await events_of(runs, source), OtherValuesTried)
    assert [again.call for again in tried.recompiles] == [1, 2, 3]


UNUSED, NO_BREAK = ITEM.format(""), ITEM.replace(".item()", "").format("")


@pytest.mark.parametrize("source", [UNUSED, NO_BREAK], ids=["unused", "no break"])
async def test_nothing_is_tried_if_no_code_is_compiled_for_a_value(runs: Runs, source: str) -> None:
    assert not only(await events_of(runs, source), OtherValuesTried)


async def test_a_run_that_is_not_examined_tries_nothing(runs: Runs) -> None:
    assert not only(await events_of(runs, ITEM.format("* largest"), examine=False), OtherValuesTried)
