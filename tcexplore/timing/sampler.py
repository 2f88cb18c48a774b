"""Takes the pairs: both sides settled and sized, then turn by turn, a pair that compiled something thrown away."""

from __future__ import annotations

from collections.abc import Callable

from tcexplore.timing.block_sizes import sizes
from tcexplore.timing.blocks import BlockTimer
from tcexplore.timing.pair_order import turns
from tcexplore.timing.samples import Samples
from tcexplore.timing.steady_state import LONG_BLOCK_NS, NeverSteadyError, SteadyState, settle
from tcexplore.timing.workload import Workload

MISSIZED = 1.5
"""Blocks are sized anew where a unit turns out to be so many times as fast: on a busy machine the warm-up may see none
that was not interrupted, and blocks of unequal length are interrupted unequally often."""

MOST_DISCARDED = 20
"""Pairs thrown away in a row before giving up."""


class Sampler:
    """Measures pairs of blocks of one workload into `samples`, in microseconds per call.

    The blocks of both sides last as long as each other, and begin alike, so that a disturbance hits either as often;
    they are sized anew where one comes out much shorter than what they were sized by.
    """

    def __init__(self, workload: Workload, timer: BlockTimer, compiles: Callable[[], int], seed: int = 0) -> None:
        self.samples = Samples()
        self._workload = workload
        self._timer = timer
        self._compiles = compiles
        self._turns = turns(seed)
        self._discarded_in_a_row = 0
        self.settle()

    def settle(self) -> None:
        """Pass both sides through the gate and size their blocks. Raises `NeverSteadyError`."""
        self.eager: SteadyState = settle(self._timer, self._workload.eager, self._compiles)
        self.compiled: SteadyState = settle(self._timer, self._workload.compiled, self._compiles)
        self._size()

    def _size(self) -> None:
        self._sized = self.eager.unit_ns, self.compiled.unit_ns
        self.eager_block, self.compiled_block = sizes(*self._sized, self._timer.aim_ns)

    def warm(self) -> None:
        """One untimed block of each side, after a rest; long ones do without."""
        if self.eager.unit_ns * self.eager_block.units > LONG_BLOCK_NS:
            return
        self._timer.time(self._workload.eager, *self.eager_block)
        self._timer.time(self._workload.compiled, *self.compiled_block)

    def pair(self) -> None:
        """Measure the next pair; one that compiled something is discarded and the gate passed again.

        Raises `NeverSteadyError` when that goes on and on.
        """
        turn = next(self._turns)
        compiled = self._compiles()
        if turn.swapped:
            second = self._second(turn.control)
            first = self._eager()
        else:
            first = self._eager()
            second = self._second(turn.control)
        if self._compiles() != compiled:
            self._discard()
            return
        self._discarded_in_a_row = 0
        pairs = self.samples.control if turn.control else self.samples.measured
        pairs.add(first, second)
        if self._sized[0] > MISSIZED * self.eager.unit_ns or self._sized[1] > MISSIZED * self.compiled.unit_ns:
            self._size()

    def _eager(self) -> float:
        took = self._timer.time(self._workload.eager, *self.eager_block)
        self.eager = self.eager._replace(unit_ns=min(took, self.eager.unit_ns))
        return self._per_call(took)

    def _second(self, control: bool) -> float:
        if control:
            return self._eager()
        took = self._timer.time(self._workload.compiled, *self.compiled_block)
        self.compiled = self.compiled._replace(unit_ns=min(took, self.compiled.unit_ns))
        return self._per_call(took)

    def _per_call(self, unit_ns: float) -> float:
        return unit_ns / 1e3 / self._workload.calls

    def _discard(self) -> None:
        self.samples.discarded += 1
        self._discarded_in_a_row += 1
        if self._discarded_in_a_row >= MOST_DISCARDED:
            raise NeverSteadyError(f"{MOST_DISCARDED} timed pairs in a row compiled again: there is no steady state")
        self.settle()
