"""Recompile fixes are tried in copies of the run's process, or in the process itself where a copy cannot be."""

from __future__ import annotations

import pytest

from tcexplore.events import FactMissing, Finished, RecompileFixTried
from tcexplore.session.recompile_fixes import recompile_fixes
from tests.fixes.recompiling import PROGRAMS
from tests.snapshots.runs import grow
from tests.supervisor.runs import Runs

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]


WITHOUT_COPIES = """\
import tcexplore.worker.recompile_trials as trials
trials.can_fork, trials.call_in_copy = (lambda: False), None
"""
"""The start of a model file whose run tries changes in its own process, as on a GPU."""


@pytest.fixture(params=["", WITHOUT_COPIES], ids=["in copies", "in the process"])
def place(request: pytest.FixtureRequest) -> str:
    """The start of a model file, which decides where changes are tried."""
    begin: str = request.param
    return begin


async def tried(runs: Runs, source: str) -> dict[tuple[str, ...], RecompileFixTried]:
    """Return the changes that a run tried, as `mark_dynamic x.0`."""
    number = runs.submit(source, time_for=0.0, try_recompile_fixes=True, profile=False)
    await runs.wait_for(Finished)
    seen = [event for event in runs.events if event.run == number]
    assert not [event for event in seen if isinstance(event, FactMissing) and "recompile" in event.fact]
    return {
        tuple(f"{c.kind} {c.name}{'' if c.dim is None else f'.{c.dim}'}".strip() for c in event.changes): event
        for event in seen
        if isinstance(event, RecompileFixTried)
    }


async def test_each_change_says_what_it_avoids(runs: Runs, place: str) -> None:
    fixes = await tried(runs, place + PROGRAMS["rows"])
    marked = fixes[("mark_dynamic x.0",)]
    assert (marked.avoids, marked.graphs_before, marked.graphs_after) == (("0/1",), 2, 1)


async def test_one_change_that_is_not_enough_is_combined_with_another(runs: Runs, place: str) -> None:
    fixes = await tried(runs, place + PROGRAMS["counter and rows"])
    assert not any("0/2" in fix.avoids for changes, fix in fixes.items() if changes == ("mark_dynamic x.0",))
    both = fixes[("mark_dynamic x.0", "attribute self.step")]
    assert both.graphs_after == 1
    assert both.graphs_before - both.graphs_after == len(both.avoids)


async def test_linked_sizes_are_marked_together(runs: Runs, place: str) -> None:
    fixes = await tried(runs, place + PROGRAMS["mask"])
    assert fixes[("mark_dynamic x.0", "mark_dynamic mask.0")].graphs_after == 1


async def test_sizes_that_change_at_the_same_time_are_marked_together_though_all_dynamic_helps(runs: Runs) -> None:
    fixes = await tried(runs, PROGRAMS["rows and columns"])
    assert fixes["mark_dynamic x.0",].graphs_after == 2
    assert fixes["mark_dynamic x.0", "mark_dynamic x.1"].graphs_after == 1


async def test_a_result_is_of_the_sizes_that_were_marked(runs: Runs) -> None:
    fixes = await tried(runs, PROGRAMS["rows and columns"])
    alone, both = fixes["mark_dynamic x.0",], fixes["mark_dynamic x.0", "mark_dynamic x.1"]
    untried = [event for event in runs.events if event.run == alone.run and not isinstance(event, RecompileFixTried)]
    run = grow(alone.run, untried)
    for event in (alone, both):
        (fix, *_) = recompile_fixes(run.apply(event))
        sizes = {(fix.name, fix.dim), *fix.other_sizes}
        assert sizes == {(change.name, change.dim) for change in event.changes}
        assert fix.graphs_after == event.graphs_after


async def test_a_change_that_fails_avoids_nothing_and_has_the_reason(runs: Runs, place: str) -> None:
    fixes = await tried(runs, place + PROGRAMS["attribute as a range"])
    tensor = fixes[("attribute self.n",)]
    assert tensor.avoids == ()
    assert tensor.problem


