"""The parsed command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tcexplore.events.config import Config
from tcexplore.ui.appearance import Appearance

TIMEOUT = 600.0
"""Default of `--timeout` in seconds: a hanging program must not hang a CI job."""

TIME_FOR = 3.0
"""Default of `--time-for`: seconds of timing after the compile."""

STANDBYS = 2
"""Default of `--standbys`: saves may come in pairs, and a GPU process needs seconds to prepare."""

PORT = 8000
"""Default of `--port`."""


class Limits(NamedTuple):
    """Limits of a run; None for no limit."""

    max_breaks: int | None = None
    min_speedup: float | None = None
    """Time of eager over time of compiled."""
    max_compile_seconds: float | None = None
    max_memory_ratio: float | None = None
    """Peak memory of compiled over that of eager."""
    accuracy: bool = False
    """Whether compiled must be as accurate as eager."""
    max_recompiles: int | None = None
    max_graphs: int | None = None
    max_unique_kernels: int | None = None
    """Generated kernels with different code."""
    min_cache_hits: float | None = None
    """Share of the lookups in torch's caches."""
    own: tuple[str, ...] = ()
    """Files and folders whose breaks count; empty: all."""
    allow: str | None = None
    """File with the breaks that do not count."""
    baseline: str | None = None
    """Report to compare with."""


class Outputs(NamedTuple):
    """Reports for CI systems; paths of files, None for none."""

    sarif: str | None = None
    junit: str | None = None
    gitlab: str | None = None
    markdown: str | None = None
    github: bool = False
    """Whether to print annotations for GitHub Actions."""
    summary: bool = False
    """Whether to print a short report."""


class Export(NamedTuple):
    """The kernel that `export` writes, the folder, and whether to overwrite files in it."""

    kernel: str
    folder: str
    force: bool = False


class TraceChoice(NamedTuple):
    """Traces, and which part of them to show."""

    paths: tuple[str, ...]
    job: int | None = None
    """Number of the job, from 1; None if there is one."""
    rank: int | None = None
    """None for the first rank."""
    against: str = ""
    """Another trace to diff with; empty for none."""
    report: bool = False
    """Whether to print a report instead of opening the app."""
    follow: bool = False
    """Whether to show what a running job writes."""


class Launch(NamedTuple):
    """How `run` starts its command."""

    folder: str | None
    """Folder for the trace; None for a new one."""
    detach: bool = False
    """Whether the command goes on when tcexplore ends."""


class FakeRanks(NamedTuple):
    """Ranks to run a script as, without communication."""

    world: int
    rank: int | None = None
    """None for each rank."""


class ConfigQuery(NamedTuple):
    """What `config` shows."""

    explain: bool
    """Whether to show defaults also."""
    keys: bool
    """Whether to show the keys of the app instead."""
    flags: Mapping[str, Any]
    """Options of the command line, by the names of their argparse attributes."""


class Request(NamedTuple):
    """A parsed command line; times are in seconds."""

    command: str
    """`app`, `check`, `config`, `doctor`, `export`, `open`, `run`, `serve` or the name of a study."""
    target: str = ""
    argv: tuple[str, ...] = ()
    """The arguments after `--`."""
    config: Config = Config()
    python: tuple[str, ...] = ()
    """`--python`; only the app and a study of environments take more than one."""
    trust: bool = False
    """Whether to trust the folder of the model file: to run its interpreter."""
    json: bool = False
    timeout: float = TIMEOUT
    time_for: float = TIME_FOR
    budget_s: float | None = None
    """Time limit of a whole study; None for no limit."""
    calls: int | None = None
    """The number of calls to recommend for; None for any number."""
    port: int = PORT
    """For `serve`; 0 for any free one."""
    app_arguments: tuple[str, ...] = ()
    """For `serve`: the command line of the app."""
    recompile_queries: tuple[str, ...] = ()
    """Inputs to check for a recompile."""
    limits: Limits = Limits()
    outputs: Outputs = Outputs()
    appearance: Appearance = Appearance()
    standbys: int = STANDBYS
    """Number of processes that the app keeps ready where each prepares itself."""
    history: bool = True
    """Whether the app stores runs, and shows those of earlier starts."""
    target_given: bool = False
    """Whether the command line has a target."""
    study: Any = None
    """The options of a study."""
    export: Export | None = None
    fake: FakeRanks | None = None
    """Ranks to run the script as; None for a file that is explored as usual."""
    launch: Launch | None = None
    """How `run` starts the command in `argv`."""
    query: ConfigQuery | None = None
    """What `config` shows."""
    trace: TraceChoice | None = None
    """The traces that `open` reads."""
