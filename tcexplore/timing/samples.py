"""The pairs measured so far: bounded, in order, with what has not been sent yet."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tcexplore.events import PairsMeasured

KEPT_PAIRS = 2_000
KEPT_CONTROLS = 500


@dataclass(slots=True)
class Pairs:
    """Blocks in microseconds per call, `first[i]` beside `second[i]`; beyond `kept` the oldest go."""

    kept: int
    control: bool
    first: deque[float] = field(init=False)
    second: deque[float] = field(init=False)
    taken: int = 0
    _unsent: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.first = deque(maxlen=self.kept)
        self.second = deque(maxlen=self.kept)

    def __len__(self) -> int:
        return len(self.first)

    def add(self, first: float, second: float) -> None:
        self.first.append(first)
        self.second.append(second)
        self.taken += 1
        self._unsent.append((first, second))

    def unsent(self) -> PairsMeasured | None:
        """The pairs since the last time this was asked, None when there are none."""
        if not self._unsent:
            return None
        eager, compiled = zip(*self._unsent, strict=True)
        self._unsent.clear()
        return PairsMeasured(eager_us=eager, compiled_us=compiled, control=self.control)


@dataclass(slots=True)
class Samples:
    """Eager beside compiled in `measured`, eager beside eager in `control`; `discarded` pairs were compiled into."""

    measured: Pairs = field(default_factory=lambda: Pairs(KEPT_PAIRS, control=False))
    control: Pairs = field(default_factory=lambda: Pairs(KEPT_CONTROLS, control=True))
    discarded: int = 0

    @property
    def full(self) -> bool:
        return len(self.measured) == KEPT_PAIRS

    def unsent(self) -> list[PairsMeasured]:
        """What was measured since the last time this was asked."""
        return [chunk for pairs in (self.control, self.measured) if (chunk := pairs.unsent())]
