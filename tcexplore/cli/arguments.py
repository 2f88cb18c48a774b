"""The request of each command line, completed by configuration files."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from tcexplore.cli.configuration.config_file import ConfigError, ConfigFile, config_files
from tcexplore.cli.configuration.config_values import (
    add_negation,
    config_values,
    configurable,
    converted,
    guarded,
    set_by_environment,
)
from tcexplore.cli.error_line import print_error
from tcexplore.cli.file_argument import BadFileError, split
from tcexplore.cli.options import Parser, config, fake_ranks, limits, only_python, outputs
from tcexplore.cli.parsers import APP, COMMAND_NAMES, PARSERS, study_request
from tcexplore.cli.request import ConfigQuery, Export, Launch, Request, TraceChoice
from tcexplore.studies.registry import STUDIES
from tcexplore.ui.appearance import make_appearance


def parse_options(parser: Parser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of a command; options that they leave out come from configuration files.

    Exits with 2 and one line on stderr if one of them is invalid.
    """
    if "-h" in arguments or "--help" in arguments:
        return parser.parse_args(arguments)
    options = configurable(parser)
    defaults = {name: (action.default, action.required) for name, action in options.items()}
    for name, action in options.items():
        action.default, action.required = argparse.SUPPRESS, False
        add_negation(parser, name, action)
    given = parser.parse_args(arguments)
    for name, action in options.items():
        if set_by_environment(name) and not hasattr(given, action.dest):
            setattr(given, action.dest, True)
    try:
        configure(parser, given, config_files(model_path(given)))
    except ConfigError as error:
        print_error(str(error), parser.prog)
        parser.exit(2)
    for name, action in options.items():
        default, required = defaults[name]
        if hasattr(given, action.dest):
            continue
        if required:
            parser.error(f"the following arguments are required: --{name}")
        if default is not argparse.SUPPRESS:
            setattr(given, action.dest, default)
    return given


def model_path(given: argparse.Namespace) -> str:
    """Return the path of the model file, or the working directory for a command without one."""
    target = getattr(given, "file", None)
    if not target:
        return "."
    try:
        return split(target)[0]
    except (BadFileError, ValueError):
        return str(target)


def trusts(given: argparse.Namespace) -> bool:
    """Return whether `--trust` was given."""
    return bool(getattr(given, "trust", False))


def configure(parser: Parser, given: argparse.Namespace, files: Sequence[ConfigFile]) -> None:
    """Set the options that the command line leaves out from configuration files. Raises `ConfigError`."""
    if not files:
        return
    from tcexplore.cli.config_command import check_keys

    options = configurable(parser)
    for file in files:
        check_keys(file, parser)
    for name, value in config_values(files, parser, model_path(given)).items():
        action = options[name]
        if not hasattr(given, action.dest):
            setattr(given, action.dest, guarded(name, converted(action, value), value, trusted=trusts(given)))


def parse(arguments: Sequence[str]) -> Request:
    """Return the request of these arguments. Exits with 2 and one line on stderr if they are invalid."""
    before, after = _split(arguments)
    if before and before[0] == "config":
        return config_request(before[1:])
    command = before.pop(0) if before and before[0] in COMMAND_NAMES else APP
    if command == APP and (similar := _similar_command(before)):
        Parser(prog="tcexplore").error(f"there is no command {before[0]!r}; did you mean {similar}?")
    parser = PARSERS[command]()
    request = _REQUESTS[command](parser, parse_options(parser, before), after)
    return request._replace(app_arguments=_app_arguments(before, after)) if command == "serve" else request


