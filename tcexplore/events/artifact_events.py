"""What of a compiled model can be kept: the names in its state dict, and torch's portable compile artifacts."""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore.events.base import Event

KEYS_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class StateKeys(Event):
    """Names in the state dict of the module, of what `torch.compile` made of it, and of a copy of it that was compiled
    in place, as these objects gave them: the first `KEYS_SHOWN` of `count`.

    `prefix` is what stands before each of the module's names in the compiled one's, None where the names differ in
    another way.
    """

    count: int
    module: tuple[str, ...]
    compiled: tuple[str, ...]
    in_place: tuple[str, ...]
    prefix: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactsSaved(Event):
    """`torch.compiler.save_cache_artifacts()` gave this many bytes; `kinds` are the kinds of artifact and how many of
    each. Nothing was to be saved where `bytes` is 0."""

    bytes: int
    kinds: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactsLoaded(Event):
    """`torch.compiler.load_cache_artifacts()` took what another process had saved, in so many seconds."""

    seconds: float
    kinds: tuple[tuple[str, int], ...] = ()
