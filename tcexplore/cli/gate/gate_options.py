"""Options of the gate, for commands that print one run."""

from __future__ import annotations

import argparse
from typing import Any

from tcexplore import argument_types
from tcexplore.cli.request import Limits, Outputs


def limit_options(parser: Any, *, measured: bool) -> None:
    """Add the limits; `measured` adds those of facts that a trace does not have."""
    group = parser.add_argument_group("limits", "The exit status is 1 if one is exceeded.")
    count, seconds = argument_types.count, argument_types.seconds
    group.add_argument("--max-breaks", type=count, metavar="N", help="at most N graph breaks")
    group.add_argument("--max-recompiles", type=count, metavar="N", help="at most N recompiles")
    group.add_argument("--max-graphs", type=count, metavar="N", help="at most N graphs")
    group.add_argument("--max-unique-kernels", type=count, metavar="N", help="at most N different generated kernels")
    group.add_argument("--max-compile-seconds", type=seconds, metavar="S", help="at most S seconds of compiling")
    group.add_argument(
        "--min-cache-hits", type=argument_types.share, metavar="SHARE",
        help="at least this share of lookups in torch's compile caches hits, such as 0.9 or 90%%"
        + ("; enables these caches" if measured else ""),
    )  # fmt: skip
    if measured:
        ratio = argument_types.ratio
        group.add_argument(
            "--min-speedup", type=ratio, metavar="X", help="compiled is at least X times as fast as eager"
        )
        group.add_argument(
            "--max-memory-ratio", type=ratio, metavar="X", help="compiled's peak memory is at most X times eager's"
        )
        group.add_argument("--accuracy", action="store_true", help="compiled is as accurate as eager")
    group.add_argument(
        "--own", action="append", default=[], type=argument_types.name, metavar="PATH",
        help="count only breaks in this file or folder; repeat for more",
    )  # fmt: skip
    group.add_argument(
        "--allow", type=argument_types.name, metavar="FILE",
        help="do not count the breaks in this TOML file: [[allow]] with file, line or text, reason, expires",
    )  # fmt: skip
    group.add_argument(
        "--baseline", type=argument_types.name, metavar="FILE",
        help="nothing got worse by more than noise since this report of --json",
    )  # fmt: skip


def output_options(parser: Any) -> None:
    """Add the reports for CI systems."""
    group = parser.add_argument_group("reports for CI", "An existing FILE is replaced.")
    for option, text in (
        ("--sarif", "write a SARIF 2.1.0 log, for code scanning"),
        ("--junit", "write JUnit XML, one test per limit"),
        ("--gitlab", "write GitLab's code quality JSON"),
        ("--markdown", "write a summary in Markdown"),
    ):
        group.add_argument(option, type=argument_types.name, metavar="FILE", help=text)
    group.add_argument(
        "--github", action="store_true", help="print annotations for GitHub Actions, and add to its step summary"
    )
    group.add_argument("--summary", action="store_true", help="print a short report: verdict, counts and limits")


def limits(given: argparse.Namespace) -> Limits:
    """Return the limits, with none for options that the command does not have."""
    return Limits(
        max_breaks=given.max_breaks,
        min_speedup=getattr(given, "min_speedup", None),
        max_compile_seconds=given.max_compile_seconds,
        max_memory_ratio=getattr(given, "max_memory_ratio", None),
        accuracy=getattr(given, "accuracy", False),
        max_recompiles=given.max_recompiles,
        max_graphs=given.max_graphs,
        max_unique_kernels=given.max_unique_kernels,
        min_cache_hits=given.min_cache_hits,
        own=tuple(given.own),
        allow=given.allow,
        baseline=given.baseline,
    )


def outputs(given: argparse.Namespace) -> Outputs:
    """Return the chosen reports."""
    return Outputs(given.sarif, given.junit, given.gitlab, given.markdown, given.github, given.summary)
