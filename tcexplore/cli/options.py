"""Options that several commands share, those of the gate included."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from tcexplore import argument_types
from tcexplore.cli.error_line import print_error
from tcexplore.cli.request import TIMEOUT, FakeRanks, Limits, Outputs
from tcexplore.events.config import FOLLOW_S, Config
from tcexplore.keymap import PRESETS
from tcexplore.targets.target_names import NATIVE, target_names


class Parser(argparse.ArgumentParser):
    """Prints errors in one line, and examples below the help."""

    def __init__(self, *, examples: Sequence[str] = (), **settings: Any) -> None:
        """`examples` are command lines without the program's name."""
        super().__init__(allow_abbrev=False, **settings)
        self._examples = examples

    def format_help(self) -> str:
        lines = [f"  {self.prog} {arguments}".rstrip() for arguments in self._examples]
        return super().format_help() + "\n".join(["", "examples:", *lines, ""] if lines else [])

    def error(self, message: str) -> NoReturn:
        """Print one line on stderr and exit with 2."""
        print_error(f"{message} (see {self.prog} --help)", self.prog)
        self.exit(2)


COMPILE_ARGUMENTS = ("mode", "backend", "dynamic", "fullgraph")
"""Options that are arguments of `torch.compile`. Given ones also replace those of a file that compiles itself."""


def config(given: argparse.Namespace) -> Config:
    """Return the configuration, with defaults for options that the command does not have."""
    return Config(
        mode=getattr(given, "mode", "default"),
        backend=getattr(given, "backend", "inductor"),
        dynamic=argument_types.DYNAMIC[getattr(given, "dynamic", "auto")],
        fullgraph=getattr(given, "fullgraph", False),
        override=tuple(name for name in COMPILE_ARGUMENTS if hasattr(given, name)),
        train=given.train,
        grad=argument_types.DYNAMIC[given.grad],
        device=given.device,
        inputs=tuple(given.input),
        seed=given.seed,
        threads=given.threads,
        target=getattr(given, "target", NATIVE),
        assembly=getattr(given, "assembly", False),
        opcheck=getattr(given, "opcheck", False),
        follow=getattr(given, "follow", FOLLOW_S),
        vary=tuple(getattr(given, "vary", ())),
        compile_arguments=tuple(given.compile_arg),
    )


def vary_option(parser: Any) -> None:
    """Add the option that varies the inputs of the file's calls."""
    parser.add_argument(
        "--vary", action="append", type=argument_types.vary, default=[], metavar="SPEC",
        help="vary an argument, by name or position: sizes of a dimension, 'x.0=1..64', or values, 'lr=0.1,0.01'; "
        "repeat to combine",
    )  # fmt: skip


def rank_options(parser: argparse.ArgumentParser) -> None:
    """Add the ranks to run a script as."""
    options = parser.add_argument_group("ranks on one machine, without communication")
    options.add_argument(
        "--ranks", type=argument_types.at_least_one, metavar="N", help="run the script as each of N ranks, and compare"
    )
    options.add_argument("--rank", type=argument_types.count, metavar="R", help="run the script as this rank only")
    options.add_argument(
        "--world", type=argument_types.at_least_one, metavar="N", help="the number of ranks, with --rank"
    )


def fake_ranks(parser: Parser, given: argparse.Namespace) -> FakeRanks | None:
    """Return the ranks to run a script as; None without these options."""
    if given.ranks is None and given.rank is None and given.world is None:
        return None
    if (given.rank is None) != (given.world is None) or (given.ranks is None) == (given.world is None):
        parser.error("use either --ranks N, or --rank R with --world N")
    if given.rank is not None and given.rank >= given.world:
        parser.error(f"--rank {given.rank}: {given.world} ranks are numbered from 0 to {given.world - 1}")
    return FakeRanks(given.ranks or given.world, given.rank)


def follow_option(parser: argparse.ArgumentParser) -> None:
    """Add the time limit of a script."""
    parser.add_argument(
        "--follow", type=argument_types.seconds, default=FOLLOW_S, metavar="S",
        help=f"end a script that calls torch.compile itself after S seconds, 0 for never (default: {FOLLOW_S:g})",
    )  # fmt: skip


def target_options(parser: argparse.ArgumentParser) -> None:
    """Add the device to generate code for, and the last stage to generate."""
    options = parser.add_argument_group("code for a GPU")
    options.add_argument(
        "--target", type=argument_types.target, default=argparse.SUPPRESS, metavar="NAME",
        help=f"generate code for this GPU (need not be present): {', '.join(target_names())}, or a TARGET.toml file "
        f"(default: {NATIVE}, the device in the machine)",
    )  # fmt: skip
    options.add_argument(
        "--assembly", action="store_true", help="also compile C++ kernels to assembly, which takes some seconds each"
    )


