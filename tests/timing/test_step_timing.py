"""Alternation of eager and compiled steps, in simulated scripts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from tcexplore.capture.compiled_regions import Region
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.step_signals import OptimizerUpdates, shapes_of
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import EagerLinesTimed, Event, StepsTimed, TimingEstimate, TimingSkipped
from tcexplore.timing import step_timing
from tcexplore.timing.step_timing import StepTiming
from tests.timing.simulation import SimulatedClock, quiet


class Script:
    """A script whose regions take simulated time, and the events that its timing emits."""

    def __init__(self, noise: Callable[[SimulatedClock, float], float] = quiet, **settings: Any) -> None:
        self.clock = SimulatedClock(noise, random.Random(1))
        self.events: list[Event] = []
        settings = {"time_for": 1.0, **settings}
        self.timing = StepTiming(Hooks(self.events.append), clock=self.clock, **settings)
        self.parameters = [torch.nn.Parameter(torch.zeros(2)) for _ in range(3)]
        self.eager_calls: list[int] = []
        self.order: list[bool] = []

    def optimizer(self, number: int = 0) -> torch.optim.Optimizer:
        """Return an optimizer, as the hook would note it."""
        optimizer = torch.optim.SGD([self.parameters[number]], lr=0.1)
        self.timing._optimizers._add(optimizer)
        return optimizer

    def call(self, region: Region, eager_ms: float, compiled_ms: float, size: int = 8, graphs: int = 0) -> bool:
        """Call a region."""
        eager = self.timing.begin_call(region, (torch.empty(size, 2),), {})
        self.clock.work(1e6 * (eager_ms if eager else compiled_ms))
        self.timing.end_call(graphs)
        self.order.append(eager)
        if eager:
            self.eager_calls.append(region.number)
        return eager

    def update(self, number: int = 0) -> None:
        """Change a parameter, as an optimizer does."""
        with torch.no_grad():
            self.parameters[number].add_(1)

    def finish(self) -> tuple[TimingEstimate | None, StepsTimed]:
        """End the script; return the last estimate and steps."""
        self.timing.finish()
        estimates = [event for event in self.events if isinstance(event, TimingEstimate)]
        return (estimates[-1] if estimates else None), [e for e in self.events if isinstance(e, StepsTimed)][-1]


class FakeStream:
    """The stream of a GPU that works, or has nothing to do."""

    def __init__(self, *, idle: bool) -> None:
        self._idle = idle
        self.queries = 0

    def query(self) -> bool:
        self.queries += 1
        return self._idle


def use_fake_gpu(monkeypatch: pytest.MonkeyPatch, stream: FakeStream) -> None:
    monkeypatch.setattr(step_timing, "device_of", lambda *_: torch.device("cuda"))
    monkeypatch.setattr(step_timing, "make_synchronizer", lambda _: lambda: None)
    monkeypatch.setattr(step_timing, "device_name", str)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: stream)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda _: torch.get_rng_state())


class NoWatch:
    """Enough memory."""

    def __init__(self, _: object) -> None: ...

    def reason_not_to_begin(self) -> str:
        return ""

    def reason_to_stop(self) -> str:
        return ""


@pytest.fixture(autouse=True)
def _no_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_timing, "MemoryRoom", NoWatch)


def region(number: int = 0) -> Region:
    return Region(number, counts_graphs=True, name=f"net{number}", kind="module", original=len)


def train(script: Script, steps: int, batches: int = 1) -> None:
    """A training loop: a region, then an optimizer; the last of ten batches is smaller."""
    script.optimizer()
    net = region()
    for step in range(steps):
        for _ in range(batches):
            small = step % 10 == 9
            script.call(net, 20.0, 10.0, size=3 if small else 8, graphs=step == 0 or step == 9)
            script.clock.work(10e6)
        script.update()


def take_steps(script: Script, steps: int, eager_ms: float, compiled_ms: float) -> TimingEstimate:
    """Train with equal steps to the end of the script; return the last estimate."""
    net = region()
    script.optimizer()
    for step in range(steps):
        script.call(net, eager_ms, compiled_ms, graphs=step == 0)
        script.update()
    estimate, _ = script.finish()
    assert estimate is not None
    return estimate


def test_a_training_step_holds_what_is_outside_the_region():
    script = Script()
    train(script, 300)
    estimate, steps = script.finish()
    assert estimate is not None
    assert estimate.verdict == "faster"
    assert estimate.speedup == pytest.approx(1.5, abs=0.01), "(20 + 10) / (10 + 10)"
    assert (estimate.unit, steps.border, steps.step) == ("step", "optimizer", "SGD")
    after_warm_up = (steps.steps - steps.warm_up) / 10
    assert steps.irregular == pytest.approx(after_warm_up, abs=1), "each smaller batch, between blocks too"
    assert steps.regions[0].speedup == estimate.speedup


def test_eager_steps_are_split_by_line_and_module_once_and_are_not_timed():
    script, without = Script(user_files=UserFiles(__file__)), Script()
    for each in (script, without):
        train(each, 300)
        each.finish()
    (timed,) = (event for event in script.events if isinstance(event, EagerLinesTimed))
    assert timed.call_us == pytest.approx(30e3), "20 ms eager, and 10 ms outside the region"
    assert {line.location.function for line in timed.lines} == {"call", "update"}
    assert sum(module.us for module in timed.modules) == pytest.approx(timed.call_us)
    assert not _get_current_dispatch_mode_stack()
    assert not any(isinstance(event, EagerLinesTimed) for event in without.events)
    assert script.finish()[0].eager_us == pytest.approx(30e3)


def test_a_recording_ends_with_the_script():
    script = Script(user_files=UserFiles(__file__))
    steps = 0
    while script.timing._recording is None:
        steps += 1
        assert steps < 300
        script.call(region(), 20.0, 10.0)
    script.finish()
    assert not _get_current_dispatch_mode_stack()


def test_accumulated_batches_are_one_step():
    script = Script()
    train(script, 200, batches=4)
    estimate, steps = script.finish()
    assert estimate.eager_us == pytest.approx(120e3)
    assert estimate.compiled_us == pytest.approx(80e3)
    assert steps.regions[0].calls == 4


def test_both_networks_of_a_gan_are_in_one_step_and_each_is_timed_alone():
    script = Script()
    script.optimizer(0)
    script.optimizer(1)
    maker, judge = region(0), region(1)
    for step in range(600):
        script.call(maker, 9.0, 3.0, graphs=step == 0)
        script.call(judge, 4.0, 2.0, graphs=step == 0)
        script.call(judge, 4.0, 2.0)
        script.update(1)
        script.call(judge, 4.0, 2.0)
        script.update(0)
    estimate, steps = script.finish()
    assert estimate.speedup == pytest.approx(21 / 9, abs=0.01)
    alone = {one.region: one for one in steps.regions}
    assert alone[0].speedup == pytest.approx(15 / 9, abs=0.01)
    assert alone[1].speedup == pytest.approx(15 / 9, abs=0.01)
    assert alone[1].calls == 3


@pytest.mark.parametrize("milliseconds", [0.4, 3.0])
def test_steps_after_a_change_of_sides_do_not_count(milliseconds: float):
    script = Script()
    net = region()
    for step in range(int(1500 / milliseconds)):
        eager = script.call(net, 1.5 * milliseconds, milliseconds, graphs=step == 0)
        others = sum(eager != before for before in script.order[-4:-1])
        script.clock.work(0.4e6 * others)  # until the caches hold what this side uses
    estimate, steps = script.finish()
    assert estimate is not None
    assert estimate.speedup == pytest.approx(1.5, abs=0.005)
    assert steps.timed > 20


def test_a_script_whose_steps_never_take_equally_long_is_timed_all_the_same():
    script = Script()
    net = region()
    for step in range(400):
        factor = (1.0, 1.3, 1.7)[step % 3]
        script.call(net, 0.4 * factor, 0.2 * factor, graphs=step == 0)
    _, steps = script.finish()
    assert 0 < steps.warm_up < 60


def test_without_an_optimizer_each_call_is_a_step():
    script = Script()
    net = region()
    with torch.no_grad():
        for step in range(400):
            script.call(net, 6.0, 5.0, graphs=step == 0)
    estimate, steps = script.finish()
    assert estimate.speedup == pytest.approx(1.2, abs=0.01)
    assert (steps.border, steps.step) == ("region", "net0")


def test_a_round_of_calls_of_two_regions_is_one_step():
    """Speculative decoding: four calls of the draft, one of the target; a prompt calls both once."""
    script, draft, target = Script(), region(0), region(1)
    for step in range(200):
        if step % 40 == 0:
            script.call(target, 20.0, 10.0, size=16, graphs=step == 0)
            script.call(draft, 6.0, 5.0, size=16, graphs=step == 0)
        for _ in range(4):
            script.call(draft, 6.0, 5.0, graphs=step == 0)
        script.call(target, 20.0, 10.0, graphs=step == 0)
    estimate, steps = script.finish()
    assert estimate is not None
    assert estimate.speedup == pytest.approx((4 * 6 + 20) / (4 * 5 + 10), abs=0.01)
    assert (steps.border, steps.step) == ("region", "net1")
    assert {region.region: region.calls for region in steps.regions} == {0: 4, 1: 1}
    prompts = 200 // 40 - 1  # the first one comes before the rounds are known
    assert steps.irregular == 2 * prompts, "the round of a prompt, and the one before, which ends early"


def test_a_call_now_and_then_does_not_begin_the_steps():
    """A detector calls the classifier for each of one to five boxes: rounds differ, calls of the classifier do not."""
    script, classifier, detector, rng = Script(), region(0), region(1), random.Random(2)
    for step in range(120):
        for _ in range(rng.randint(3, 9)):
            script.call(classifier, 6.0, 5.0, graphs=step == 0)
        script.call(detector, 20.0, 10.0, graphs=step == 0)
    _, steps = script.finish()
    assert steps.step == "net0"


def test_steps_on_a_gpu_are_timed_between_others_that_are_not_usual(monkeypatch: pytest.MonkeyPatch):
    """A block of 40 ms has no place between two evaluations."""
    use_fake_gpu(monkeypatch, FakeStream(idle=True))
    script, net = Script(), region()
    script.optimizer()
    for step in range(400):
        script.call(net, 2.0, 1.0, graphs=step == 0)
        script.update()
        if step % 8 == 7:
            with torch.no_grad():
                script.call(net, 5.0, 5.0, graphs=step == 7)
    estimate, steps = script.finish()
    assert estimate is not None
    assert estimate.speedup == pytest.approx(2.0, abs=0.01)
    assert steps.irregular > 20
    assert steps.eager < 0.8 * steps.steps, "the script does not stay eager"


def test_steps_that_differ_but_get_no_faster_end_the_warm_up():
    script, net = Script(), region()
    script.optimizer()
    for step in range(120):
        slower = 1.3 if step % 2 else 1.0
        script.call(net, 6.0 * slower, (8.0 if step < 4 else 4.0) * slower, graphs=step == 0)
        script.update()
    estimate, steps = script.finish()
    assert 10 <= steps.warm_up <= 16
    assert estimate is not None
    assert estimate.speedup == pytest.approx(1.5, abs=0.2)


def test_blocks_are_sized_for_eager_steps_that_were_not_interrupted():
    script, net = Script(), region()
    script.optimizer()
    for step in range(120):
        eager_steps = len(script.eager_calls)
        script.call(net, 300.0 * 2**eager_steps if eager_steps < 3 else 1.5, 1.0, graphs=step == 0)
        script.update()
    estimate, _ = script.finish()
    assert estimate is not None
    assert estimate.verdict == "faster"
    assert estimate.speedup == pytest.approx(1.5, abs=0.01)


def test_two_hundred_short_steps_on_a_gpu_give_a_verdict(monkeypatch: pytest.MonkeyPatch):
    use_fake_gpu(monkeypatch, FakeStream(idle=True))
    estimate = take_steps(Script(), 200, 3.0, 2.0)
    assert estimate.verdict == "faster"
    assert estimate.speedup == pytest.approx(1.5, abs=0.01)


@pytest.mark.parametrize("on_gpu", [True, False])
def test_a_script_of_which_eager_steps_take_thirty_times_as_long_has_a_verdict(
    monkeypatch: pytest.MonkeyPatch, on_gpu: bool
):
    if on_gpu:
        use_fake_gpu(monkeypatch, FakeStream(idle=True))
    estimate = take_steps(Script(), 150, 138.0, 4.6)
    assert estimate.verdict == "faster"
    assert estimate.speedup == pytest.approx(30, abs=0.1)


def test_blocks_on_a_gpu_are_longer_once_there_is_a_verdict(monkeypatch: pytest.MonkeyPatch):
    use_fake_gpu(monkeypatch, FakeStream(idle=True))
    estimate = take_steps(Script(), 1000, 3.0, 2.0)
    assert (3.0 * estimate.block, 2.0 * estimate.block_compiled) == pytest.approx((40, 40), abs=3)


def test_an_evaluation_is_not_timed_as_a_step():
    script = Script()
    script.optimizer()
    net = region()
    for step in range(300):
        script.call(net, 20.0, 10.0, graphs=step == 0)
        script.update()
        if step % 20 == 19:
            with torch.no_grad():
                for _ in range(5):
                    script.call(net, 5.0, 5.0)
    estimate, steps = script.finish()
    assert estimate.speedup == pytest.approx(2.0, abs=0.01)
    assert estimate.eager_outliers == 0
    assert steps.irregular > 0


def test_an_evaluation_before_the_training_does_not_become_the_step():
    script = Script()
    script.optimizer()
    net = region()
    with torch.no_grad():
        for step in range(30):
            script.call(net, 5.0, 5.0, graphs=step == 0)
    for step in range(200):
        script.call(net, 20.0, 10.0, graphs=step == 0)
        script.update()
    estimate, steps = script.finish()
    assert steps.border == "optimizer"
    assert estimate.speedup == pytest.approx(2.0, abs=0.01)


def test_nothing_runs_eagerly_before_the_steps_are_warm_nor_after_the_verdict():
    script = Script()
    net = region()
    for step in range(500):
        script.call(net, 20.0, 10.0, graphs=step in (0, 5))
    first, last = script.order.index(True), len(script.order) - script.order[::-1].index(True)
    assert first >= 6 + 3, "three steps after the last compile"
    assert last < 400, "the script goes on as it is"
    assert 0.3 < script.order[first:last].count(True) / (last - first) < 0.7
    runs = "".join("e" if eager else "c" for eager in script.order[first:last])
    assert {"eee", "ccc"} <= {runs[at : at + 3] for at in range(len(runs))}, "the order is random, with controls"


def test_a_wait_of_the_script_while_timing_is_paused_takes_none_of_its_time():
    def pairs(wait_s: float) -> int:
        script, net = Script(time_for=3.0), region()
        script.optimizer()
        for step in range(500):
            script.call(net, 20.0, 10.0, graphs=step == 0)
            if step == 60:
                began = script.timing.begin_own_work()
                script.clock.work(wait_s * 1e9)
                script.timing.end_own_work(began)
            script.update()
        estimate, _ = script.finish()
        assert estimate is not None
        return estimate.pairs

    assert pairs(60.0) == pytest.approx(pairs(0.0), abs=2)


def test_a_pair_in_which_something_compiles_does_not_count():
    script = Script()
    net = region()
    for step in range(400):
        script.call(net, 6.0, 5.0 if step != 100 else 5000.0, graphs=step in (0, 100))
    estimate, _ = script.finish()
    assert estimate.pairs_discarded == 1
    assert estimate.compiled_us == pytest.approx(5000.0)
    assert estimate.compiled_outliers == 0


def test_a_script_with_few_steps_says_what_is_missing():
    script = Script()
    train(script, 5)
    script.timing.finish()
    (skipped,) = [event for event in script.events if isinstance(event, TimingSkipped)]
    assert "ended after" in skipped.reason
    assert "--repeat" in skipped.reason
    assert not script.eager_calls or len(script.eager_calls) <= 2


def test_another_run_of_the_script_adds_pairs():
    script = Script()
    train(script, 16)
    assert script.timing.needs_steps
    pairs = [script.timing.pairs]
    while script.timing.needs_steps and len(pairs) < 10:
        script.timing.script_again()
        train(script, 16)
        pairs.append(script.timing.pairs)
    assert pairs == sorted(set(pairs)), "each run adds some"
    assert not script.timing.needs_steps
    estimate, steps = script.finish()
    assert estimate is not None
    assert steps.repeats == len(pairs) - 1
    assert estimate.verdict == "faster"
    assert estimate.speedup == pytest.approx(1.5, abs=0.01)


def test_the_function_that_the_user_names_is_a_step():
    script = Script(function="generate")
    net = region()

    def generate(tokens: int) -> None:
        with torch.no_grad():
            for number in range(tokens):
                script.call(net, 2.0, 1.0, graphs=number == 0 and not script.order)

    step = script.timing.step_function(generate)
    for _ in range(200):
        script.clock.work(50e6)  # between the calls
        step(5)
    estimate, steps = script.finish()
    assert (steps.border, steps.step) == ("function", "generate")
    assert estimate.eager_us == pytest.approx(10e3)
    assert estimate.compiled_us == pytest.approx(5e3)


def test_no_step_runs_eagerly_under_the_users_own_stance():
    script = Script()
    net = region()
    with torch.compiler.set_stance("force_eager"):
        for step in range(60):
            script.call(net, 6.0, 5.0, graphs=step == 0)
    assert not script.eager_calls


@pytest.mark.parametrize("settings", [{"alternate": False}, {"time_for": 0}])
def test_alternation_can_be_turned_off(settings: dict[str, Any]):
    script = Script(**settings)
    script.timing.install()
    net = region()
    for step in range(60):
        script.call(net, 6.0, 5.0, graphs=step == 0)
    script.timing.finish()
    assert not script.eager_calls
    assert [type(event) for event in script.events] == [TimingSkipped]


def test_a_rank_of_a_distributed_job_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    script = Script()
    script.timing.install()
    train(script, 60)
    script.timing.finish()
    assert not script.eager_calls
    assert "rank" in script.timing.stopped


def test_a_script_that_records_a_cuda_graph_of_its_own_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    """To wait for the device would end the recording."""
    script, recording, waits = Script(), [False], list[bool]()
    use_fake_gpu(monkeypatch, FakeStream(idle=True))
    monkeypatch.setattr(step_timing, "make_synchronizer", lambda _: lambda: waits.append(recording[0]))
    monkeypatch.setattr(step_timing, "records_cuda_graph", lambda: recording[0])
    net = region()
    for step in range(400):
        recording[0] = step > 100
        script.call(net, eager_ms=2, compiled_ms=1)
    assert waits
    assert not any(waits)
    assert script.timing.stopped == step_timing.OWN_CUDA_GRAPH
    assert not any(script.order[101:])


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_process_group_of_one_process_is_no_distributed_job(ranks: int):
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    try:
        script = Script()
        train(script, 200)
    finally:
        torch.distributed.destroy_process_group()
    assert bool(script.eager_calls) == (ranks == 1)
    assert ("rank" in script.timing.stopped) == (ranks == 2)


def test_a_defect_of_the_timing_leaves_the_script_alone(monkeypatch: pytest.MonkeyPatch):
    script = Script()

    def fail(*_: object) -> None:
        raise KeyError("defect")

    monkeypatch.setattr(script.timing, "_note_usual", fail)
    train(script, 60)
    script.timing.finish()
    assert not script.eager_calls
    assert "KeyError" in script.timing.stopped


def test_an_eager_call_without_memory_ends_the_alternation():
    script = Script()
    net = region()
    for step in range(60):
        if script.call(net, 6.0, 5.0, graphs=step == 0):
            script.timing.ran_out_of_memory()
    assert len(script.eager_calls) == 1
    assert "memory" in script.timing.stopped


def test_eager_steps_that_compile_each_time_are_not_compared():
    """`torch.cond` compiles its branches in each eager call."""
    script, net = Script(), region()
    for _ in range(120):
        eager = script.timing.begin_call(net, (torch.empty(8, 2),), {})
        script.clock.work(5e6)
        script.timing.end_call(int(eager))
    estimate, _ = script.finish()
    assert estimate is None
    assert script.timing.stopped == step_timing.COMPILES_EAGERLY


def test_after_a_change_of_the_sizes_the_new_steps_are_timed():
    script = Script(time_for=60.0)
    net = region()
    for step in range(60):
        script.call(net, 6.0, 5.0, graphs=step == 0)
    for step in range(300):
        script.call(net, 20.0, 10.0, size=16, graphs=step == 0)
    estimate, _ = script.finish()
    assert estimate.speedup == pytest.approx(2.0, abs=0.01)
    changed = script.order[60:]
    assert not all(changed[:12]), "the script does not stay eager"


@pytest.mark.parametrize("idle", [None, True, False])
def test_own_work_is_no_part_of_a_step_unless_a_device_works_meanwhile(
    monkeypatch: pytest.MonkeyPatch, idle: bool | None
) -> None:
    """`idle` tells whether a GPU has nothing to do when tcexplore has worked; None: there is none."""
    stream = FakeStream(idle=bool(idle))
    if idle is not None:
        use_fake_gpu(monkeypatch, stream)
    script, net = Script(), region()
    script.optimizer()
    for step in range(300):
        began = script.timing.begin_own_work()
        script.clock.work(3e6)
        script.timing.end_own_work(began)
        script.call(net, 20.0, 10.0, graphs=step == 0)
        script.clock.work(10e6)
        script.update()
    estimate, _ = script.finish()
    assert estimate is not None
    own_ms = 3 if idle is False else 0
    assert estimate.speedup == pytest.approx((30 + own_ms) / (20 + own_ms), abs=0.01)
    assert stream.queries <= 300 // 4, "a query takes 30 µs, which the script waits for"


def test_on_a_gpu_a_step_in_which_the_script_waited_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fake_gpu(monkeypatch, FakeStream(idle=False))
    script, net = Script(), region()
    script.optimizer()
    for step in range(300):
        if step in (150, 151, 152):
            began = script.timing.begin_own_work()
            script.clock.work(60e9)
            script.timing.end_own_work(began)
        script.call(net, 20.0, 10.0, graphs=step == 0)
        script.update()
    estimate, steps = script.finish()
    assert steps.irregular == 3
    assert estimate is not None
    assert estimate.speedup == pytest.approx(2.0)
    assert (estimate.eager_outliers, estimate.compiled_outliers) == (0, 0)


@pytest.mark.parametrize("on_gpu", [True, False])
def test_on_a_gpu_steps_are_profiled_once_the_timing_is_over(monkeypatch: pytest.MonkeyPatch, on_gpu: bool) -> None:
    if on_gpu:
        use_fake_gpu(monkeypatch, FakeStream(idle=True))
    script, pairs = Script(), list[int]()
    start = script.timing._start_profile

    def note_pairs(device: bool) -> None:
        pairs.append(script.timing.pairs)
        start(device)

    monkeypatch.setattr(script.timing, "_start_profile", note_pairs)
    train(script, 300)
    script.finish()
    assert (pairs[0] == script.timing.pairs) is on_gpu


class Nested(torch.Tensor):
    """As torch's nested tensors, of whose shape one size is no number."""

    is_nested = True

    @property
    def shape(self) -> torch.Size:
        raise AssertionError


