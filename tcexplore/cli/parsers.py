"""The parser of each command and of each study."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

from tcexplore import __version__, argument_types
from tcexplore.argument_types import positive_seconds
from tcexplore.cli.options import (
    Parser,
    compile_options,
    config,
    follow_option,
    limit_options,
    only_python,
    opcheck_option,
    output_options,
    python_option,
    rank_options,
    report_options,
    screen_options,
    target_options,
    vary_option,
)
from tcexplore.cli.request import PORT, STANDBYS, TIME_FOR, TIMEOUT, Request
from tcexplore.studies.registry import STUDIES, StudyName

EXIT_STATUS = "2 error in FILE or arguments, 3 error in the compiler or the worker, 130 stopped"


def study_parser(name: StudyName) -> Parser:
    """Return the parser of a study's command."""
    from tcexplore.studies.study import RUN_TIMEOUT_S, RUN_TIMING_S, load_study

    study = load_study(name)
    parser = Parser(
        prog=f"tcexplore {name}",
        description=study.description,
        examples=study.examples,
        epilog=", ".join(filter(None, ("exit status: 0 ok", study.exit_note, EXIT_STATUS))),
    )
    compile_options(parser, study.compile_options)
    study.add_options(parser)
    report = parser.add_argument_group("report")
    report_options(report, RUN_TIMING_S if study.timed else None, "one of the runs", RUN_TIMEOUT_S)
    report.add_argument(
        "--budget", type=positive_seconds, metavar="S",
        help="end the study after S seconds, with the results so far; what was left out is named",
    )  # fmt: skip
    return parser


def study_request(name: StudyName, parser: Parser, given: argparse.Namespace, argv: tuple[str, ...]) -> Request:
    """Return the request of a study. Exits with 2 and one line on stderr if an option is invalid."""
    from tcexplore.studies.study import load_study

    study = load_study(name)
    try:
        options = study.options(given)
    except ValueError as error:
        parser.error(str(error))
    python = tuple(given.python) if study.compares_environments else only_python(parser, given)
    time_for = given.time_for if study.timed else 0.0
    return Request(
        name, given.file, argv, config(given), json=given.json, timeout=given.timeout, time_for=time_for,
        budget_s=given.budget, study=options, python=python, trust=given.trust,
    )  # fmt: skip


_COMMAND_HELP = {
    "FILE[:NAME]": "open the explorer, recompile on every save",
    "check FILE[:NAME]": "run once and print a report, or JSON",
    **{f"{entry.name} FILE[:NAME]": entry.summary[0].lower() + entry.summary[1:] for entry in STUDIES if entry.command},
    "export FILE[:NAME]": "write a kernel as files, down to machine code",
    "open PATH…": "open a TORCH_TRACE: its graphs, breaks, kernels, and the rank that differs",
    "run -- COMMAND": "run a job such as `torchrun train.py`, and show what its ranks compile",
    "serve FILE[:NAME]": "open the explorer in a browser of this machine, or through an SSH tunnel",
    "config [FILE]": "show which configuration applies, and where each value is from",
    "doctor": "show what this machine can do, and what is missing",
}

COMMANDS = "\n".join([
    "commands:", *(f"  tcexplore {usage:<24}{text}" for usage, text in _COMMAND_HELP.items()), "",
    "Arguments after -- are passed to FILE if it is a script.", "",
])  # fmt: skip


