"""Code after a graph break that is compiled for a value: what other values in the inputs compile again."""

from __future__ import annotations

import pytest

from tcexplore.events import Event, ExtraCompiles, FactMissing, Finished, GuardsInstalled, OtherValuesTried
from tests.supervisor.runs import Runs, only

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]

ITEM = """\
import torch
def model(x):
    largest = x.max().item()
    return x.sin() {}
inputs = (torch.arange(4.0),)
"""


async def events_of(runs: Runs, source: str, *, profile: bool = True) -> list[Event]:
    events = await runs.run(source, time_for=0.05, profile=profile)
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


async def test_integers_are_drawn_anew_so_that_their_largest_one_changes(runs: Runs) -> None:
    source = ITEM.format("* largest").replace("arange(4.0)", "tensor([3, 900, 14, 77])")
    (tried,) = only(await events_of(runs, source), OtherValuesTried)
    assert [again.call for again in tried.recompiles] == [1]


async def test_text_compiles_it_again_for_each_value(runs: Runs) -> None:
    source = ITEM.replace("x.max().item()", "str(x.max().item())").format("if largest == 'a' else x.cos()")
    (tried,) = only(await events_of(runs, source), OtherValuesTried)
    assert [again.call for again in tried.recompiles] == [1, 2, 3]


async def test_in_the_app_they_are_tried_while_the_timing_goes_on(runs: Runs) -> None:
    number = runs.submit(ITEM.format("* largest"), time_for=None)
    tried = await runs.until(lambda event: event.run == number and isinstance(event, OtherValuesTried))
    assert isinstance(tried, OtherValuesTried)
    assert [again.call for again in tried.recompiles] == [1]


COUNTER = """\
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0
    def forward(self, x):
        self.count += 1
        largest = x.max().item()
        return x * largest + self.count
model, inputs = Net(), (torch.arange(4.0),)
"""


async def test_code_that_runs_eagerly_after_the_recompile_limit_is_not_said_to_stay_compiled(runs: Runs) -> None:
    events = await events_of(runs, COUNTER)
    assert any(event.limit_hit for event in only(events, ExtraCompiles))
    assert not only(events, OtherValuesTried)


async def test_calls_that_fail_cost_one_fact(runs: Runs) -> None:
    source = ITEM.format("* largest").replace("    return", "    assert largest == 3.0, 'only three'\n    return")
    events = await events_of(runs, source)
    assert not only(events, OtherValuesTried)
    (missing,) = [event for event in only(events, FactMissing) if event.fact == "recompiles with other values"]
    assert "only three" in missing.reason


UNUSED, NO_BREAK = ITEM.format(""), ITEM.replace(".item()", "").format("")


@pytest.mark.parametrize("source", [UNUSED, NO_BREAK], ids=["unused", "no break"])
async def test_nothing_is_tried_if_no_code_is_compiled_for_a_value(runs: Runs, source: str) -> None:
    assert not only(await events_of(runs, source), OtherValuesTried)


async def test_a_run_of_a_study_tries_nothing(runs: Runs) -> None:
    assert not only(await events_of(runs, ITEM.format("* largest"), profile=False), OtherValuesTried)
