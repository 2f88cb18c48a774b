"""The pairs measured so far and the conditions of their measurement."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from tcexplore.events import PairsMeasured
from tcexplore.events.timing_events import FreshHeap

Side = Literal["eager", "compiled", "control"]
"""`control` is the second side of a control pair, which is eager too."""

MAX_PAIRS = 2_000
MAX_CONTROL_PAIRS = 500


@dataclass(slots=True)
class Pairs:
    """Pairs of blocks in microseconds per call; beyond `limit`, the oldest are dropped."""

    limit: int
    control: bool
    """Whether these pairs compare eager with eager."""
    first: deque[float] = field(init=False)
    second: deque[float] = field(init=False)
    taken: int = 0
    """All pairs so far, dropped ones included."""
    _unsent: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.first = deque(maxlen=self.limit)
        self.second = deque(maxlen=self.limit)

    def __len__(self) -> int:
        return len(self.first)

    def add(self, first: float, second: float) -> None:
        self.first.append(first)
        self.second.append(second)
        self.taken += 1
        self._unsent.append((first, second))

    def take_unsent(self) -> PairsMeasured | None:
        """Return the pairs since the last call, or None if there are none."""
        if not self._unsent:
            return None
        eager, compiled = zip(*self._unsent, strict=True)
        self._unsent.clear()
        return PairsMeasured(eager_us=eager, compiled_us=compiled, control=self.control)


@dataclass(slots=True)
class Samples:
    """The measured pairs (eager, compiled) and the control pairs (eager, eager)."""

    measured: Pairs = field(default_factory=lambda: Pairs(MAX_PAIRS, control=False))
    control: Pairs = field(default_factory=lambda: Pairs(MAX_CONTROL_PAIRS, control=True))
    discarded: int = 0
    """Pairs dropped because something was compiled during them."""
    fastest_us: dict[Side, float] = field(default_factory=dict)
    """The fastest unit of each side, in microseconds per call, if units are timed one by one."""

    def note_fastest(self, side: Side, us: float) -> None:
        """Note the fastest unit of a block."""
        self.fastest_us[side] = min(us, self.fastest_us.get(side, us))

    @property
    def full(self) -> bool:
        return len(self.measured) == MAX_PAIRS

    def take_unsent(self) -> list[PairsMeasured]:
        """Return the pairs since the last call."""
        return [chunk for pairs in (self.control, self.measured) if (chunk := pairs.take_unsent())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The conditions of a measurement."""

    threads: int
    device: str
    train: bool
    calls: int
    block: int
    block_compiled: int
    cores: int = 1
    busy_cores: float | None = None
    governor: str = ""
    resets: bool = False
    """Whether inputs or gradients are reset before each unit."""
    fresh_heap: FreshHeap | None = None
    warm_up_spread: float = 0.0
    """Relative difference of the last warm-up rounds (0.03 is 3%)."""
    slow: bool = False
    """Set after the time for a first answer; fewer pairs are enough then."""
    device_eager_us: float | None = None
    device_compiled_us: float | None = None
    reserved_core: int | None = None
    """The core reserved for the terminal app; None without a spare core."""
