"""A storm of recompiles: what is tried against it, what that came to, and how it is said."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from tcexplore import events as ev
from tcexplore.events.vary_spec import MOST, VaryError, parse, parse_all
from tcexplore.report.text.storm import print_storm
from tcexplore.session import Snapshot
from tcexplore.session.snapshot import start_snapshot
from tcexplore.session.timeline import COMPILE, RECOMPILE
from tcexplore.studies.recompiles.recompiles_document import storm as document
from tcexplore.studies.recompiles.recompiles_json import storm as fields
from tcexplore.studies.recompiles.recompiles_plan import trials
from tcexplore.studies.recompiles.recompiles_result import PASSES, UNCHANGED, Trial, lane, variants
from tcexplore.studies.recompiles.recompiles_study_text import suggested
from tcexplore.studies.study_runs import Runs
from tcexplore.supervisor import Supervisor
from tests.studies.playing import JOB, MACHINE, Playback, failed

SIZE = ev.Recompiled(
    graph="0/1", failed_entry="0/0", failed_guard="size of x", reason="", old="2", new="3", kind="size", name="x",
    dim=0,
    origin="argument",
)  # fmt: skip
FLOAT = replace(SIZE, graph="0/2", failed_guard="lr == 0.1", old="0.1", new="0.01", kind="float", name="lr", dim=None)


def made(*seconds: float, compiles: dict[int, str]) -> list[ev.Event]:
    """Every call once eagerly, then `PASSES` times compiled; in the first pass `compiles` names what that made."""
    eager = [ev.CallMade(index=i, variant="eager", seconds=1e-4) for i in range(len(seconds))]
    first = [
        ev.CallMade(index=i, variant="compiled", seconds=s, compiles=int(i in compiles), graphs=(compiles.get(i, ""),))
        for i, s in enumerate(seconds)
    ]
    later = [ev.CallMade(index=i, variant="compiled", seconds=5e-5) for i in range(len(seconds))]
    return [*eager, *first, *later * (PASSES - 1), ev.Finished()]


def story(job: ev.Job) -> list[ev.Event]:
    config = job.config
    if config.buckets:
        return [failed("no room to pad")]
    if config.dynamic:
        return made(1.0, 1e-4, 1e-4, compiles={0: "0/0"})
    if config.as_tensors or config.mark_dynamic:
        left = SIZE if config.as_tensors else FLOAT
        return [left, *made(1.0, 0.5, 1e-4, compiles={0: "0/0", 1: left.graph})]
    return [SIZE, FLOAT, *made(1.0, 0.5, 0.5, compiles={0: "0/0", 1: "0/1", 2: "0/2"})]


async def stormed() -> list[Trial]:
    async with Runs(lambda emit: Playback(emit, story)) as runs:
        job = replace(JOB, config=ev.Config(vary=("x.0=2,3", "lr=0.1,0.01")))
        return [trial async for trial in trials(job, runs, lambda _: None, 5.0)]


async def test_what_applies_is_tried_and_nothing_that_is_not_needed():
    found = await stormed()
    assert [trial.treatment.name for trial in found] == [
        "as it is", "dynamic=True", "mark_dynamic", "buckets", "tensor for float",
    ]  # fmt: skip
    configs = {trial.treatment.name: trial.run.config for trial in found}
    assert configs["mark_dynamic"].mark_dynamic == ("x.0",)
    assert configs["tensor for float"].as_tensors == ("lr",)
    assert (configs["buckets"].buckets, configs["buckets"].dynamic) == (("x.0",), False)
    assert [trial.recompiles for trial in found] == [2, 0, 1, 0, 1]
    assert (found[0].calls, found[0].total_s, round(found[0].steady_us or 0)) == (3, 2.0, 50)
    assert [mark.kind for mark in lane(found[0].run).marks] == [COMPILE, RECOMPILE, RECOMPILE]


async def test_a_storm_as_text_as_json_and_on_the_screen():
    found = await stormed()
    page = StringIO()
    print_storm(found, MACHINE, stream=page)
    shown = document(found, None, width=100)
    for said in (
        "3 calls, each made 3 times",
        "call 2: compiled again, 500 ms",
        "2 → 3: size of x",
        "torch._dynamo.mark_dynamic(x, 0)",
        "InductorError: no room to pad",
        "dynamic=True spares most: 2 recompiles → 0, 2.00 s → 1.00 s for all calls once",
    ):
        assert said in page.getvalue(), page.getvalue()
        assert any(said in shown.row(index).text for index in range(len(shown))), said
    whole = fields(found, MACHINE, stopped=False)
    assert [trial["recompiles"] for trial in whole["trials"]] == [2, 0, 1, 0, 1]
    assert whole["trials"][3]["error"]["message"] == "no room to pad"
    assert len(whole["trials"][0]["made"]) == 3 * PASSES


def test_what_is_no_argument_is_not_tried():
    attribute = replace(FLOAT, name="self.scale", origin="attribute")
    run = ev.Job(run=1, file="f", source="")
    assert variants(start_snapshot(run)) == ()
    assert variants(start_snapshot(run).apply(replace(attribute, run=1))) == ()
    position = start_snapshot(run).apply(replace(SIZE, run=1, name="args[1]"))
    assert [t.change(ev.Config()).mark_dynamic for t in variants(position)][1] == ("1.0",)


def test_what_stands_behind_a_graph_break_is_not_tried():
    rest = ev.FrameEntered(run=1, graph=SIZE.graph, resumed=True)
    again = start_snapshot(ev.Job(run=1, file="f", source="")).apply(rest).apply(replace(SIZE, run=1))
    assert [treatment.name for treatment in variants(again)] == ["dynamic=True"]


def test_sizes_that_change_together_are_marked_and_padded_together():
    sources = [ev.SymbolSource(name=name, kind="size", dim=0) for name in ("x", "y", "kwargs['z']")]
    symbols = tuple(ev.Symbol(name=f"s{index}", sources=(one,)) for index, one in enumerate(sources))
    run = start_snapshot(ev.Job(run=1, file="f", source="")).apply(replace(SIZE, run=1))
    tried = variants(run.apply(ev.GraphSymbols(run=1, graph=SIZE.graph, symbols=symbols)))
    configs = {treatment.name: treatment.change(ev.Config()) for treatment in tried}
    assert configs["mark_dynamic"].mark_dynamic == configs["buckets"].buckets == ("x.0", "y.0")


def test_the_limit_is_said_with_its_call():
    limited = replace(SIZE, limit_hit=True)
    run = [limited, *made(1.0, 0.5, 1e-4, compiles={0: "0/0", 1: "0/1"})]
    trial = Trial(treatment=UNCHANGED, run=played(run))
    assert trial.gave_up_at == 2
    assert trial.recompiles == 0


def played(events: list[ev.Event]) -> Snapshot:
    snapshot = start_snapshot(JOB)
    for event in events:
        snapshot = snapshot.apply(replace(event, run=JOB.run))
    return snapshot


def test_specifications_are_read_as_they_are_written():
    assert parse("x.0=1..3,8").values == (1, 2, 3, 8)
    assert (parse("lr=0.1,-1,True,None,'a'").dim, parse("lr=0.1,True").values) == (None, (0.1, True))
    assert (parse(" 1 . 2 = 4").argument, parse("1.2=4").dim) == ("1", 2)


@pytest.mark.parametrize(
    "text", ["x", "=1", "x.0=", "x.0=3..1", "x.0=1.5", "x.0=-1", "x=[1]", "x.0=True", "x=1,,2", f"x=1..{10**12}"]
)
def test_what_is_wrong_is_said_in_one_sentence(text: str):
    with pytest.raises(VaryError) as raised:
        parse_all((text,))
    assert "\n" not in str(raised.value)


def test_combinations_have_a_limit():
    with pytest.raises(VaryError, match="10,000 calls"):
        parse_all((f"x.0=1..{MOST // 10}", f"y=1..{MOST // 10}"))


def test_the_first_tensor_is_what_is_offered_to_vary():
    def entry(*calls: tuple[str, ...]) -> ev.EntryFound:
        return ev.EntryFound(name="model", kind="module", rule="", calls=calls)

    assert suggested(entry(("True", "f32[8, 4]")), ()) == "1.0=1..16"
    assert suggested(entry(("x=f32[8, 4]",)), ()) == "x.0=1..16"
    assert suggested(entry(("f32[8]",), ("f32[9]",)), ()) == ""
    assert suggested(entry(("f32[8]",)), ("x.1=1,2",)) == "x.1=1,2"


SCALED = """\
import torch

