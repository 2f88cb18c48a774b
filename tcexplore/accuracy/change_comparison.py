"""Comparison of a changed program, eager and compiled, with the original in eager mode."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch

from tcexplore.accuracy.accuracy_check import common_values, compare_values, rounded_runs, severity
from tcexplore.accuracy.branch_coverage import BranchCoverage, Outcome
from tcexplore.accuracy.input_variations import (
    SEARCHED,
    VARIATIONS,
    WEIGHTS,
    WITH_GRADIENTS,
    CallMode,
    Variation,
    call_modes,
    calling_with_gradients,
    have_equal_tensors,
    varied_weights,
    vary,
    with_gradients,
)
from tcexplore.accuracy.observation import (
    Function,
    Observation,
    Subject,
    compare_as_tensors,
    diff_observations,
    differing_state,
    fill_rewritten,
    observe,
    restore_tensors,
    without_state,
)
from tcexplore.accuracy.tensor_comparison import CLOSE, NOT_CLOSE, WRONG
from tcexplore.capture.entry import Call
from tcexplore.capture.hooks import Emit
from tcexplore.capture.time_limit import TimeLimitError, time_limit
from tcexplore.events import AS_CONFIGURED, AccuracyVerdict, BranchTest, ChangeChecked, ChangeCompared, Deviation
from tcexplore.quantities import count

TIME_LIMIT_S, LIMIT_CALLS, LONGEST_LIMIT_S = 3.0, 5.0, 30.0
"""Time limit of an eager call of the original with varied inputs, which may cause an endless loop. It grows to so many
times the slowest call as configured, which tells how large the program is and how busy the machine, up to the last."""

CHANGED_FACTOR = 4.0
"""Factor of this limit for a call after the change: beside other programs, equal calls take several times as long."""

COMPILED_LIMIT_S = 60.0
"""Time limit of a compiled call with varied inputs, which may compile again."""

BUDGET_S = 25.0
"""No further variation is tried after this many seconds of the main thread, or three times as many of the clock.

They count from the end of the first calls, which compile.
"""

SEQUENCE = 3
"""Number of calls in a row if a call changes state."""

RECOMPILE_LIMIT = 64
"""Dynamo's limit during the comparison, so that no call falls back to eager."""


RoundedRuns = Callable[[], Iterable[Observation]]
"""Makes a call of the original again and again, each time with other roundings."""


class CallTimeoutError(TimeLimitError):
    """A call exceeded its time limit."""


class _Original(NamedTuple):
    """A call of the original in eager mode."""

    result: Observation | Exception | CallTimeoutError
    outcomes: set[Outcome]
    """The tests of branches that it reached; they count once the call is compared."""


class _Budget:
    """The time for variations, once it is started."""

    def __init__(self) -> None:
        self._ends: tuple[float, float] | None = None

    def start(self) -> None:
        """Start it, unless it is."""
        self._ends = self._ends or (time.thread_time() + BUDGET_S, time.monotonic() + 3 * BUDGET_S)

    @property
    def spent(self) -> bool:
        return self._ends is not None and (time.thread_time() > self._ends[0] or time.monotonic() > self._ends[1])


def compare_change(
    before: Subject, after: Subject, tests: Iterable[BranchTest] = (), emit: Emit = lambda _: None
) -> ChangeChecked:
    """Compare both programs on the calls of `after` and on variations of them.

    Each of `tests` must be seen to hold and not to hold. Raises the exceptions of the original program on its inputs.
    `emit` gets a `ChangeCompared` whenever more is known.
    """
    if reason := _incomparable(before, after):
        return ChangeChecked(verdict="not judged", reason=reason)
    comparison = _ChangeComparison(before, after, tests, emit)
    with _recompile_limit(RECOMPILE_LIMIT):
        comparison.run()
    return comparison.result()


