"""The parser of each command, and its request, completed by configuration files."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tcexplore import __version__
from tcexplore.cli.configuration import (
    FILES,
    ONE_CALL,
    TABLES,
    ConfigError,
    ConfigFile,
    ConfigValue,
    add_negation,
    command_of,
    config_files,
    config_values,
    configurable,
    converted,
    guarded,
    is_shared,
    set_by_environment,
)
from tcexplore.cli.file_argument import BadFileError, split
from tcexplore.cli.options import (
    REPORT,
    ConfigQuery,
    Export,
    Launch,
    Parser,
    Question,
    Request,
    TraceChoice,
    chosen,
    make_request,
    options_of,
    require_one_python,
)
from tcexplore.cli.terminal import print_error
from tcexplore.studies.registry import STUDIES, StudyName

# ---- parsers

APP = "app"
"""The command `tcexplore FILE`, which has no name on the command line."""

EXIT_STATUS = "2 error in FILE or arguments, 3 error in the compiler or the worker"

_COMMAND_HELP = {
    "FILE[:NAME]": "open the explorer, recompile on every save",
    "check FILE[:NAME]": "run once and print a report, or JSON",
    "ask FILE[:NAME] WHAT": "answer one question briefly, for agents and scripts",
    "diff RUN RUN": "which kernels differ between two runs, and why: versions, modes, commits, traces",
    **{f"{entry.name} FILE[:NAME]": entry.summary[0].lower() + entry.summary[1:] for entry in STUDIES if entry.command},
    "export FILE[:NAME]": "write a kernel as files, or a profile with lines",
    "open PATH…": "open a TORCH_TRACE: its graphs, breaks, kernels, and the rank that differs",
    "run -- COMMAND": "run a job such as `torchrun train.py`, and show what its ranks compile",
    "mcp": "tools for agents (Model Context Protocol)",
    "serve-session FILE": "watch a file without a screen, and answer `ask` at once",
    "serve FILE[:NAME]": "open the explorer in a browser of this machine, or through an SSH tunnel",
    "config [FILE]": "show which configuration applies, and where each value is from",
    "doctor": "show what this machine can do, and what is missing",
}

COMMANDS = "\n".join([
    "commands:", *(f"  tcexplore {usage:<24}{text}" for usage, text in _COMMAND_HELP.items()), "",
    "Arguments after -- are passed to FILE if it is a script.", "",
])  # fmt: skip

_PARSERS: dict[str, dict[str, Any]] = {
    APP: {
        "description": "The terminal explorer for torch.compile: see on every save how your model is compiled.",
        "examples": ("model.py", "model.py:net --mode max-autotune", "train.py --target h100 -- --epochs 1"),
        "epilog": COMMANDS,
        "formatter_class": argparse.RawDescriptionHelpFormatter,
    },
    "check": {
        "description": "Run the file once without a screen, and print a report.",
        "examples": (
            "model.py --json > report.json",
            "model.py --max-breaks 0 --min-speedup 1.2 --summary",
            "model.py --max-breaks 0 --own models/ --allow breaks.toml",
            "model.py --baseline report.json --github --sarif tcexplore.sarif",
            "model.py --recompile-check 'f32[33,512]'",
            "traces/ --max-recompiles 3",
        ),
        "epilog": f"exit status: 0 ok, 1 a limit was exceeded, {EXIT_STATUS}",
    },
    "ask": {
        "description": "Answer one question about FILE in a few lines: a model file, a trace, or a report of check "
        "--json. A running session, or the app, answers at once; else the file is run.",
        "examples": (
            "model.py", "model.py breaks", "model.py kernels --slowest 5", "model.py why-not-fused k-3f2a91c04 k-90b1",
            "model.py guards --line 21", "model.py recompile 'f32[33, 512]'", "model.py diff --against report.json",
            "model.py b-3f2a91c04 --json",
        ),
        "formatter_class": argparse.RawDescriptionHelpFormatter,
        "intermixed": True,
    },
    "diff": {
        "description": "Compare two runs: their kernels, aligned by ops and lines, the difference of time, and its "
        "causes. Settings that differ are tried in separate processes. A run is a model file or a trace.",
        "examples": (
            "model.py \"model.py --mode max-autotune\"", "\"model.py --python .venv-2.11\" \"model.py --python .venv\"",
            "model.py@HEAD~1 model.py --json", "monday/ tuesday/",
        ),
        "epilog": f"exit status: 0 compared, {EXIT_STATUS}",
    },
    "export": {
        "description": "Write one kernel into a folder: its source, a file that runs and times it if torch provides "
        "one, and every stage down to machine code. Or write a profile of torch.profiler as a Chrome trace in which "
        "each kernel has its line, ops and module, or as stacks for speedscope.",
        "examples": (
            "model.py --kernel cpp_fused_add_0 --to kernel",
            "model.py --target h100 --kernel triton_poi_fused_0 --to kernel",
            "profile.json.gz --trace traces/ --perfetto with_lines.json",
            "profile.json.gz --trace traces/ --speedscope stacks.json",
        ),
    },
    "open": {
        "description": "Open what a job wrote with TORCH_TRACE: the explorer's panes for any rank, and the first "
        "difference between ranks. Without a terminal, print a report.",
        "examples": (
            "traces/", "traces/ --json", "traces.tar.xz --rank 3", "traces/ --follow", "s3://bucket/job/traces",
        ),
        "epilog": "exit status: 0 ok, 1 a limit was exceeded, 2 nothing can be read",
    },
    "run": {
        "usage": "tcexplore run [--trace DIR] [--detach] [--json] -- COMMAND",
        "description": "Run a command with TORCH_TRACE, and show what its ranks compile while it runs. Without a "
        "terminal, its output passes through, and a summary follows on stderr.",
        "examples": ("-- python train.py", "-- torchrun --nproc-per-node 2 train.py", "--detach -- python train.py"),
        "epilog": "exit status: that of COMMAND",
    },
    "serve-session": {
        "description": "Watch FILE without a screen, and answer `tcexplore ask FILE` within about a second of an edit, "
        "over a socket that only you can open. A save is run for its structure, and timed when a question needs it.",
        "examples": ("model.py", "model.py --mode max-autotune"),
        "epilog": f"exit status: 0 ended by a signal, {EXIT_STATUS}",
    },
    "mcp": {
        "description": "Serve tools for agents over standard input and output (Model Context Protocol): ask, fix, "
        "study, check. Only files below the working folder are run. Each has a session that notices edits.",
        "examples": ("", "--python .venv"),
        "epilog": "exit status: 0 the client has closed standard input, 2 the package mcp is missing",
    },
    "serve": {
        "description": "Serve the explorer to a browser: only on this machine, and only with the token that is "
        "printed. From another machine, use an SSH tunnel. The other options are those of `tcexplore FILE`.",
        "examples": ("model.py", "model.py --port 8080 --target h100"),
    },
    "doctor": {
        "description": "Show what this machine can do, and what to install.",
        "examples": ("", "--python .venv"),
    },
}  # fmt: skip
"""Texts of the help of each command that is no study."""


def _questions() -> str:
    """Return the list of questions for the help of `ask`."""
    from tcexplore.answers.questions import QUESTIONS

    lines = [f"  {f'{question.name} {question.usage}':<40}{question.summary}" for question in QUESTIONS.values()]
    return "\n".join(["questions:", *lines, "", f"exit status: 0 answered, {EXIT_STATUS}", ""])


class _AskParser(Parser):
    """Lists the questions in its help: only there, since a session is asked without importing them."""

    def format_help(self) -> str:
        self.epilog = _questions()
        return super().format_help()


def make_parser(command: str, kind: type[Parser] = Parser) -> Parser:
    """Return the parser of a command that is no study."""
    parser = kind(prog="tcexplore" if command == APP else f"tcexplore {command}", **_PARSERS[command])
    if command == APP:
        parser.add_argument("--version", action="version", version=f"tcexplore {__version__}")
    parser.add_options(options_of(command), grouped=command != "doctor")
    return parser


def study_parser(name: StudyName) -> Parser:
    """Return the parser of a study's command: its own options stand between those that all studies have."""
    from tcexplore.studies.study import RUN_TIMEOUT_S, RUN_TIMING_S, load_study

    study = load_study(name)
    parser = Parser(
        prog=f"tcexplore {name}",
        description=study.description,
        examples=study.examples,
        epilog=", ".join(filter(None, ("exit status: 0 ok", study.exit_note, f"{EXIT_STATUS}, 130 stopped"))),
    )
    varied = {"mode", "backend", "dynamic"} - study.compile_options
    options = [option for option in options_of("study") if option.key not in varied]
    parser.add_options(option for option in options if option.group != REPORT)
    study.add_options(parser)
    report = (option for option in options if option.group == REPORT and (study.timed or option.key != "time-for"))
    parser.add_options(report, timeout=RUN_TIMEOUT_S, time_for=RUN_TIMING_S)
    return parser