def model(x, rate=0.1):
    return (x * rate).relu()

inputs = (torch.randn(4, 8),)
"""


@pytest.mark.torch
def test_real_recompiles_are_spared_by_what_is_said_to_spare_them(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(SCALED)
    config = ev.Config(backend="eager", vary=("x.0=3,5,6", "rate=0.1,0.2"))
    job = ev.Job(run=1, file=str(file), source=SCALED, config=config)

    async def found() -> dict[str, Trial]:
        async with Runs(Supervisor) as runs:
            return {trial.treatment.name: trial async for trial in trials(job, runs, lambda _: None, 60)}

    stormed = asyncio.run(found())
    assert {name: trial.run.failure for name, trial in stormed.items()} == dict.fromkeys(stormed)
    assert {trial.calls for trial in stormed.values()} == {6}
    assert stormed["as it is"].recompiles >= 2
    assert stormed["mark_dynamic"].recompiles < stormed["as it is"].recompiles
    assert stormed["tensor for float"].recompiles < stormed["as it is"].recompiles
    assert stormed["dynamic=True"].recompiles == 0
    padding = stormed["buckets"].run.padding_check
    assert padding is not None
    assert (padding.verdict, padding.calls) == ("equal", 6)
    assert all((trial.steady_us or 0) > 0 for trial in stormed.values())


@pytest.mark.parametrize(
    ("judged", "said"),
    [
        (ev.PaddingChecked(verdict="equal", calls=3, max_abs=1e-7), "3 padded calls gave what eager gives without it"),
        (ev.PaddingChecked(verdict="different", calls=1, max_abs=0.5, reason="call 1, output"), "changes the results"),
        (ev.PaddingChecked(verdict="not compared", reason="it draws"), "not compared with those without: it draws"),
    ],
    ids=lambda given: getattr(given, "verdict", None),
)
async def test_what_padding_does_to_the_results_is_said_and_counts(judged: ev.PaddingChecked, said: str):
    def padded(job: ev.Job) -> list[ev.Event]:
        return [judged, *made(0.1, 1e-4, 1e-4, compiles={0: "0/0"})] if job.config.buckets else story(job)

    async with Runs(lambda emit: Playback(emit, padded)) as runs:
        job = replace(JOB, config=ev.Config(vary=("x.0=2,3", "lr=0.1,0.01")))
        found = [trial async for trial in trials(job, runs, lambda _: None, 5.0)]
    page = StringIO()
    print_storm(found, MACHINE, stream=page)
    text = " ".join(page.getvalue().split())
    shown = document(found, None)
    assert said in text
    assert said in " ".join(" ".join(shown.row(index).text for index in range(len(shown))).split())
    assert ("buckets spares most" in text) == (judged.verdict != "different")
    (fields_of,) = [one for one in fields(found, MACHINE, stopped=False)["trials"] if one["treatment"] == "buckets"]
    assert fields_of["padding"]["verdict"] == judged.verdict


async def test_no_run_finds_the_kernels_of_another():
    players: list[Playback] = []

    def runner(emit):  # noqa: ANN001, ANN202
        players.append(Playback(emit, story))
        return players[0]

    async with Runs(runner) as runs:
        assert len([trial async for trial in trials(JOB, runs, lambda _: None, 5.0)]) > 1
    folders = [job.cache_dir for job in players[0].jobs]
    assert len(set(folders)) == len(folders)
    assert not Path(folders[0]).parent.exists()