class _ChangeComparison:
    """The differences so far."""

    def __init__(self, before: Subject, after: Subject, tests: Iterable[BranchTest], emit: Emit) -> None:
        self._before = before
        self._after = after
        self._emit = emit
        self._configured = 0
        """Calls that were compared as configured."""
        self._slowest_s = 0.0
        """Seconds of the slowest eager call of the original as configured."""
        self._compiled = after.compiled
        self._coverage = BranchCoverage(tests)
        self._values: list[Deviation] = []
        self._differences: dict[str, None] = {}
        self._wrong = self._refuted = self._unrandomized = False
        self._not_compared: list[str] = []
        self._gradients = False
        """Whether gradients were compared."""
        self._unstable: frozenset[str] = frozenset()
        """State in which two eager calls of the original differ, such as the time of the last call."""
        self._writes_inputs = False
        """Whether a call writes to its inputs, whose gradients are then not compared."""
        self._varied = self._tried = 0
        self._modes: list[str] = []
        self._zero_gradients: dict[str, None] = {}
        """Gradients that exist on one side only, and are zero there."""
        self._budget = _Budget()

    def run(self) -> None:
        """Compare all calls as configured, then a few in other modes. Stop at the first difference."""
        reaching: list[tuple[Call, Variation | None]] = []
        for number, call in enumerate(self._after.calls, 1):
            prefix = f"call {number}: " if len(self._after.calls) > 1 else ""
            first = self._compare(call, prefix)
            self._budget.start()
            if first is not None:
                self._writes_inputs |= any(name.startswith("input") for name in first.changed)
            if first is not None and first.changes_state:
                self._compare_sequence(call, f"{prefix}called {SEQUENCE} times: ")
            # What a fix is verified by comes first; it may take all of the budget.
            reaching += self._search(call, prefix)
            for variation in VARIATIONS:
                self._compare(vary(call, variation), f"{prefix}with other inputs: ", varied=True)
        self._modes.append(AS_CONFIGURED)
        for mode in call_modes(self._before, self._after):
            if self._refuted or self._coverage.missing:
                return
            self._show_progress(mode.name.removesuffix(WITH_GRADIENTS))
            self._compare_in_mode(mode, reaching)

    def _show_progress(self, mode: str) -> None:
        """Emit how many inputs were compared, and the mode of the calls that come next."""
        inputs = self._configured + self._varied
        planned = max(inputs, len(self._after.calls) * (1 + len(VARIATIONS)))
        self._emit(ChangeCompared(inputs=inputs, planned=planned, mode=mode))

    def result(self) -> ChangeChecked:
        worst = max(self._values, key=severity, default=None)
        verdict: AccuracyVerdict = worst.verdict if worst else "identical"
        return ChangeChecked(
            verdict=WRONG if self._wrong else verdict,
            max_abs=worst.max_abs if worst else None,
            max_rel=worst.max_rel if worst else None,
            tensor=worst.name if worst else "",
            differences=(*self._differences, *self._gradient_differences()),
            not_compared=tuple(self._not_compared),
            gradients=self._gradients,
            calls=len(self._after.calls),
            varied=self._varied,
            modes=tuple(self._modes),
            unreached=tuple(self._unreached()),
            train=self._after.train,
        )

    def _unreached(self) -> Iterator[str]:
        for test, held in self._coverage.missing:
            outcome = "holds" if held else "does not hold"
            ended = f"; the search for one ended after {BUDGET_S:.0f} s" if self._budget.spent else ""
            yield f"with none of {self._tried} inputs, `{test.text}` in line {test.test[0]} {outcome}{ended}"

    def _gradient_differences(self) -> Iterator[str]:
        first, *others = self._zero_gradients or [""]
        if first and not self._refuted:
            more = f" and {count(len(others), 'other')}" if others else ""
            yield f"{first}{more}: zero on one side, none on the other; weight decay and momentum skip only the latter"

    # ---- inputs

    def _search(self, call: Call, prefix: str) -> Iterator[tuple[Call, Variation | None]]:
        """Try inputs and weights until all branches are reached; yield those that reach one."""
        for weights, variations in ((False, SEARCHED), (True, WEIGHTS if self._before.module is not None else ())):
            for variation in variations:
                if self._refuted or not self._coverage.missing or self._budget.spent:
                    return
                changed = None if weights else vary(call, variation)
                if changed is not None and have_equal_tensors(call, changed):
                    continue
                with varied_weights((self._before, self._after), variation if weights else None):
                    original = self._observe_original(changed or call, varied=True)
                    if original.outcomes.isdisjoint(self._coverage.missing):
                        continue
                    label = "with other weights: " if weights else "with other inputs: "
                    self._compare_original(original, changed or call, prefix + label, varied=True)
                yield changed or call, variation if weights else None

    # ---- one call

    def _compare(self, call: Call, prefix: str, *, varied: bool = False) -> Observation | None:
        """Compare one call. A varied call may run endlessly or fail if it does so in both programs."""
        if varied and (self._refuted or self._budget.spent):
            return None
        return self._compare_original(self._observe_original(call, varied=varied), call, prefix, varied=varied)

    def _compare_original(self, original: _Original, call: Call, prefix: str, *, varied: bool) -> Observation | None:
        """Compare a call that the original has made."""
        before = original.result
        if isinstance(before, Exception) and not varied:
            raise before
        if isinstance(before, CallTimeoutError):
            return None
        if isinstance(before, Observation) and before.random:
            self._use_unrandomized()
        if isinstance(before, Observation) and before.changes_state and not varied:
            self._find_unstable(before, lambda: _try_call(self._before, self._before.eager, call, None))
        rounded = partial(rounded_runs, self._before, call)
        self._compare_sides(before, self._after, self._after.eager, call, prefix, rounded, varied=varied)
        if not self._refuted:
            self._compare_sides(before, self._after, self._compiled, call, prefix, rounded, varied=varied)
        self._varied += varied and isinstance(before, Observation)
        self._configured += not varied
        if not self._refuted:
            self._coverage.taken |= original.outcomes
            self._show_progress(AS_CONFIGURED)
        return before if isinstance(before, Observation) else None

    def _compare_sides(
        self,
        before: Observation | Exception,
        subject: Subject,
        function: Function,
        call: Call,
        prefix: str,
        rounded: RoundedRuns,
        *,
        varied: bool,
    ) -> None:
        compiled = function is not subject.eager
        limit = (COMPILED_LIMIT_S if compiled else CHANGED_FACTOR * self._limit_s) if varied else None
        after = _try_call(subject, function, call, limit)
        side = "compiled after the change" if compiled else "after the change"
        if isinstance(after, CallTimeoutError):
            self._add(f"{prefix}it does not end {side}", wrong=True)
        elif isinstance(before, Observation) and isinstance(after, Observation):
            self._compare_observations(before, after, prefix, side, rounded, compiled=compiled)
        elif isinstance(before, Observation):
            self._add(f"{prefix}{_describe(after)} is raised only {side}", wrong=True)
        elif isinstance(after, Observation):
            self._add(f"{prefix}{_describe(before)} is raised only before the change, not {side}", wrong=True)
        elif not compiled and type(before) is not type(after):  # compiled code may raise another for the same reason
            self._add(f"{prefix}{_describe(after)} is raised {side}, before it {_describe(before)}", wrong=True)

    def _compare_observations(
        self, before: Observation, after: Observation, prefix: str, side: str, rounded: RoundedRuns, *, compiled: bool
    ) -> None:
        """Compare two observations; `rounded` makes the call before the change with other roundings.

        Weights or inputs that reach a branch may let one rounding grow to any size.
        """
        self._zero_gradients |= dict.fromkeys(_fill_gradients(before, after))
        before, after = (without_state(each, self._unstable) for each in (before, after))
        compare_as_tensors(before, after)
        fill_rewritten(before, after)
        for difference in diff_observations(before, after, ("before", side)):
            self._add(prefix + difference.text, wrong=difference.wrong)
        # Inductor draws from a generator with another seed, and is then compared with `fallback_random`.
        first, last = (side.generators[compiled:] for side in (before, after))
        if not all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
                   for a, b in zip(first, last, strict=True)):  # fmt: skip
            self._add(f"{prefix}other random numbers are drawn {side}", wrong=True)
        # Of compiled code, rounding is judged by the accuracy check.
        unexplained: tuple[AccuracyVerdict, ...] = (WRONG,) if compiled else (WRONG, NOT_CLOSE)
        for known in compare_values(list(common_values(before, after, None)), rounded(), unexplained):
            deviation = replace(known, name=prefix + known.name)
            if compiled and deviation.verdict == NOT_CLOSE:
                deviation = replace(deviation, verdict=CLOSE)
            self._values.append(deviation)
            if deviation.verdict == WRONG:
                by = "in NaN or infinity" if deviation.max_abs is None else f"by up to {deviation.max_abs:.3g}"
                self._add(f"{deviation.name} differs {by}, {side}", wrong=True)
            self._refuted |= deviation.verdict == NOT_CLOSE

    def _observe_original(self, call: Call, *, varied: bool) -> _Original:
        self._tried += 1
        counted, self._coverage.taken = self._coverage.taken, set()
        began = time.monotonic()
        with self._coverage:
            result = _try_call(self._before, self._before.eager, call, self._limit_s if varied else None)
        outcomes, self._coverage.taken = self._coverage.taken, counted
        if not varied:
            self._slowest_s = max(self._slowest_s, time.monotonic() - began)
        if isinstance(result, CallTimeoutError):
            outcomes = set()
        elif isinstance(result, Exception):  # of a branch it shows only what the branch itself raises
            outcomes = {(test, held) for test, held in outcomes if held and _raises_in(test, result)}
        return _Original(result, outcomes)

    @property
    def _limit_s(self) -> float:
        return max(TIME_LIMIT_S, min(LIMIT_CALLS * self._slowest_s, LONGEST_LIMIT_S))

    def _use_unrandomized(self) -> None:
        """Use compiled code that draws the same random numbers as eager."""
        if self._after.unrandomized is not None and not self._unrandomized:
            self._unrandomized = True
            self._compiled = self._after.unrandomized(lambda _: None)

    def _find_unstable(
        self, first: Observation, again: Callable[[], Observation | Exception | CallTimeoutError]
    ) -> None:
        """Leave out the state in which two eager calls of the original with the same inputs and seed differ.

        Calls that cannot be undone, such as those that advance an iterator, are not made again: they differ for that
        reason, and the original would be ahead of the changed program.
        """
        if self._before.state is not None and self._before.state.not_restored():
            return
        second = again()
        if not isinstance(second, Observation):
            return
        for name in sorted(differing_state(first, second) - self._unstable):
            self._not_compared.append(f"{name}: two eager calls of the original differ in it")
        self._unstable |= differing_state(first, second)

    # ---- sequences and modes

    def _compare_sequence(self, call: Call, prefix: str) -> None:
        """Compare calls in a row, whose state is kept."""
        if self._refuted:
            return
        sides = ((self._before, self._before.eager), (self._after, self._after.eager), (self._after, self._compiled))
        results = [_try_sequence(subject, function, call, self._coverage if subject is self._before else None)
                   for subject, function in sides]  # fmt: skip
        before = results[0]
        if isinstance(before, Observation):
            self._find_unstable(before, lambda: _try_sequence(self._before, self._before.eager, call, None))

        def with_roundings(rounded: Subject) -> Observation:
            observed = _try_sequence(rounded, rounded.eager, call, None)
            if isinstance(observed, Observation):
                return observed
            raise observed

        rounded = partial(rounded_runs, self._before, call, with_roundings)
        for index, after in enumerate(results[1:]):
            side = "compiled after the change" if index else "after the change"
            if isinstance(before, Observation) and isinstance(after, Observation):
                self._compare_observations(before, after, prefix, side, rounded, compiled=bool(index))
            elif isinstance(before, Observation) != isinstance(after, Observation):
                self._add(f"{prefix}only one version fails {side}", wrong=True)

    def _compare_in_mode(self, mode: CallMode, reaching: list[tuple[Call, Variation | None]]) -> None:
        """Compare the calls, and one variation for each branch, with gradients or in another training mode.

        A mode is left out if the original raises in it on a call that works as configured.
        """
        before, after = calling_with_gradients(self._before), calling_with_gradients(self._after)
        prepared = _as_it_is if self._writes_inputs else with_gradients
        compiled: dict[bool, Function] = {}
        gradients = compared = False
        calls: list[tuple[Call, Variation | None]] = [(call, None) for call in self._after.calls]
        calls += [(vary(call, variation), None) for call in self._after.calls for variation in VARIATIONS[:2]]
        label = f"{mode.name}: "
        for index, (call, variation) in enumerate((*calls, *reaching)):
            with varied_weights((before, after), variation):

                def rounded(call: Call = call) -> Iterator[Observation]:
                    with mode.applied(before):
                        yield from rounded_runs(before, prepared(call))

                # Each observation resets the mode, which is Python state.
                with mode.applied(before):
                    original = _try_call(before, before.eager, prepared(call), self._limit_s)
                configured = index < len(self._after.calls)
                if isinstance(original, Exception) and configured:
                    self._not_compared.append(f"{label}the original raises {_describe(original)}")
                    return
                if isinstance(original, CallTimeoutError):
                    continue
                with mode.applied(after):
                    self._compare_sides(original, after, after.eager, prepared(call), label, rounded, varied=True)
                if self._refuted:
                    return
                compared |= isinstance(original, Observation)
                # By now, it has those of the changed side, too.
                gradients |= isinstance(original, Observation) and bool(original.gradients)
                if not gradients and not mode.compiled_without_gradients:
                    continue
                limited = gradients in compiled  # not the first call, which compiles: the same one ended eagerly
                if not limited:
                    compiled[gradients] = after.compile_for_mode(gradients) if after.compile_for_mode else after.eager
                function = compiled[gradients]
                with mode.applied(after):
                    self._compare_sides(original, after, function, prepared(call), label, rounded, varied=limited)
                if self._refuted:
                    return
        self._gradients |= gradients
        if compared:
            self._modes.append(mode.name if gradients else mode.without_gradients)
        else:
            self._not_compared.append(f"{label}the original did not end within {self._limit_s:.0f} s")

    def _add(self, difference: str, *, wrong: bool) -> None:
        self._differences[difference] = None
        self._wrong |= wrong
        self._refuted |= wrong
        if wrong:  # the first wrong one is the reason that is shown
            self._differences = {difference: None, **self._differences}


