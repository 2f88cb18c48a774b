"""A run's settings of torch: seed, threads, and no cache that would hide the compile from view."""

from __future__ import annotations

import importlib
import os
import random
import sys
from typing import Any

import torch

from tcexplore.capture.hooks import Emit
from tcexplore.events import FactMissing, Job
from tcexplore.worker import torch_log
from tcexplore.worker import torch_threads as threads_of_torch

OPTIONS: tuple[tuple[str, str, Any, str], ...] = (
    ("torch._inductor.config", "fx_graph_cache", False, "kernels of a graph that was compiled before"),
    ("torch._functorch.config", "enable_autograd_cache", False, "graphs that AOTAutograd compiled before"),
    ("torch._inductor.config", "trace.provenance_tracking_level", 1, "which ops a kernel came from"),
)
"""Module, option, value, and the fact that is missing where torch has no such option."""

CACHES = tuple((module, option, True, fact) for module, option, value, fact in OPTIONS if value is False)
"""The same for a run that is to use torch's caches."""


def apply(job: Job, threads: int, emit: Emit) -> None:
    """Set what `job` asks for; `threads` is the machine's own number of threads."""
    config = job.config
    threads_of_torch.use(config.threads, threads, emit)
    seed(config.seed)
    torch_log.indent_continued_lines()
    set_options(emit)
    if job.caches:
        for option in CACHES:
            _set(*option, emit)
    if folder := job.caches or job.cache_dir:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
    if not config.fuse:
        _set("torch._inductor.config", "max_fusion_size", 1, "Inductor without fusion", emit)


def seed(value: int) -> None:
    """Seed torch, Python, and numpy where it is loaded."""
    random.seed(value)
    torch.manual_seed(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(value % 2**32)


def set_options(emit: Emit) -> None:
    """Set `OPTIONS`; one that this torch lacks costs a `FactMissing`."""
    for option in OPTIONS:
        _set(*option, emit)


def _set(module: str, option: str, value: Any, fact: str, emit: Emit) -> None:
    try:
        config = importlib.import_module(module)
        *path, name = option.split(".")
        for part in path:
            config = getattr(config, part)
        getattr(config, name)
        setattr(config, name, value)
    except (ImportError, AttributeError) as error:
        emit(FactMissing(fact=fact, symbol=f"{module}:{option}", reason=f"this torch has no such option: {error}"))
