"""The grammar of `cure`."""

from __future__ import annotations

from collections.abc import Sequence

from tcexplore.cli import argument_types as kinds
from tcexplore.cli.options import Parser, compile_options, config, report_options
from tcexplore.cli.request import Request, StudyOptions
from tcexplore.studies.study_job import EACH_TIME_FOR, EACH_TIMEOUT


def cure(arguments: Sequence[str], argv: tuple[str, ...]) -> Request:
    """The request."""
    parser = Parser(
        prog="tcexplore cure",
        description="For each graph break a change to your lines that removes it, tried in a worker of its own: is the "
        "break gone, are the results the same, is it faster? Nothing is written without --write.",
        epilog="exit status: 0 every break has a proven cure, 1 some have none, 2 the file or the arguments are at "
        "fault, 3 the compiler or the worker failed, 130 stopped",
    )
    compile_options(parser)
    what = parser.add_argument_group("what to cure")
    what.add_argument("--break", type=kinds.at_least_one, metavar="N", dest="number", help="the Nth break alone")
    what.add_argument("--write", action="store_true", help="write the proven cures to your files")
    report_options(parser.add_argument_group("report"), EACH_TIME_FOR, "one of the runs", EACH_TIMEOUT)
    given = parser.parse_args(arguments)
    return Request(
        "cure", given.file, argv, config(given), json=given.json, timeout=given.timeout, time_for=given.time_for,
        study=StudyOptions(number=given.number, write=given.write),
    )  # fmt: skip