PARSERS: dict[str, Callable[[], Parser]] = {
    APP: partial(make_parser, APP),
    "check": partial(make_parser, "check"),
    **{entry.name: partial(study_parser, entry.name) for entry in STUDIES if entry.command},
    "ask": partial(make_parser, "ask", _AskParser),
    **{
        name: partial(make_parser, name)
        for name in ("diff", "export", "open", "run", "serve", "serve-session", "mcp", "doctor")
    },
}
"""Functions that make the parser of each command whose options a configuration file may set."""

COMMAND_NAMES = tuple(name for name in (*PARSERS, "config") if name != APP)
"""First words of a command line that are commands."""


# ---- parsing


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
    given = parse_options(parser, before)
    request = make_request(command, parser, given, after)
    if command == "serve":
        request = request._replace(app_arguments=_app_arguments(before, after))
    return _COMPLETE.get(command, complete_study)(parser, given, request)


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


# ---- what the options of each command mean together


def complete_app(parser: Parser, given: argparse.Namespace, request: Request) -> Request:
    if request.fake is not None:
        require_one_python(parser, given)
    return request


def complete_check(parser: Parser, given: argparse.Namespace, request: Request) -> Request:
    require_one_python(parser, given)
    if request.select is not None:
        from tcexplore.answers.selection import BadSelectionError, parse_selection

        try:
            parse_selection(request.select)
        except BadSelectionError as error:
            parser.error(f"--select: {error}")
        request = request._replace(json=True)
    return request