async def test_a_change_does_not_stay_for_the_next_one(runs: Runs, place: str) -> None:
    fixes = await tried(runs, place + PROGRAMS["attribute as a range"])
    assert not any("attribute self.n" in changes and fix.avoids for changes, fix in fixes.items())
    fixes = await tried(runs, place + PROGRAMS["counter and rows"])
    marked, attribute = fixes["mark_dynamic x.0",], fixes["attribute self.step",]
    assert (marked.graphs_after, attribute.graphs_after) == (4, 2)


async def test_nothing_is_tried_without_recompiles_or_a_request(runs: Runs) -> None:
    assert await tried(runs, "import torch\nmodel = torch.sin\ninputs = (torch.ones(4),)\n") == {}
    number = runs.submit(PROGRAMS["rows"], time_for=0.0)
    await runs.wait_for(Finished)
    assert not [e for e in runs.events if e.run == number and isinstance(e, RecompileFixTried)]


TRAINING = """\
import os
import torch
torch.manual_seed(0)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = torch.nn.Embedding(50, 16), torch.nn.Linear(16, 1)
    def forward(self, input_ids):
        return self.head(self.table(input_ids)).sum()
net, process = Net(), os.getpid()
def only_here(gradient):
    if os.getpid() != process:
        raise RuntimeError("a copy cannot run a backward with a torch that is built for CUDA")
net.head.weight.register_hook(only_here)
compiled = torch.compile(net, backend="aot_eager")
for n in range(12):
    compiled(input_ids=torch.randint(0, 50, (2, 4 + n % 4))).backward()
"""


async def test_a_change_is_tried_on_the_captured_calls_of_a_training_script(runs: Runs, place: str) -> None:
    number = runs.submit(place + TRAINING, time_for=0.0, no_eager_steps=True, try_recompile_fixes=True)
    await runs.wait_for(Finished)
    events = [event for event in runs.events if event.run == number]
    assert not [event for event in events if isinstance(event, FactMissing) and "recompile" in event.fact]
    fixes = {fix.kind: fix for fix in recompile_fixes(grow(number, events, place + TRAINING))}
    marked = fixes["mark_dynamic"]
    assert (marked.name, marked.dim, marked.other_sizes) == ("input_ids", 1, ())
    assert (marked.tried, marked.problem) == (True, "")
    assert (marked.avoids, marked.graphs_before, marked.graphs_after) == (marked.graphs, 2, 1)


async def test_several_changes_are_tried_together_on_the_captured_calls_of_a_script(runs: Runs) -> None:
    counting = TRAINING.replace("Linear(16, 1)\n", "Linear(16, 1)\n        self.step = 0\n", 1).replace(
        "        return self", "        self.step += 1\n        return self", 1
    )
    number = runs.submit(counting, time_for=0.0, no_eager_steps=True, try_recompile_fixes=True)
    await runs.wait_for(Finished)
    run = grow(number, [event for event in runs.events if event.run == number], counting)
    fixes = {fix.kind: fix for fix in recompile_fixes(run)}
    together = fixes["together"]
    assert [(part.kind, part.name) for part in together.parts] == [
        ("mark_dynamic", "input_ids"), ("attribute", "self.step")]  # fmt: skip
    assert (together.graphs_before, together.graphs_after) == (4, 1)
    assert set(together.avoids) == {cause.graph for cause in run.recompiles}
    assert not fixes["mark_dynamic"].helps
    counted = fixes["unspec_int"]
    assert (counted.avoids, counted.helps, counted.compiles_less) == ((), True, True), "fewer graphs, but more than one"


async def test_changes_are_tried_on_calls_of_one_grad_mode(runs: Runs) -> None:
    """Tensors of the evaluation cannot be saved for a backward."""
    evaluated = TRAINING + (
        "with torch.inference_mode():\n    compiled(input_ids=torch.randint(0, 50, (2, 40)))\n"
        "    compiled(input_ids=torch.randint(0, 50, (2, 40)))\n"
    )
    number = runs.submit(evaluated, time_for=0.0, no_eager_steps=True, try_recompile_fixes=True)
    await runs.wait_for(Finished)
    events = [event for event in runs.events if event.run == number]
    assert not [event for event in events if isinstance(event, FactMissing) and "recompile" in event.fact]
    fixes = {fix.kind: fix for fix in recompile_fixes(grow(number, events, evaluated))}
    assert (fixes["mark_dynamic"].graphs_before, fixes["mark_dynamic"].graphs_after) == (2, 1)