def screen_options(parser: argparse.ArgumentParser) -> None:
    """Add theme and keymap, for commands that open the app."""
    options = parser.add_argument_group("screen")
    options.add_argument(
        "--theme", type=argument_types.theme, metavar="NAME",
        help="a theme of tcexplore or Textual, such as tcexplore-light, nord or gruvbox (default: the last one)",
    )  # fmt: skip
    options.add_argument(
        "--keymap",
        type=argument_types.keymap,
        metavar="NAME",
        help=f"{', '.join(PRESETS)}; `tcexplore config --keys` lists the keys",
    )


def opcheck_option(parser: argparse.ArgumentParser) -> None:
    """Add the tests of custom ops."""
    parser.add_argument(
        "--opcheck", action="store_true",
        help="test each custom op with torch.library.opcheck, on the arguments of its first call",
    )  # fmt: skip


COMPILE_OPTIONS = frozenset({"mode", "backend", "dynamic"})


def compile_options(parser: argparse.ArgumentParser, which: frozenset[str] = COMPILE_OPTIONS) -> None:
    """Add FILE and the options of compiling it; `which` are the options of torch.compile that the command has."""
    parser.add_argument("file", metavar="FILE[:NAME]", help="a Python file, and optionally the name in it to compile")
    options = parser.add_argument_group("how to compile")
    if "mode" in which:
        options.add_argument("--mode", default=argparse.SUPPRESS, help="torch.compile's mode (default: default)")
    if "backend" in which:
        options.add_argument("--backend", default=argparse.SUPPRESS, help="torch.compile's backend (default: inductor)")
    if "dynamic" in which:
        options.add_argument(
            "--dynamic",
            choices=argument_types.DYNAMIC,
            default=argparse.SUPPRESS,
            help="dynamic shapes (default: auto)",
        )
    options.add_argument("--fullgraph", action="store_true", default=argparse.SUPPRESS, help="make graph breaks errors")
    options.add_argument(
        "--compile-arg", action="append", type=argument_types.assignment, default=[], metavar="NAME=VALUE",
        help="a further argument of torch.compile: recompile_limit=4, isolate_recompiles=True, name=block, "
        "options={'max_autotune': True}, dynamic_shapes={'x': ['batch', None]}; repeat for more",
    )  # fmt: skip
    options.add_argument("--device", help="move model and inputs to this device first, such as cuda")
    options.add_argument("--train", action="store_true", help="run forward and backward")
    options.add_argument(
        "--grad", choices=argument_types.DYNAMIC, default="auto",
        help="keep gradients on in a forward run (default: auto, only if the model needs them)",
    )  # fmt: skip
    options.add_argument(
        "--input", action="append", default=[], metavar="SPEC",
        help="an input, for files without inputs: 'f32[64,512]' or mask='bool[64]'; repeat for more",
    )  # fmt: skip
    options.add_argument(
        "--seed", type=argument_types.integer, default=0, help="seed of all random generators (default: 0)"
    )
    options.add_argument("--threads", type=argument_types.at_least_one, metavar="N", help="torch.set_num_threads(N)")
    python_option(options)


def python_option(parser: Any) -> None:
    """Add the model's Python, and the consent to run the one of the model's folder."""
    parser.add_argument(
        "--python", action="append", type=argument_types.name, default=[], metavar="PATH",
        help="the model's Python: an interpreter, or the folder of a virtual or conda environment (default: the active "
        "environment, or .venv beside FILE or above it, or the Python of tcexplore)",
    )  # fmt: skip
    parser.add_argument(
        "--trust", action="store_true",
        help="run the .venv or the Python that the repository of FILE names, now and later (default: ask once on a "
        "terminal, else no); FILE itself is always run",
    )  # fmt: skip


def only_python(parser: Parser, given: argparse.Namespace) -> tuple[str, ...]:
    """Return `--python` as a tuple. Exits with 2 if it is repeated."""
    if len(given.python) > 1:
        parser.error("use --python once; tcexplore modes compares several, as does the app")
    return tuple(given.python)


def report_options(parser: Any, time_for: float | None, of: str = "the run", timeout: float = TIMEOUT) -> None:
    """Add `--json`, `--timeout`, and `--time-for` with a default of `time_for` unless that is None."""
    parser.add_argument("--json", action="store_true", help="print the whole result as JSON")
    parser.add_argument(
        "--timeout", type=argument_types.positive_seconds, default=timeout, metavar="S",
        help=f"give up if {of} takes more than S seconds (default: {timeout:g})",
    )  # fmt: skip
    if time_for is not None:
        parser.add_argument(
            "--time-for", type=argument_types.seconds, default=time_for, metavar="S",
            help=f"seconds of timing after each compile, 0 for none (default: {time_for:g})",
        )  # fmt: skip


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
