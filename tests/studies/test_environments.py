"""The modes study across environments: figures from alternating slices, and what changes since which version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tcexplore import events as ev
from tcexplore.cli.study_command import study_report
from tcexplore.events.commands import PauseTiming, RunCommand
from tcexplore.model_python import ModelPython
from tcexplore.studies.environments import WARM_UP, geometric_mean, labels
from tcexplore.studies.mode_variants import ModesOptions
from tcexplore.studies.modes import STUDY
from tcexplore.studies.runs import Runs
from tcexplore.studies.study import StudyState, run_study
from tcexplore.studies.study_json import study_fields
from tcexplore.studies.timed_cells import TURNS
from tests.studies.playback import JOB, failed, text, timed

OLD = ModelPython("/old/bin/python", "--python", "3.11.7", "2.11.0", "/old")
NEW = ModelPython("/new/bin/python", "--python", "3.12.4", "2.15.0", "/new")
MIDDLE = ModelPython("/middle/bin/python", "--python", "3.11.7", "2.13.0", "/middle")

LINE = ev.Location(file="/tmp/model.py", line=7, function="forward")
ITEM = ev.GraphBreak(
    graph="0/0", registry_id="GB0124", kind="Unsupported Tensor.item()", reason="`.item()` is not traced",
    location=LINE, code="x.item()",
)  # fmt: skip
RELU = ev.FxNode(name="relu", op="call_function", target="torch.relu")
SUM = ev.FxNode(name="sum", op="call_function", target="torch.sum")


def kernel(name: str, source: str, *ops: str) -> ev.Kernel:
    return ev.Kernel(graph="0/0", phase="forward", name=name, language="cpp", source=source, ops=ops)


def graph(number: str, *nodes: ev.FxNode) -> ev.GraphCaptured:
    return ev.GraphCaptured(graph=number, ops=len(nodes), nodes=nodes, code="")


COMPILED: dict[str, list[ev.Event]] = {
    OLD.executable: [
        ITEM, graph("0/0", RELU), graph("1/0", SUM), kernel("relu", "a", "relu"), kernel("sum", "b", "sum"),
        ev.PhaseTimed(name="dynamo", seconds=2.5, graph="0/0", depth=0),
    ],
    MIDDLE.executable: [graph("0/0", RELU, SUM), kernel("relu_sum", "c", "relu", "sum")],
    NEW.executable: [graph("0/0", RELU, SUM), kernel("relu_sum", "c", "relu", "sum")],
}  # fmt: skip
CALL_US = {OLD.executable: 200.0, MIDDLE.executable: 100.0, NEW.executable: 101.0}


def profile(python: str) -> ev.CallProfiled:
    """Return the profile of a call whose kernels all take the same time."""
    kernels = [event for event in COMPILED[python] if isinstance(event, ev.Kernel)]
    us = CALL_US[python] / len(kernels)
    parts = [
        ev.CallPart(kind="kernel", name=one.name, graph="0/0", phase="forward", us=us, low_us=us, high_us=us)
        for one in kernels
    ]
    return ev.CallProfiled(total_us=CALL_US[python], repeats=5, parts=tuple(parts))


class Player:
    """A queue whose runs compile, then measure one chunk of pairs whenever their timing resumes."""

    log: list[tuple[str, bool]]

    def __init__(self, emit: Callable[[ev.Event], None], story: dict[str, list[ev.Event]]) -> None:
        self._emit, self._story = emit, story
        self._job = JOB
        self._chunks = 0

    async def start(self) -> None:
        """Start nothing."""

    def submit(self, job: ev.Job) -> None:
        self._job = job
        if job.source == WARM_UP:
            self._later(ev.Finished())
            return
        if job.profile:
            for event in (*self._story[job.python], profile(job.python), ev.Finished()):
                self._later(event)
            return
        for event in (*self._story[job.python], ev.PhaseStarted(phase="timing", at=1.0)):
            self._later(event)

    def send(self, command: RunCommand) -> bool:
        assert isinstance(command, PauseTiming)
        if not command.paused:
            self.log.append((self._job.python, command.paused))
            self._chunks += 1
            us = CALL_US[self._job.python] * (1 + 0.01 * self._chunks)
            self._later(ev.PairsMeasured(eager_us=(300.0,) * 3, compiled_us=(us,) * 3))
            self._later(replace(timed(1.5), pairs=15 * self._chunks))
        return True

    def _later(self, event: ev.Event) -> None:
        asyncio.get_running_loop().call_soon(self._emit, replace(event, run=self._job.run))

    def end(self) -> None:
        """End nothing."""

    async def close(self) -> None:
        """End nothing."""


async def compared(
    pythons: Sequence[ModelPython],
    options: ModesOptions | None = None,
    story: dict[str, list[ev.Event]] | None = None,
) -> tuple[Any, StudyState[Any, Any], list[tuple[str, bool]]]:
    Player.log = []
    study, chosen = STUDY.across_environments(options or ModesOptions(), replace(JOB, time_for=1e-9), pythons)
    state = StudyState[Any, Any](replace(JOB, time_for=1e-9), chosen, 5.0)
    async with Runs(lambda emit: Player(emit, story or COMPILED)) as runs:
        await run_study(study, state, runs, lambda _: None, lambda _: None)
    state.over = True
    return study, state, Player.log


async def test_environments_are_timed_in_turn_and_compared_slice_by_slice():
    study, state, log = await compared([OLD, NEW])
    # Then the timing is no longer paused, for the runs that are profiled.
    assert [python for python, _ in log][: 2 * TURNS] == [OLD.executable, NEW.executable] * TURNS
    fields = study_fields(study, state)
    assert (fields["study"], fields["torch"], fields["environment"]) == ("modes", None, None)
    old, new = fields["environments"]
    assert (old["torch"], old["breaks"], old["graphs"], old["unique_kernels"], old["cold_compile_s"]) == (
        "2.11.0", 1, 2, 2, 2.5,
    )  # fmt: skip
    assert (new["torch"], new["breaks"], new["graphs"], new["unique_kernels"]) == ("2.15.0", 0, 1, 1)
    assert old["ratio"] is None
    assert new["ratio"]["value"] == pytest.approx(101 / 200)
    assert new["ratio"]["low"] <= new["ratio"]["value"] <= new["ratio"]["high"]
    assert new["ratio"]["high"] / new["ratio"]["low"] == pytest.approx(1), "noise that both share cancels out"
    assert new["compiled_us"]["high"] > new["compiled_us"]["low"]
    assert len(new["slices_us"]) == TURNS


async def test_a_change_is_attributed_to_the_version_that_brings_it():
    study, state, _ = await compared([NEW, OLD, MIDDLE])
    fields = study_fields(study, state)["changes"]
    assert {(change["since"], change["compared_with"]) for change in fields} == {("torch 2.13.0", "torch 2.11.0")}
    texts = [change["text"] for change in fields]
    assert "break gone at /tmp/model.py:7: `.item()` is not traced" in texts
    assert "graphs 2 → 1" in texts
    assert "kernels changed: relu → relu_sum" in texts
    assert "a compiled call is 2.00 times faster" in texts
    assert next(change["line"] for change in fields if change["fact"] == "break") == 7
    page = text(study.document(state, 200))
    since = page[page.index("since torch 2.15.0") :]
    assert "no difference" in since


async def test_the_report_has_a_row_for_each_environment():
    study, state, _ = await compared([OLD, NEW])
    page = text(study_report(study, state, 200))
    assert "cold compile" in page
    assert "1.98×" in page or "1.97×" in page or "1.99×" in page
    assert "since torch 2.15.0, compared with torch 2.11.0" in page


async def test_the_difference_of_time_is_split_over_kernels():
    study, state, _ = await compared([OLD, MIDDLE])
    (difference,) = study_fields(study, state)["differences"]
    assert (difference["before"]["call_us"], difference["after"]["call_us"]) == (200.0, 100.0)
    assert sum(part["us"] for part in difference["parts"]) == pytest.approx(-100.0)
    assert {kernel["name"] for part in difference["parts"] for kernel in part["kernels_after"]} == {"relu_sum"}
    assert "compiled call 200 µs → 100 µs (-50%)" in text(study.document(state, 200))


async def test_a_failure_in_one_environment_is_a_result_and_a_change():
    study, state, _ = await compared([OLD, NEW], story=COMPILED | {NEW.executable: [failed()]})
    _, new = study_fields(study, state)["environments"]
    assert (new["status"], new["error"]["type"]) == ("failed", "InductorError")
    assert [change["text"] for change in study_fields(study, state)["changes"]] == [
        "failure new: InductorError: lowering failed"
    ]
    assert study.exit_status(state) == 0
    assert "✖ failed" in text(study.document(state, 200))


async def test_named_modes_are_compared_in_each_environment():
    study, state, _ = await compared([OLD, NEW], ModesOptions(modes=("default", "lite"), dynamic=(False,)))
    runs = study_fields(study, state)["environments"]
    assert [(run["torch"], run["config"]["mode"]) for run in runs] == [
        ("2.11.0", "default"), ("2.15.0", "default"), ("2.11.0", "lite"), ("2.15.0", "lite"),
    ]  # fmt: skip
    assert [run["ratio"] is None for run in runs] == [True, False, True, False]


def test_environments_of_one_torch_are_told_apart():
    other = OLD._replace(executable="/other/bin/python", version="3.12.1")
    assert list(labels([OLD, other]).values()) == ["torch 2.11.0, Python 3.11.7", "torch 2.11.0, Python 3.12.1"]
    twin = OLD._replace(executable="/twin/bin/python")
    assert "/twin/bin/python" in labels([OLD, twin])[twin.executable]


def test_the_interval_is_students():
    figure = geometric_mean([1.0, 1.0, 1.1])
    assert figure is not None
    assert figure.low is not None
    assert figure.high is not None
    assert figure.low < 1.0 < figure.value < 1.1 < figure.high
    assert geometric_mean([2.0]) == (2.0, None, None)
    assert geometric_mean([]) is None