def _app_arguments(before: Sequence[str], after: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments of `serve` without `--port`, which the app does not have."""
    ports = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    ports.add_argument("--port")
    _, others = ports.parse_known_args(before)
    return (*others, "--", *after) if after else tuple(others)


def _similar_command(arguments: Sequence[str]) -> str:
    """Return the command closest to a first word that is neither a command nor a file; empty if none is close."""
    if len(arguments) < 2 or arguments[0].startswith("-") or arguments[0].partition(":")[0].endswith(".py"):
        return ""
    if os.path.exists(arguments[0].partition(":")[0]):
        return ""
    import difflib  # not imported before the first frame

    return next(iter(difflib.get_close_matches(arguments[0], COMMAND_NAMES, 1)), "")


def _split(arguments: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Split at the first `--`."""
    if "--" not in arguments:
        return list(arguments), ()
    at = list(arguments).index("--")
    return list(arguments[:at]), tuple(arguments[at + 1 :])


def _app(parser: Parser, given: argparse.Namespace, argv: tuple[str, ...]) -> Request:
    fake = fake_ranks(parser, given)
    return Request(
        "app", given.file, argv, config(given), standbys=given.standbys, fake=fake,
        history=not given.no_history,
        target_given=hasattr(given, "target"),
        appearance=make_appearance(given.theme, given.keymap, given.targets),
        python=tuple(given.python) if fake is None else only_python(parser, given), trust=given.trust,
    )  # fmt: skip


def _serve(parser: Parser, given: argparse.Namespace, argv: tuple[str, ...]) -> Request:
    return _app(parser, given, argv)._replace(command="serve", port=given.port)


def _check(parser: Parser, given: argparse.Namespace, argv: tuple[str, ...]) -> Request:
    return Request(
        "check", given.file, argv, config(given), json=given.json, timeout=given.timeout, time_for=given.time_for,
        calls=given.calls, limits=limits(given), recompile_queries=tuple(given.recompile_check),
        outputs=outputs(given), fake=fake_ranks(parser, given), python=only_python(parser, given), trust=given.trust,
    )  # fmt: skip


def _export(parser: Parser, given: argparse.Namespace, argv: tuple[str, ...]) -> Request:
    return Request(
        "export", given.file, argv, replace(config(given), assembly=True), timeout=given.timeout, time_for=0.0,
        export=Export(given.kernel, given.to, given.force), python=only_python(parser, given), trust=given.trust,
    )  # fmt: skip


def _open(parser: Parser, given: argparse.Namespace, _argv: tuple[str, ...]) -> Request:
    if given.follow and any("://" in path for path in given.paths):
        parser.error("--follow needs local paths; on the job's machine, use it over SSH")
    report_only = given.report or given.json or given.summary
    choice = TraceChoice(tuple(given.paths), given.job, given.rank, given.against, report_only, given.follow)
    return Request("open", given.paths[0], json=given.json, limits=limits(given), trace=choice, outputs=outputs(given),
                   appearance=make_appearance(given.theme, given.keymap))  # fmt: skip


def _run(parser: Parser, given: argparse.Namespace, argv: tuple[str, ...]) -> Request:
    if not argv:
        parser.error("a command is needed after --")
    return Request("run", argv[0], argv, json=given.json, launch=Launch(given.trace, given.detach),
                   appearance=make_appearance(given.theme, given.keymap))  # fmt: skip


def _doctor(parser: Parser, given: argparse.Namespace, _argv: tuple[str, ...]) -> Request:
    return Request("doctor", python=only_python(parser, given), trust=given.trust)


_REQUESTS: dict[str, Callable[[Parser, argparse.Namespace, tuple[str, ...]], Request]] = {
    "app": _app,
    "serve": _serve,
    "check": _check,
    **{entry.name: partial(study_request, entry.name) for entry in STUDIES if entry.command},
    "export": _export,
    "open": _open,
    "run": _run,
    "doctor": _doctor,
}


def config_request(arguments: Sequence[str]) -> Request:
    """Return the request of `tcexplore config`. Exits with 2 and one line on stderr if an argument is invalid."""
    parser = Parser(
        prog="tcexplore config",
        usage="tcexplore config [--explain] [--keys] [--json] [FILE] [any option of a command]",
        description="Show which configuration applies to a model file: the files, and each value that they set.",
        examples=("--explain model.py", "model.py --target h100", "--explain model.py --json", "--keys --keymap vim"),
        epilog="exit status: 0 ok, 2 a configuration file or an argument is invalid",
    )
    parser.add_argument("file", metavar="FILE", nargs="?", default="", help="the model file (default: this folder)")
    parser.add_argument("--explain", action="store_true", help="show every option, with its value and its source")
    parser.add_argument("--keys", action="store_true", help="show the actions of the app with their keys")
    parser.add_argument("--json", action="store_true", help="print JSON")
    _add_options(parser)
    given = parser.parse_args(arguments)
    own = ("file", "explain", "keys", "json")
    flags = {name: value for name, value in vars(given).items() if name not in own}
    return Request("config", given.file, json=given.json, query=ConfigQuery(given.explain, given.keys, flags))


def _add_options(parser: Parser) -> None:
    """Add the options of all commands that configuration files can set; the first command with a name decides."""
    known = set[str]()
    for make in PARSERS.values():
        for name, action in configurable(make()).items():
            if known.isdisjoint(action.option_strings):
                known.update(action.option_strings)
                action.default, action.required, action.help = argparse.SUPPRESS, False, argparse.SUPPRESS
                parser._add_action(action)
                add_negation(parser, name, action)