def test_the_size_of_a_nested_tensor_is_that_of_its_elements() -> None:
    nested = torch.ones(8, 4).as_subclass(Nested)
    assert shapes_of((nested, torch.ones(2, 3)), {"more": [nested]}) == ((32,), (2, 3), (32,))


def test_updates_of_an_optimizer_with_a_state_loaded_again_are_found() -> None:
    parameter = torch.nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.AdamW([parameter], fused=True)
    updates = OptimizerUpdates()
    updates._add(optimizer)
    for _ in range(2):
        parameter.grad = torch.ones(4)
        optimizer.step()
        before = optimizer.state_dict()
        optimizer.load_state_dict(before)
        updates.read()
        optimizer.step()
        assert updates.read() == (0,)


@pytest.mark.parametrize("options", [{"fused": True}, {"foreach": True}, {"foreach": False}])
def test_updates_of_an_optimizer_are_found_however_it_is_implemented(options: dict[str, bool]) -> None:
    parameter = torch.nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.AdamW([parameter], **options)
    updates = OptimizerUpdates()
    updates._add(optimizer)
    for _ in range(2):
        parameter.grad = torch.ones(4)
        assert updates.read() == ()
        optimizer.step()
        assert updates.read() == (0,)


@pytest.mark.parametrize(
    ("sizes", "least", "most"), [((8, 16, 24), 1.49, 1.51), (range(8, 60), 1.3, 1.7)], ids=["buckets", "any length"]
)
def test_steps_of_varying_sizes_are_compared_with_steps_of_their_size(sizes: Sequence[int], least: float, most: float):
    script, rng = Script(time_for=8.0), random.Random(3)
    net = region()
    script.optimizer()
    for step in range(300):
        size = rng.choice(sizes)
        script.call(net, 3.0 * size, 2.0 * size, size=size, graphs=step == 0)
        script.update()
    estimate, steps = script.finish()
    assert estimate is not None
    assert steps.varying
    assert steps.regions[0].speedup == pytest.approx(1.5, rel=0.02), "sizes differ by more than this ratio"
    assert least < estimate.low
    assert estimate.high < most
    assert estimate.eager_us / estimate.compiled_us == pytest.approx(1.5, rel=0.1)
    assert not [note for note in estimate.notes if note.startswith(("Outliers", "Drift", "Warm-up"))]


def test_blocks_of_many_steps_have_about_the_same_size(monkeypatch: pytest.MonkeyPatch):
    """On a GPU, the mean size of a block is hardly ever that of another."""
    use_fake_gpu(monkeypatch, FakeStream(idle=True))
    script, rng = Script(), random.Random(3)
    net = region()
    script.optimizer()
    for step in range(500):
        size = rng.choice((8, 16, 24))
        script.call(net, 0.15 * size, 0.1 * size, size=size, graphs=step == 0)
        script.update()
    estimate, steps = script.finish()
    assert steps.varying
    assert estimate is not None
    assert estimate.pairs >= 3
    assert estimate.speedup == pytest.approx(1.5, rel=0.1)


def test_sizes_that_first_looked_alike_are_compared_by_size_once_they_vary():
    script = Script(time_for=8.0)
    net = region()
    script.optimizer()
    for step in range(200):
        size = 8 if step < 20 else (8, 16, 24)[step % 3]
        script.call(net, 3.0 * size, 2.0 * size, size=size, graphs=step in (0, 21, 22))
        script.update()
    estimate, steps = script.finish()
    assert steps.varying
    assert estimate is not None
    assert estimate.speedup == pytest.approx(1.5, abs=0.01)