def _fill_gradients(before: Observation, after: Observation) -> list[str]:
    """Let a gradient that exists on one side only be zero on the other: `torch.cond` gives one to both branches.

    Return their names.
    """
    names: list[str] = []
    for one, other in ((before, after), (after, before)):
        missing = sorted(other.gradients.keys() - one.gradients.keys())
        one.gradients |= {name: torch.zeros_like(other.gradients[name]) for name in missing}
        names += missing
    return names


def _raises_in(test: BranchTest, error: Exception) -> bool:
    """Return whether the body of a test raised an error, or what it called did."""
    first, last = test.body[0], test.body[2]
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code.co_filename == test.file and first <= line <= last for frame, line in frames)


def _as_it_is(call: Call) -> Call:
    return call


def _describe(error: object) -> str:
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text:.100}" if text else type(error).__name__


def _try_call(
    subject: Subject, function: Function, call: Call, limit_s: float | None
) -> Observation | Exception | CallTimeoutError:
    try:
        with time_limit(limit_s or 0.0, CallTimeoutError):
            return observe(subject, function, call, subject.module)
    except (Exception, CallTimeoutError) as error:  # noqa: BLE001  user code may raise anything; the caller compares exceptions
        subject.restore()
        return error


def _try_sequence(
    subject: Subject, function: Function, call: Call, coverage: BranchCoverage | None
) -> Observation | Exception | CallTimeoutError:
    """Make calls in a row and return what the last one leaves behind."""
    module = subject.module
    buffers = {} if module is None else {name: b.detach().clone() for name, b in module.named_buffers()}
    try:
        with coverage or nullcontext():
            for last in range(SEQUENCE, 0, -1):
                observation = observe(subject, function, call, module, undo=False)
                if last == 1:
                    current = {} if module is None else dict(module.named_buffers())
                    observation.changed |= {f"buffer {name}": b.detach().clone() for name, b in current.items()}
                    observation.state |= subject.state.values().leaves if subject.state else {}
        return observation
    except (Exception, CallTimeoutError) as error:  # noqa: BLE001  user code may raise anything; the caller compares exceptions
        return error
    finally:
        if subject.state:
            subject.state.restore()
        current = {} if module is None else dict(module.named_buffers())
        kept = {name for name, buffer in current.items() if name in buffers and buffer.shape == buffers[name].shape}
        restore_tensors({name: current[name] for name in kept}, buffers)
        subject.restore()


@contextmanager
def _recompile_limit(limit: int) -> Iterator[None]:
    """Raise Dynamo's limit of recompiles, under either of its names."""
    import torch._dynamo

    config = torch._dynamo.config
    name = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"
    previous = getattr(config, name)
    setattr(config, name, max(limit, previous))
    try:
        yield
    finally:
        setattr(config, name, previous)


def _incomparable(before: Subject, after: Subject) -> str:
    """Return the reason why two programs cannot be compared; empty if they have the same weights.

    Copy the buffers, since earlier calls of either program may have changed them.
    """
    if before.module is None or after.module is None:
        return "" if before.module is after.module else "only one version is a module"
    sides = [dict(subject.module.named_parameters()) for subject in (before, after) if subject.module]
    if sides[0].keys() != sides[1].keys():
        return "the module's parameters have different names than before"
    if not all(torch.equal(sides[0][name], sides[1][name]) for name in sides[0]):
        return "the initial parameters differ from before: importing the file draws different random numbers"
    for subject in (before, after):
        if subject.state is not None:
            subject.state.restore()
    buffers = dict(after.module.named_buffers())
    restore_tensors({name: buffer for name, buffer in before.module.named_buffers() if name in buffers}, buffers)
    return ""