def complete_ask(parser: Parser, given: argparse.Namespace, request: Request) -> Request:
    require_one_python(parser, given)
    return request._replace(question=Question(**chosen(Question, given)))


def complete_export(parser: Parser, given: argparse.Namespace, request: Request) -> Request:
    if [bool(given.perfetto), bool(given.speedscope), bool(given.kernel and given.to)].count(True) != 1:
        parser.error(
            "give --kernel NAME and --to DIR for a kernel, or --perfetto OUT or --speedscope OUT for a profile"
        )
    if given.trace and given.kernel:
        parser.error("--trace goes with --perfetto and --speedscope")
    require_one_python(parser, given)
    config = replace(request.config, assembly=True)
    known = {name: value for name, value in chosen(Export, given).items() if value is not None}
    return request._replace(config=config, time_for=0.0, export=Export(**known))


def complete_open(parser: Parser, given: argparse.Namespace, request: Request) -> Request:
    if given.follow and any("://" in path for path in given.paths):
        parser.error("--follow needs local paths; on the job's machine, use it over SSH")
    choice = TraceChoice(**chosen(TraceChoice, given))
    report_only = given.report or given.json or given.summary
    return request._replace(target=given.paths[0], argv=(), trace=choice._replace(report=report_only))


def complete_run(parser: Parser, given: argparse.Namespace, request: Request) -> Request:
    if not request.argv:
        parser.error("a command is needed after --")
    return request._replace(target=request.argv[0], launch=Launch(**chosen(Launch, given)))


def complete_study(parser: Parser, given: argparse.Namespace, request: Request) -> Request:
    """Add the options of the study. Exits with 2 and one line on stderr if one is invalid."""
    from tcexplore.studies.study import load_study

    study = load_study(request.command)
    try:
        options = study.options(given)
    except ValueError as error:
        parser.error(str(error))
    if not study.compares_environments:
        require_one_python(parser, given)
    return request._replace(study=options, time_for=request.time_for if study.timed else 0.0)


def complete_diff(parser: Parser, given: argparse.Namespace, request: Request) -> Request:  # noqa: ARG001
    return request


_COMPLETE: dict[str, Callable[[Parser, argparse.Namespace, Request], Request]] = {
    "app": complete_app,
    "serve": complete_app,
    "serve-session": complete_check,
    "mcp": complete_check,
    "ask": complete_ask,
    "check": complete_check,
    "diff": complete_diff,
    "export": complete_export,
    "open": complete_open,
    "run": complete_run,
    "doctor": complete_check,
}
"""Functions for commands that are no studies."""


