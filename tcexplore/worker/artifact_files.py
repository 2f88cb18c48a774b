"""Load and save torch's portable cache artifacts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from tcexplore.capture.hooks import Hooks
from tcexplore.events import ArtifactsLoaded, ArtifactsSaved, Job
from tcexplore.events.job import IN_CACHES

FACT = "cache artifacts"


def load(job: Job, hooks: Hooks) -> None:
    """Load the artifacts of `job.load_artifacts`, before anything is compiled, and emit `ArtifactsLoaded`."""
    if job.load_artifacts and job.artifacts in IN_CACHES:
        hooks.attempt(FACT, "torch.compiler:load_cache_artifacts", _load, job.load_artifacts, hooks)


def save(job: Job, hooks: Hooks) -> None:
    """Save the artifacts of everything compiled so far to `job.save_artifacts`, and emit `ArtifactsSaved`."""
    if job.save_artifacts and job.artifacts in IN_CACHES:
        hooks.attempt(FACT, "torch.compiler:save_cache_artifacts", _save, job.save_artifacts, hooks)


def _load(file: str, hooks: Hooks) -> None:
    data, start = Path(file).read_bytes(), time.perf_counter()
    info = torch.compiler.load_cache_artifacts(data)
    hooks.emit(ArtifactsLoaded(seconds=time.perf_counter() - start, kinds=_kinds(info)))


def _save(file: str, hooks: Hooks) -> None:
    start = time.perf_counter()
    artifacts = torch.compiler.save_cache_artifacts()
    if artifacts is None:
        hooks.emit(ArtifactsSaved(bytes=0))
        return
    data, info = artifacts
    Path(file).write_bytes(data)
    hooks.emit(ArtifactsSaved(bytes=len(data), kinds=_kinds(info), seconds=time.perf_counter() - start))


def _kinds(info: Any) -> tuple[tuple[str, int], ...]:
    artifacts = getattr(info, "artifacts", None) or {}
    return tuple(sorted((str(kind), len(keys)) for kind, keys in artifacts.items()))
