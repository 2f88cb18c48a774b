"""What the command line asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tcexplore.events.job import Config

TIMEOUT = 600.0
"""Seconds that one run may take when `--timeout` says nothing: a hanging program must not hang a CI job."""

TIME_FOR = 3.0
"""Seconds of timing after the compile when `--time-for` says nothing."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may not exceed; None where nothing was said.

    `max_breaks` graph breaks, `min_speedup` eager over compiled, `max_compile_seconds` of compiling,
    `max_memory_ratio` of compiled's peak over eager's; `accuracy` asks for compiled to be as accurate as eager.
    """

    max_breaks: int | None = None
    min_speedup: float | None = None
    max_compile_seconds: float | None = None
    max_memory_ratio: float | None = None
    accuracy: bool = False


@dataclass(frozen=True, slots=True)
class Export:
    """Which kernel `export` writes, and into which folder."""

    kernel: str
    folder: str


@dataclass(frozen=True, slots=True)
class Request:
    """A parsed command line. `command` is `app`, `check`, `doctor`, `export` or the name of a study; times are
    seconds.

    `argv` is what stood after `--`; `calls` for how many calls a recommendation is asked, None for any number;
    `would` the inputs that are asked about.
    """

    command: str
    target: str = ""
    argv: tuple[str, ...] = ()
    config: Config = field(default_factory=Config)
    json: bool = False
    timeout: float = TIMEOUT
    time_for: float = TIME_FOR
    calls: int | None = None
    would: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    study: Any = None
    """The options of a study."""
    export: Export | None = None
