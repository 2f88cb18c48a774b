"""The command line's grammar."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import NoReturn

from tcexplore import __version__
from tcexplore.cli.request import TIME_FOR, TIMEOUT, Request
from tcexplore.events.run import Config

DYNAMIC = {"true": True, "false": False, "auto": None}

COMMANDS = """\
commands:
  tcexplore FILE[:NAME]         open the explorer, recompile on every save
  tcexplore check FILE[:NAME]   one run without a screen: a report, or JSON
  tcexplore doctor              what this machine can do, and what is missing

Arguments after -- go to a FILE that is a script.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line on stderr and exit status 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def parse(arguments: Sequence[str]) -> Request:
    """The request that these arguments make. Exits with 2 and one line on stderr where they make none."""
    before, after = _split(arguments)
    if before and before[0] == "doctor":
        _doctor().parse_args(before[1:])
        return Request("doctor")
    checking = bool(before) and before[0] == "check"
    given = _check().parse_args(before[1:]) if checking else _app().parse_args(before)
    request = Request("check" if checking else "app", given.file, after, _config(given))
    if not checking:
        return request
    return Request(
        request.command,
        request.target,
        request.argv,
        request.config,
        json=given.json,
        max_breaks=given.max_breaks,
        timeout=given.timeout,
        time_for=given.time_for,
    )


def _split(arguments: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """What stands before the first `--`, and what stands after it."""
    if "--" not in arguments:
        return list(arguments), ()
    at = list(arguments).index("--")
    return list(arguments[:at]), tuple(arguments[at + 1 :])


def _config(given: argparse.Namespace) -> Config:
    return Config(
        mode=given.mode,
        backend=given.backend,
        dynamic=DYNAMIC[given.dynamic],
        fullgraph=given.fullgraph,
        train=given.train,
        device=given.device,
        inputs=tuple(given.input),
        seed=given.seed,
        threads=given.threads,
    )


def _app() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tcexplore",
        description="The terminal explorer for torch.compile: on every save, what the compiler made of your model.",
        epilog=COMMANDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tcexplore {__version__}")
    _compile_options(parser)
    return parser


def _check() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tcexplore check",
        description="One run without a screen, printed as a report.",
        epilog="exit status: 0 done and within limits, 1 a limit was exceeded, "
        "2 the file or the arguments are at fault, 3 the compiler or the worker failed",
        allow_abbrev=False,
    )
    _compile_options(parser)
    limits = parser.add_argument_group("report and limits")
    limits.add_argument("--json", action="store_true", help="print the whole result as JSON")
    limits.add_argument("--max-breaks", type=_count, metavar="N", help="exit 1 with more than N graph breaks")
    limits.add_argument(
        "--timeout", type=_positive, default=TIMEOUT, metavar="S",
        help=f"exit 1 when the run takes more than S seconds (default {TIMEOUT:g})",
    )  # fmt: skip
    limits.add_argument(
        "--time-for", type=_seconds, default=TIME_FOR, metavar="S",
        help=f"seconds of timing after the compile, 0 for none (default {TIME_FOR:g})",
    )  # fmt: skip
    return parser


def _doctor() -> argparse.ArgumentParser:
    return _Parser(prog="tcexplore doctor", description="What this machine can do, and what to install.")


def _compile_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE[:NAME]", help="a Python file, and what in it to compile")
    options = parser.add_argument_group("how to compile")
    options.add_argument("--mode", default="default", help="torch.compile's mode (default: default)")
    options.add_argument("--backend", default="inductor", help="torch.compile's backend (default: inductor)")
    options.add_argument("--dynamic", choices=DYNAMIC, default="auto", help="dynamic shapes (default: auto)")
    options.add_argument("--fullgraph", action="store_true", help="a graph break is an error")
    options.add_argument("--device", help="move model and inputs there first, for instance cuda")
    options.add_argument("--train", action="store_true", help="forward and backward")
    options.add_argument(
        "--input", action="append", default=[], metavar="SPEC",
        help="an input, where the file has none: 'f32[64,512]' or mask='bool[64]'; repeat for more",
    )  # fmt: skip
    options.add_argument("--seed", type=_integer, default=0, help="of every random generator (default: 0)")
    options.add_argument("--threads", type=_threads, metavar="N", help="torch.set_num_threads(N)")


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None


def _count(text: str) -> int:
    if (number := _integer(text)) < 0:
        raise argparse.ArgumentTypeError(f"{text} is below 0")
    return number


def _threads(text: str) -> int:
    if (number := _integer(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return number


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return number


def _positive(text: str) -> float:
    if (number := _seconds(text)) == 0:
        raise argparse.ArgumentTypeError("0 seconds leave no time for a run")
    return number
