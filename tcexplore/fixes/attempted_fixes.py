"""A graph break and the cures that were tried."""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore.events import GraphBreak
from tcexplore.fixes.verification import Proof


@dataclass(frozen=True, slots=True)
class AttemptedFixes:
    """A break and what was tried: `proofs` in their order, of which the last may be proven. `number` counts from 1;
    `advice` is what to do where none is."""

    number: int
    found: GraphBreak
    proofs: tuple[Proof, ...] = ()
    advice: str = ""

    @property
    def cure(self) -> Proof | None:
        """The proof that holds."""
        return next((proof for proof in self.proofs if proof.proven), None)
