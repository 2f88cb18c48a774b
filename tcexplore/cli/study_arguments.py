"""The grammar of `compare`, `sweep` and `blame`."""

from __future__ import annotations

from collections.abc import Sequence

from tcexplore.cli import argument_types as kinds
from tcexplore.cli.options import Parser, compile_options, config, report_options, vary_option
from tcexplore.cli.request import Request, StudyOptions
from tcexplore.studies.study_job import EACH_TIME_FOR, EACH_TIMEOUT

STATUS = (
    "exit status: 0 done, 2 the file or the arguments are at fault, 3 the compiler or the worker failed, 130 stopped"
)


def compare(arguments: Sequence[str], argv: tuple[str, ...]) -> Request:
    parser = Parser(
        prog="tcexplore compare",
        description="Every mode and backend side by side, each in a worker of its own. Ctrl-C keeps what is there.",
        epilog=STATUS,
    )
    compile_options(parser, how=False, dynamic=False)
    what = parser.add_argument_group("what to compare")
    names = kinds.several(kinds.name)
    what.add_argument(
        "--modes", type=names, default=(), metavar="A,B", help="default: every mode that this torch lists"
    )
    what.add_argument(
        "--backends", type=names, default=(), metavar="A,B",
        help="default: eager, aot_eager, inductor, and cudagraphs on a GPU",
    )  # fmt: skip
    what.add_argument(
        "--dynamic", type=kinds.several(kinds.dynamic), default=(False, True), metavar="A,B",
        help="of true, false, auto (default: false,true)",
    )  # fmt: skip
    report_options(parser.add_argument_group("report"), EACH_TIME_FOR, "one of the runs", EACH_TIMEOUT)
    given = parser.parse_args(arguments)
    study = StudyOptions(modes=given.modes, backends=given.backends, dynamic=given.dynamic)
    given.dynamic = "auto"
    return Request(
        "compare", given.file, argv, config(given),
        json=given.json, timeout=given.timeout, time_for=given.time_for, study=study,
    )  # fmt: skip


def sweep(arguments: Sequence[str], argv: tuple[str, ...]) -> Request:
    parser = Parser(
        prog="tcexplore sweep",
        description="One dimension of the inputs at several sizes: eager, compiled for each, compiled for all.",
        epilog=STATUS,
    )
    compile_options(parser, dynamic=False)
    what = parser.add_argument_group("what to go through")
    what.add_argument("--dim", type=kinds.count, default=0, metavar="N", help="which dimension (default: 0)")
    sizes = kinds.several(kinds.at_least_one)
    what.add_argument(
        "--sizes", type=sizes, required=True, metavar="1,2,4", help="the sizes, in the order of the calls"
    )
    report_options(parser.add_argument_group("report"), EACH_TIME_FOR, "one of the runs", EACH_TIMEOUT)
    given = parser.parse_args(arguments)
    return Request(
        "sweep", given.file, argv, config(given), json=given.json, timeout=given.timeout, time_for=given.time_for,
        study=StudyOptions(dim=given.dim, sizes=given.sizes),
    )  # fmt: skip


def storm(arguments: Sequence[str], argv: tuple[str, ...]) -> Request:
    parser = Parser(
        prog="tcexplore storm",
        description="The calls that the file makes, or that --vary makes of them: what recompiles, what it costs, and "
        "what each change that might spare it comes to, in a worker of its own.",
        epilog=STATUS,
    )
    compile_options(parser)
    what = parser.add_argument_group("what to vary")
    vary_option(what)
    what.add_argument(
        "--buckets", action="append", type=kinds.vary, default=[], metavar="SPEC",
        help="sizes to pad to, 'x.0=16,64,256' (default: the next power of two)",
    )  # fmt: skip
    report_options(parser.add_argument_group("report"), None, "one of the runs", EACH_TIMEOUT)
    given = parser.parse_args(arguments)
    buckets, given.buckets = tuple(given.buckets), ()
    return Request(
        "storm", given.file, argv, config(given), json=given.json, timeout=given.timeout, time_for=0.0,
        study=StudyOptions(buckets=buckets),
    )  # fmt: skip


def ship(arguments: Sequence[str], argv: tuple[str, ...]) -> Request:
    parser = Parser(
        prog="tcexplore ship",
        description="What torch can save of the compile: saved in one worker, loaded in a second with empty caches, "
        "and what that spares; and the names in the state dict.",
        epilog=STATUS,
    )
    compile_options(parser)
    report_options(parser.add_argument_group("report"), None, "one of the runs", EACH_TIMEOUT)
    given = parser.parse_args(arguments)
    return Request(
        "ship", given.file, argv, config(given), json=given.json, timeout=given.timeout, time_for=0.0
    )  # fmt: skip


def blame(arguments: Sequence[str], argv: tuple[str, ...]) -> Request:
    parser = Parser(
        prog="tcexplore blame",
        description="Which layer of the compiler crashes, or gives a wrong result: the program is run on each.",
        epilog=f"{STATUS}; 1 when a layer is to blame",
    )
    compile_options(parser, how=False)
    parser.add_argument("--mode", default="default", help="torch.compile's mode on the last rung (default: default)")
    report = parser.add_argument_group("report")
    report.add_argument("--repro", metavar="DIR", help="write what shows the fault there, to be run on its own")
    report_options(report, None, "one of the runs", EACH_TIMEOUT)
    given = parser.parse_args(arguments)
    return Request(
        "blame", given.file, argv, config(given), json=given.json, timeout=given.timeout, time_for=0.0,
        study=StudyOptions(repro=given.repro),
    )  # fmt: skip