def app_parser() -> Parser:
    """Return the parser of `tcexplore FILE`."""
    parser = Parser(
        prog="tcexplore",
        description="The terminal explorer for torch.compile: see on every save how your model is compiled.",
        examples=("model.py", "model.py:net --mode max-autotune", "train.py --target h100 -- --epochs 1"),
        epilog=COMMANDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tcexplore {__version__}")
    _app_options(parser)
    return parser


def serve_parser() -> Parser:
    """Return the parser of `tcexplore serve`."""
    parser = Parser(
        prog="tcexplore serve",
        description="Serve the explorer to a browser: only on this machine, and only with the token that is printed. "
        "From another machine, use an SSH tunnel. The other options are those of `tcexplore FILE`.",
        examples=("model.py", "model.py --port 8080 --target h100"),
    )
    parser.add_argument(
        "--port", type=argument_types.count, default=PORT, metavar="N", help=f"0: any free one (default: {PORT})"
    )
    _app_options(parser)
    return parser


def _app_options(parser: Parser) -> None:
    compile_options(parser)
    follow_option(parser)
    rank_options(parser)
    target_options(parser)
    opcheck_option(parser)
    parser.add_argument(
        "--standbys", type=argument_types.at_least_one, default=STANDBYS, metavar="N",
        help="processes to keep ready where each must prepare itself, such as on a GPU, where each holds a context of "
        f"about 500 MiB (default: {STANDBYS})",
    )  # fmt: skip
    parser.add_argument(
        "--no-history", action="store_true",
        help="neither store runs nor show those of earlier starts (also: TCEXPLORE_NO_HISTORY=1)",
    )  # fmt: skip
    parser.add_argument(
        "--targets", action="append", default=[], type=argument_types.target_file, metavar="FILE",
        help="a TARGET.toml to offer in the list of targets; repeat for more",
    )  # fmt: skip
    screen_options(parser)


def check_parser() -> Parser:
    """Return the parser of `tcexplore check`."""
    parser = Parser(
        prog="tcexplore check",
        description="Run the file once without a screen, and print a report.",
        examples=(
            "model.py --json > report.json",
            "model.py --max-breaks 0 --min-speedup 1.2 --summary",
            "model.py --max-breaks 0 --own models/ --allow breaks.toml",
            "model.py --baseline report.json --github --sarif tcexplore.sarif",
            "model.py --recompile-check 'f32[33,512]'",
            "traces/ --max-recompiles 3",
        ),
        epilog="exit status: 0 ok, 1 a limit was exceeded, 2 error in FILE or arguments, "
        "3 error in the compiler or the worker",
    )
    compile_options(parser)
    follow_option(parser)
    rank_options(parser)
    target_options(parser)
    opcheck_option(parser)
    report = parser.add_argument_group("report")
    vary_option(parser)
    report_options(report, TIME_FOR)
    report.add_argument("--calls", type=argument_types.at_least_one, metavar="N", help="report net time over N calls")
    report.add_argument(
        "--recompile-check", action="append", default=[], type=argument_types.inputs, metavar="INPUTS",
        help="report whether a call with these inputs would recompile, without compiling anything: "
        "'f32[33,512], True'; repeat for more",
    )  # fmt: skip
    limit_options(parser, measured=True)
    output_options(parser)
    return parser


def export_parser() -> Parser:
    """Return the parser of `tcexplore export`."""
    parser = Parser(
        prog="tcexplore export",
        description="Write one kernel into a folder: its source, a file that runs and times it if torch provides one, "
        "and every stage down to machine code.",
        examples=(
            "model.py --kernel cpp_fused_add_0 --to kernel",
            "model.py --target h100 --kernel triton_poi_fused_0 --to kernel",
        ),
    )
    compile_options(parser)
    target_options(parser)
    parser.add_argument(
        "--kernel", type=argument_types.name, required=True, metavar="NAME", help="name of the kernel in the report"
    )
    parser.add_argument(
        "--to", type=argument_types.name, required=True, metavar="DIR", help="the folder, created if missing"
    )
    argument_types.force_option(parser)
    parser.add_argument("--timeout", type=argument_types.positive_seconds, default=TIMEOUT, metavar="S",
                        help=f"give up if the run takes more than S seconds (default: {TIMEOUT:g})")  # fmt: skip
    return parser


def open_parser() -> Parser:
    """Return the parser of `tcexplore open`."""
    parser = Parser(
        prog="tcexplore open",
        description="Open what a job wrote with TORCH_TRACE: the explorer's panes for any rank, and the first "
        "difference between ranks. Without a terminal, print a report.",
        examples=("traces/", "traces/ --json", "traces.tar.xz --rank 3", "traces/ --follow", "s3://bucket/job/traces"),
        epilog="exit status: 0 ok, 1 a limit was exceeded, 2 nothing can be read",
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="a folder, trace files, .gz, .zst or tar files of them, or a URL"
    )
    parser.add_argument(
        "--job", type=argument_types.at_least_one, metavar="N", help="the job to open if there are several, from 1"
    )
    parser.add_argument("--rank", type=argument_types.count, metavar="N", help="the rank to show first (default: 0)")
    parser.add_argument(
        "--against",
        default="",
        metavar="PATH",
        help="another trace, such as yesterday's, to diff this one with",
    )
    parser.add_argument("--follow", action="store_true", help="show what a running job writes, as it writes it")
    screen_options(parser)
    report = parser.add_argument_group("report")
    report.add_argument("--json", action="store_true", help="print the whole result as JSON")
    report.add_argument("--report", action="store_true", help="print a report instead of opening the explorer")
    limit_options(parser, measured=False)
    output_options(parser)
    return parser


def run_parser() -> Parser:
    """Return the parser of `tcexplore run`."""
    parser = Parser(
        prog="tcexplore run",
        usage="tcexplore run [--trace DIR] [--detach] [--json] -- COMMAND",
        description="Run a command with TORCH_TRACE, and show what its ranks compile while it runs. Without a "
        "terminal, its output passes through, and a summary follows on stderr.",
        examples=("-- python train.py", "-- torchrun --nproc-per-node 2 train.py", "--detach -- python train.py"),
        epilog="exit status: that of COMMAND",
    )
    parser.add_argument("--trace", metavar="DIR", help="write the trace into this folder (default: a new one)")
    parser.add_argument("--detach", action="store_true", help="leave the command running when tcexplore ends")
    parser.add_argument(
        "--json", action="store_true", help="pass the output through; the report is the last line of stdout"
    )
    screen_options(parser)
    return parser


def doctor_parser() -> Parser:
    """Return the parser of `tcexplore doctor`."""
    description = "Show what this machine can do, and what to install."
    parser = Parser(prog="tcexplore doctor", description=description, examples=("", "--python .venv"))
    python_option(parser)
    return parser


APP = "app"
"""The command `tcexplore FILE`, which has no name on the command line."""

PARSERS: dict[str, Callable[[], Parser]] = {
    APP: app_parser,
    "check": check_parser,
    **{entry.name: partial(study_parser, entry.name) for entry in STUDIES if entry.command},
    "export": export_parser,
    "open": open_parser,
    "run": run_parser,
    "serve": serve_parser,
    "doctor": doctor_parser,
}
"""Functions that make the parser of each command whose options a configuration file may set."""

COMMAND_NAMES = tuple(name for name in (*PARSERS, "config") if name != APP)
"""First words of a command line that are commands."""
