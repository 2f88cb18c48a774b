"""The command line of a study."""

from __future__ import annotations

import argparse

from tcexplore.argument_types import positive_seconds
from tcexplore.cli.options import Parser, compile_options, config, only_python, report_options
from tcexplore.cli.request import Request
from tcexplore.studies.registry import StudyName

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
        budget_s=given.budget, study=options, python=python,
    )  # fmt: skip
