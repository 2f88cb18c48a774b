"""What the command line asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from tcexplore.events.run import Config

TIMEOUT = 600.0
"""Seconds that one run may take when `--timeout` says nothing: a hanging program must not hang a CI job."""

TIME_FOR = 3.0
"""Seconds of timing after the compile when `--time-for` says nothing."""


@dataclass(frozen=True, slots=True)
class Request:
    """A parsed command line. `command` is `app`, `check` or `doctor`; the times are seconds.

    `max_breaks` is how many graph breaks `check` accepts, None any number; `argv` what stood after `--`.
    """

    command: str
    target: str = ""
    argv: tuple[str, ...] = ()
    config: Config = field(default_factory=Config)
    json: bool = False
    max_breaks: int | None = None
    timeout: float = TIMEOUT
    time_for: float = TIME_FOR
