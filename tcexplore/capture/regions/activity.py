"""When something happened, counted in bins of equal width: ever wider ones, so that they stay few."""

from __future__ import annotations

BINS = 256
FINEST_S = 0.02


class Activity:
    """At most `BINS` counts, each for `bin_s` seconds from 0 on."""

    def __init__(self) -> None:
        self.bin_s = FINEST_S
        self.counts: list[int] = []

    def add(self, at: float) -> None:
        """Count one at a moment, in seconds."""
        while (index := int(at / self.bin_s)) >= BINS:
            self._widen()
        self.counts += [0] * (index + 1 - len(self.counts))
        self.counts[index] += 1

    def _widen(self) -> None:
        counts = [*self.counts, 0] if len(self.counts) % 2 else self.counts
        self.counts = [a + b for a, b in zip(counts[::2], counts[1::2], strict=True)]
        self.bin_s *= 2