def config_request(arguments: Sequence[str]) -> Request:
    """Return the request of `tcexplore config`. Exits with 2 and one line on stderr if an argument is invalid."""
    parser = Parser(
        prog="tcexplore config",
        usage="tcexplore config [--explain] [--keys] [--json] [FILE] [any option of a command]",
        description="Show which configuration applies to a model file: the files, and each value that they set.",
        examples=("--explain model.py", "model.py --target h100", "--explain model.py --json", "--keys --keymap vim"),
        epilog="exit status: 0 ok, 2 a configuration file or an argument is invalid",
    )
    parser.add_options(options_of("config"))
    known = set[str]()
    for make in PARSERS.values():  # the first command with an option of a name decides
        for name, action in configurable(make()).items():
            if known.isdisjoint(action.option_strings):
                known.update(action.option_strings)
                action.default, action.required, action.help = argparse.SUPPRESS, False, argparse.SUPPRESS
                parser._add_action(action)
                add_negation(parser, name, action)
    given = parser.parse_args(arguments)
    own = ("file", "explain", "keys", "json")
    flags = {name: value for name, value in vars(given).items() if name not in own}
    return Request("config", given.file, json=given.json, query=ConfigQuery(given.explain, given.keys, flags))


# ---- keys of configuration files


_SLOW = frozenset(entry.name for entry in STUDIES)
"""Commands whose options are only known once their code is imported."""

Options = Mapping[str, argparse.Action]


def check_keys(file: ConfigFile, parser: Parser, *, whole: bool = False) -> None:
    """Raise `ConfigError` for an unknown key or a value of the wrong type.

    Tables of other studies are checked only if `whole`, since their code would delay the first frame.
    """
    checked = _Commands(parser, whole=whole)
    _check_table(file, file.content, (), checked, top=True)
    entries = file.content.get(FILES, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigError(f"{file.place((FILES,))}: write [[{'.'.join((*file.prefix, FILES))}]] with a pattern.")
    for number, entry in enumerate(entries):
        pattern = entry.get("pattern")
        patterns = pattern if isinstance(pattern, list) else [pattern]
        if not patterns or not all(isinstance(each, str) and each for each in patterns):
            raise ConfigError(f"{file.place((FILES, number))}: each entry needs a pattern, such as 'models/*.py'.")
        _check_table(file, entry, (FILES, number), checked, top=False)


class _Commands:
    """The options of each command, looked up when they are needed."""

    def __init__(self, parser: Parser, *, whole: bool) -> None:
        self.current = command_of(parser)
        self._known: dict[str, Options] = {self.current: configurable(parser)}
        self.whole = whole

    def options(self, command: str) -> Options:
        if command not in self._known:
            self._known[command] = configurable(PARSERS[command]())
        return self._known[command]

    def shared(self, name: str) -> argparse.Action | None:
        """Return the option that a key outside of a command's table sets."""
        for command in (self.current, *sorted(PARSERS, key=lambda each: each in _SLOW)):
            action = self.options(command).get(name)
            if action is not None and is_shared(name, action):
                return action
        return None

    def checks(self, name: str) -> bool:
        """Return whether to check the value: that of a theme needs Textual, which only the app imports."""
        return self.whole or name not in TABLES or name in self.options(self.current)

    def names(self) -> Iterator[str]:
        for command in PARSERS:
            yield from self.options(command)


def _check_table(
    file: ConfigFile, table: Mapping[str, Any], key: tuple[str | int, ...], commands: _Commands, *, top: bool
) -> None:
    special = (FILES,) if top else ("pattern",)
    for name, value in table.items():
        setting = ConfigValue(value, file, (*key, name))
        if name in special:
            continue
        if name in PARSERS and isinstance(value, dict):
            if commands.whole or name == commands.current or name not in _SLOW:
                _check_command(setting, commands.options(name))
        elif (action := commands.shared(name)) is not None:
            if commands.checks(name):
                converted(action, setting)
        elif name in PARSERS:
            raise ConfigError(f"{setting.place}: {name} is not a table of options.")
        else:
            raise _unknown(setting, name, lambda: [*commands.names(), *PARSERS, *special])


def _check_command(table: ConfigValue, options: Options) -> None:
    for name, value in table.value.items():
        setting = ConfigValue(value, table.file, (*table.key, name))
        if name not in options:
            raise _unknown(setting, name, lambda: options)
        converted(options[name], setting)


def _unknown(value: ConfigValue, name: str, known: Callable[[], Iterable[str]]) -> ConfigError:
    if name in ONE_CALL:
        return ConfigError(f"{value.place}: {name!r} belongs to one call, and cannot be set in a file.")
    import difflib  # not imported before the first frame

    nearest = difflib.get_close_matches(name, list(dict.fromkeys(known())), 1)
    question = f" Did you mean {nearest[0]!r}?" if nearest else " `tcexplore config --explain` lists all keys."
    return ConfigError(f"{value.place}: unknown key {name!r}.{question}")
