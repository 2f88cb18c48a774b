"""The options of all commands, one row for each, and the request that a command line makes.

An option needs its row here, and what reads it. Its value is in the request if `Request`, `Limits`, `Outputs` or
`Config` has a field of its name. Studies have further options (`Study.add_options`).
"""

from __future__ import annotations

import argparse
import re
from argparse import SUPPRESS
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, NamedTuple, NoReturn

from tcexplore import argument_types as kind
from tcexplore.cli.terminal import print_error
from tcexplore.events.config import FOLLOW_S, Config
from tcexplore.keymap import PRESETS
from tcexplore.targets.target_names import NATIVE, target_names
from tcexplore.ui.appearance import Appearance, make_appearance

# ---- the request


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
    must_fuse: tuple[tuple[int, int], ...] = ()
    """Pairs of lines of the model file whose ops must be in one kernel."""
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
    html: str | None = None
    github: bool = False
    """Whether to print annotations for GitHub Actions."""
    summary: bool = False
    """Whether to print a short report."""


class Export(NamedTuple):
    """What `export` writes: a kernel into the folder `to`, or a profile in another form, and whether to overwrite."""

    kernel: str = ""
    to: str = ""
    force: bool = False
    perfetto: str = ""
    """File of the Chrome trace; empty for a kernel."""
    speedscope: str = ""
    """File of the stacks; empty for a kernel or a Chrome trace."""
    trace: str = ""
    """The TORCH_TRACE of the profiled process; empty for none."""


class Question(NamedTuple):
    """What `ask` asks."""

    words: tuple[str, ...] = ()
    line: int | None = None
    slowest: int | None = None
    against: str | None = None
    """Report to compare with."""
    max_tokens: int = 2000
    """Size of the answer; 0 for no limit."""
    skip: int = 0
    """Items to leave out."""
    no_session: bool = False
    """Whether not to ask a running session."""


class TraceChoice(NamedTuple):
    """Traces, and which part of them to show."""

    paths: tuple[str, ...]
    trace: str = ""
    """The TORCH_TRACE of profiled processes; empty for none."""
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
    records: str = ""
    """Folder into which all records are written; empty for none."""


class Launch(NamedTuple):
    """How `run` starts its command."""

    trace: str | None
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
    """A parsed command line; times are in seconds. Defaults are those of the options."""

    command: str
    """`app`, `ask`, `check`, `config`, `diff`, `doctor`, `export`, `mcp`, `open`, `run`, `serve`, `serve-session` or
    the name of a study."""
    target: str = ""
    argv: tuple[str, ...] = ()
    """The arguments after `--`."""
    config: Config = Config()
    python: tuple[str, ...] = ()
    """Only the app and a study of environments take more than one."""
    trust: bool = False
    """Whether to trust the folder of the model file: to run its interpreter."""
    json: bool = False
    timeout: float = 600.0
    """A hanging program must not hang a CI job."""
    time_for: float = 3.0
    """Time of timing after the compile."""
    quick: bool = False
    """Whether to generate code only, and to measure nothing."""
    budget: float | None = None
    """Time limit of a whole study; None for no limit."""
    calls: int | None = None
    """The number of calls to recommend for; None for any number."""
    port: int = 8000
    """0 for any free one."""
    app_arguments: tuple[str, ...] = ()
    """For `serve`: the command line of the app."""
    recompile_check: tuple[str, ...] = ()
    """Inputs to check for a recompile."""
    limits: Limits = Limits()
    outputs: Outputs = Outputs()
    appearance: Appearance = Appearance()
    standbys: int = 2
    """Processes that the app keeps ready where each prepares itself: saves may come in pairs, and a GPU process needs
    seconds to prepare."""
    no_history: bool = False
    """Whether the app neither stores runs nor shows those of earlier starts."""
    target_given: bool = False
    """Whether the command line has a target."""
    study: Any = None
    """The options of a study."""
    export: Export | None = None
    question: Question | None = None
    """What `ask` asks."""
    runs: tuple[str, ...] = ()
    """The two runs that `diff` compares."""
    no_trials: bool = False
    """Whether `diff` tries no settings."""
    select: str | None = None
    """Keys of the report to print; None for all."""
    fake: FakeRanks | None = None
    """Ranks to run the script as; None for a file that is explored as usual."""
    launch: Launch | None = None
    """How `run` starts the command in `argv`."""
    query: ConfigQuery | None = None
    """What `config` shows."""
    trace: TraceChoice | None = None
    """The traces that `open` reads."""

    @property
    def history(self) -> bool:
        """Whether the app stores runs and shows those of earlier starts."""
        return not self.no_history


# ---- the options


class Option(NamedTuple):
    """One option, or a positional argument, in some commands."""

    flag: str
    commands: str
    """Those that have it, `study` for all studies."""
    help: str
    type: Callable[[str], Any] | None = None
    metavar: str | None = None
    group: str = ""
    """The heading above it in the help; empty for none."""
    action: Literal["store", "store_true", "append"] = "store"
    default: Any = None
    """If None, that of the field of this name in `Request`."""
    choices: Sequence[str] | Mapping[str, Any] | None = None
    required: bool = False
    nargs: str | int | None = None
    one_call: bool = False
    """Whether it belongs to one call: what to look at now, where to write. A configuration file cannot set it."""
    writes: bool = False
    """Whether it names a file to write."""
    variable: str = ""
    """An environment variable that sets the flag, above configuration files."""

    @property
    def key(self) -> str:
        """Its name in a configuration file."""
        return self.flag.lstrip("-")

    @property
    def dest(self) -> str:
        return self.key.replace("-", "_")

    def add(self, parser: Any, **changes: Any) -> None:
        """Add it to a parser or to a group of one; `changes` replace some of the settings."""
        settings: dict[str, Any] = {"help": self.help, "action": self.action}
        if self.action == "append":
            settings["default"] = []
        elif self.action == "store":
            settings["default"] = Request._field_defaults.get(self.dest) if self.default is None else self.default
            settings.update(nargs=self.nargs, choices=self.choices)
        if self.action != "store_true":
            settings.update(type=self.type, metavar=self.metavar)
        if not self.flag.startswith("-"):
            settings = {name: value for name, value in settings.items() if name not in ("default", "action")}
        elif self.required:
            settings["required"] = True
        if self.default is SUPPRESS:
            settings["default"] = SUPPRESS
        action = parser.add_argument(self.flag, **{**settings, **changes})
        action.one_call = self.one_call


HOW, RANKS, GPU, SCREEN = "how to compile", "ranks on one machine, without communication", "code for a GPU", "screen"
REPORT, LIMITS, OUTPUTS = "report", "limits", "reports for CI"

_NOTES = {LIMITS: "The exit status is 1 if one is exceeded.", OUTPUTS: "An existing FILE is replaced."}
"""Sentences below headings."""

APP = "app serve"
MODEL = "app serve check export study ask serve-session"

# fmt: off
OPTIONS: tuple[Option, ...] = (
    Option("--port", "serve", "0: any free one (default: %(default)s)", kind.count, "N"),
    Option("file", MODEL, "a Python file, and optionally the name in it to compile", metavar="FILE[:NAME]"),
    Option("runs", "diff", "a model file with options of check, such as \"model.py --mode max-autotune\"; its "
           "text in a commit of git, model.py@HEAD~1; or a trace", metavar="RUN", nargs=2),
    Option("--no-trials", "diff", "try no settings that differ", action="store_true"),
    Option("words", "ask", "the question: its name and arguments, or the id of a part (default: summary)",
           metavar="WHAT", nargs="*"),
    Option("--line", "ask", "only what belongs to this line of FILE", kind.at_least_one, "N", one_call=True),
    Option("--slowest", "ask", "only the N kernels that take the most time", kind.at_least_one, "N", one_call=True),
    Option("--against", "ask", "for diff: a report of check --json", None, "REPORT", one_call=True),
    Option("--max-tokens", "ask", "the size of the answer, 0 for no limit (default: %(default)s)", kind.count, "N",
           default=2000),
    Option("--skip", "ask", "leave out the first N items", kind.count, "N", default=0, one_call=True),
    Option("--json", "ask diff", "print JSON", action="store_true", one_call=True),
    Option("--no-session", "ask", "make a run, also if a session or the app shows FILE", action="store_true",
           one_call=True),
    Option("--mode", MODEL, "torch.compile's mode (default: default)", group=HOW, default=SUPPRESS),
    Option("--backend", MODEL, "torch.compile's backend (default: inductor)", group=HOW, default=SUPPRESS),
    Option("--dynamic", MODEL, "dynamic shapes (default: auto)", choices=kind.DYNAMIC, group=HOW, default=SUPPRESS),
    Option("--fullgraph", MODEL, "make graph breaks errors", action="store_true", group=HOW, default=SUPPRESS),
    Option("--compile-arg", MODEL,
           "a further argument of torch.compile: recompile_limit=4, isolate_recompiles=True, name=block, "
           "options={'max_autotune': True}, dynamic_shapes={'x': ['batch', None]}; repeat for more",
           kind.assignment, "NAME=VALUE", HOW, "append"),
    Option("--device", MODEL, "move model and inputs to this device first, such as cuda", group=HOW),
    Option("--train", MODEL, "run forward and backward", group=HOW, action="store_true"),
    Option("--grad", MODEL, "keep gradients on in a forward run (default: auto, only if the model needs them)",
           choices=kind.DYNAMIC, group=HOW, default="auto"),
    Option("--input", MODEL,
           "an input, for files without inputs: 'f32[64,512]' or mask='bool[64]'; repeat for more",
           None, "SPEC", HOW, "append"),
    Option("--seed", MODEL, "seed of all random generators (default: %(default)s)", kind.integer, group=HOW, default=0),
    Option("--threads", MODEL, "torch.set_num_threads(N)", kind.at_least_one, "N", HOW),
    Option("--python", f"{MODEL} mcp doctor",
           "the model's Python: an interpreter, or the folder of a virtual or conda environment (default: the active "
           "environment, or .venv beside FILE or above it, or the Python of tcexplore)",
           kind.name, "PATH", HOW, "append"),
    Option("--trust", f"{MODEL} mcp doctor diff",
           "run the .venv or the Python that the repository of FILE names, now and later (default: ask once on a "
           "terminal, else no); FILE itself is always run", group=HOW, action="store_true", one_call=True),
    Option("--follow", f"{APP} check",
           "end a script that calls torch.compile itself after S seconds, 0 for never (default: %(default)g)",
           kind.seconds, "S", default=FOLLOW_S),
    Option("--step", f"{APP} check",
           "the function or compiled region of a script whose call is a step, such as generate or Trainer.step "
           "(default: found from optimizers and regions)", kind.name, "FUNCTION"),
    Option("--no-eager-steps", f"{APP} check",
           "leave a script as it is: run none of its steps eagerly to time them", action="store_true"),
    Option("--no-captured-calls", f"{APP} check",
           "keep no calls of a script's regions to compare, time and profile them after the script",
           action="store_true"),
    Option("--region", MODEL,
           "of a script, a compiled region whose first call is the model and its inputs: Net, or '*' for the first "
           "that is called twice", kind.name, "NAME", HOW),
    Option("--repeat", f"{APP} check", "run a script again while it has too few steps for a verdict",
           action="store_true"),
    Option("--ranks", f"{APP} check", "run the script as each of N ranks, and compare", kind.at_least_one, "N", RANKS,
           one_call=True),
    Option("--rank", f"{APP} check", "run the script as this rank only", kind.count, "R", RANKS, one_call=True),
    Option("--world", f"{APP} check", "the number of ranks, with --rank", kind.at_least_one, "N", RANKS, one_call=True),
    Option("--target", f"{APP} check export",
           f"generate code for this GPU (need not be present): {', '.join(target_names())}, or a TARGET.toml file "
           f"(default: {NATIVE}, the device in the machine)", kind.target, "NAME", GPU, default=SUPPRESS),
    Option("--assembly", f"{APP} check export",
           "also compile C++ kernels to assembly, which takes some seconds each", group=GPU, action="store_true"),
    Option("--opcheck", f"{APP} check",
           "test each custom op with torch.library.opcheck, on the arguments of its first call", action="store_true"),
    Option("--standbys", f"{APP} serve-session mcp",
           "processes to keep ready where each must prepare itself, such as on a GPU, where each holds a context of "
           "about 500 MiB (default: %(default)s)", kind.at_least_one, "N"),
    Option("--no-history", APP,
           "neither store runs nor show those of earlier starts (also: TCEXPLORE_NO_HISTORY=1)", action="store_true",
           variable="TCEXPLORE_NO_HISTORY"),
    Option("--targets", APP, "a TARGET.toml to offer in the list of targets; repeat for more", kind.target_file, "FILE",
           action="append"),
    Option("paths", "open",
           "a folder, trace files, .gz, .zst or tar files of them, or a URL; or the profiles of a job, one per rank",
           metavar="PATH", nargs="+"),
    Option("--trace", "open", "with profiles: the TORCH_TRACE of the same processes, for lines, ops and guards", None,
           "PATH", default="", one_call=True),
    Option("--job", "open", "the job to open if there are several, from 1", kind.at_least_one, "N", one_call=True),
    Option("--rank", "open", "the rank to show first (default: 0)", kind.count, "N", one_call=True),
    Option("--against", "open", "another trace, such as yesterday's, to diff this one with", None, "PATH", default="",
           one_call=True),
    Option("--records", "open", "write all records of the trace into a new folder, with spans for Perfetto", None,
           "DIR", default="", one_call=True),
    Option("--follow", "open", "show what a running job writes, as it writes it", action="store_true", one_call=True),
    Option("--trace", "run", "write the trace into this folder (default: a new one)", None, "DIR", one_call=True),
    Option("--detach", "run", "leave the command running when tcexplore ends", action="store_true", one_call=True),
    Option("--json", "run", "pass the output through; the report is the last line of stdout", action="store_true",
           one_call=True),
    Option("--theme", f"{APP} open run",
           "a theme of tcexplore or Textual, such as tcexplore-light, nord or gruvbox (default: the last one)",
           kind.theme, "NAME", SCREEN),
    Option("--keymap", f"{APP} open run", f"{', '.join(PRESETS)}; `tcexplore config --keys` lists the keys",
           kind.keymap, "NAME", SCREEN),
    Option("--vary", "check",
           "vary an argument, by name or position: sizes of a dimension, 'x.0=1..64', or values, 'lr=0.1,0.01'; "
           "repeat to combine", kind.vary, "SPEC", action="append"),
    Option("--json", "check open study", "print the whole result as JSON", group=REPORT, action="store_true",
           one_call=True),
    Option("--report", "open", "print a report instead of opening the explorer", group=REPORT, action="store_true",
           one_call=True),
    Option("--kernel", "export", "name of the kernel in the report", kind.name, "NAME", one_call=True),
    Option("--to", "export", "the folder for the kernel, created if missing", kind.name, "DIR", one_call=True),
    Option("--perfetto", "export",
           "FILE is a profile of torch.profiler: write it as a Chrome trace with lines, ops and modules", kind.name,
           "OUT", one_call=True),
    Option("--speedscope", "export", "the same, as stacks of the host's threads for speedscope", kind.name, "OUT",
           one_call=True),
    Option("--trace", "export", "with these: the TORCH_TRACE of the profiled process", None, "PATH",
           one_call=True),
    Option("--force", "export", "overwrite existing files, except for the run's sources", action="store_true",
           one_call=True),
    Option("--timeout", "export", "give up if the run takes more than S seconds (default: %(default)g)",
           kind.positive_seconds, "S"),
    Option("--timeout", "check ask diff", "give up if the run takes more than S seconds (default: %(default)g)",
           kind.positive_seconds, "S", REPORT),
    Option("--timeout", "study", "give up if one of the runs takes more than S seconds (default: %(default)g)",
           kind.positive_seconds, "S", REPORT),
    Option("--time-for", "check study ask", "seconds of timing after each compile, 0 for none (default: %(default)g)",
           kind.seconds, "S", REPORT),
    Option("--select", "check",
           "print only these keys of the JSON report, with the main fields of each: breaks,kernels; breaks.* for all "
           "fields, breaks.stack for this one", None, "KEYS", REPORT, one_call=True),
    Option("--quick", "check ask diff",
           "structure only: graphs, breaks, guards and generated code, which is not compiled; nothing is measured",
           group=REPORT, action="store_true"),
    Option("--calls", "check", "report net time over N calls", kind.at_least_one, "N", REPORT),
    Option("--recompile-check", "check",
           "report whether a call with these inputs would recompile, without compiling anything: "
           "'f32[33,512], True'; repeat for more", kind.inputs, "INPUTS", REPORT, "append", one_call=True),
    Option("--budget", "study", "end the study after S seconds, with the results so far; what was left out is named",
           kind.positive_seconds, "S", REPORT),
    Option("--max-breaks", "check open", "at most N graph breaks", kind.count, "N", LIMITS),
    Option("--max-recompiles", "check open", "at most N recompiles", kind.count, "N", LIMITS),
    Option("--max-graphs", "check open", "at most N graphs", kind.count, "N", LIMITS),
    Option("--max-unique-kernels", "check open", "at most N different generated kernels", kind.count, "N", LIMITS),
    Option("--must-fuse", "check open", "ops of these two lines of FILE are in one generated kernel; repeat for more",
           kind.line_pair, "N,N", LIMITS, "append"),
    Option("--max-compile-seconds", "check open", "at most S seconds of compiling", kind.seconds, "S", LIMITS),
    Option("--min-cache-hits", "check",
           "at least this share of lookups in torch's compile caches hits, such as 0.9 or 90%%; enables these caches",
           kind.share, "SHARE", LIMITS),
    Option("--min-cache-hits", "open",
           "at least this share of lookups in torch's compile caches hits, such as 0.9 or 90%%",
           kind.share, "SHARE", LIMITS),
    Option("--min-speedup", "check", "compiled is at least X times as fast as eager", kind.ratio, "X", LIMITS),
    Option("--max-memory-ratio", "check", "compiled's peak memory is at most X times eager's", kind.ratio, "X", LIMITS),
    Option("--accuracy", "check", "compiled is as accurate as eager", group=LIMITS, action="store_true"),
    Option("--own", "check open", "count only breaks in this file or folder; repeat for more", kind.name, "PATH",
           LIMITS, "append"),
    Option("--allow", "check open",
           "do not count the breaks in this TOML file: [[allow]] with file, line or text, reason, expires",
           kind.name, "FILE", LIMITS),
    Option("--baseline", "check open", "nothing got worse by more than noise since this report of --json", kind.name,
           "FILE", LIMITS),
    Option("--sarif", "check open", "write a SARIF 2.1.0 log, for code scanning", kind.name, "FILE", OUTPUTS,
           writes=True),
    Option("--junit", "check open", "write JUnit XML, one test per limit", kind.name, "FILE", OUTPUTS, writes=True),
    Option("--gitlab", "check open", "write GitLab's code quality JSON", kind.name, "FILE", OUTPUTS, writes=True),
    Option("--markdown", "check open", "write a summary in Markdown", kind.name, "FILE", OUTPUTS, writes=True),
    Option("--html", "check open", "write the run as one HTML page that loads nothing", kind.name, "FILE", OUTPUTS,
           writes=True),
    Option("--github", "check open", "print annotations for GitHub Actions, and add to its step summary", group=OUTPUTS,
           action="store_true"),
    Option("--summary", "check open", "print a short report: verdict, counts and limits", group=OUTPUTS,
           action="store_true"),
    Option("file", "config", "the model file (default: this folder)", metavar="FILE", nargs="?"),
    Option("--explain", "config", "show every option, with its value and its source", action="store_true"),
    Option("--keys", "config", "show the actions of the app with their keys", action="store_true"),
    Option("--json", "config", "print JSON", action="store_true", one_call=True),
)
# fmt: on

COMPILE_ARGUMENTS = ("mode", "backend", "dynamic", "fullgraph")
"""Options that are arguments of `torch.compile`. Given ones also replace those of a file that compiles itself."""

_CONFIG = {option.dest for option in OPTIONS} & {field.name for field in fields(Config)}


def options_of(command: str) -> tuple[Option, ...]:
    """Return the options of a command, or of `study`."""
    return tuple(option for option in OPTIONS if command in option.commands.split())


class Parser(argparse.ArgumentParser):
    """Prints errors in one line, and examples below the help."""

    def __init__(self, *, examples: Sequence[str] = (), intermixed: bool = False, **settings: Any) -> None:
        """`examples` are command lines without the program's name; `intermixed` allows options between arguments."""
        super().__init__(allow_abbrev=False, **settings)
        self._examples = examples
        self._intermixed = intermixed

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        if self._intermixed:
            return self.parse_intermixed_args(args, namespace)
        return super().parse_args(args, namespace)

    def format_help(self) -> str:
        lines = [f"  {self.prog} {arguments}".rstrip() for arguments in self._examples]
        return super().format_help() + "\n".join(["", "examples:", *lines, ""] if lines else [])

    def error(self, message: str) -> NoReturn:
        """Print one line on stderr and exit with 2."""
        print_error(f"{message}{self._nearest(message)} (see {self.prog} --help)", self.prog)
        self.exit(2)

    def _nearest(self, message: str) -> str:
        """Return a question with the option whose name is closest to an unknown one; empty if none is close."""
        unknown = re.search(r"unrecognized arguments:.*?(--[\w-]+)", message)
        if unknown is None:
            return ""
        import difflib  # not imported before the first frame

        known = [name for name in self._option_string_actions if name.startswith("--")]
        nearest = difflib.get_close_matches(unknown[1], known, 1)
        return f"; did you mean {nearest[0]}?" if nearest else ""

    def add_options(self, options: Iterable[Option], *, grouped: bool = True, **defaults: Any) -> None:
        """Add options, below their headings if `grouped`; `defaults` replace those of some."""
        groups = {group.title: group for group in self._action_groups}
        for option in options:
            place: Any = self
            if option.group and grouped:
                if option.group not in groups:
                    groups[option.group] = self.add_argument_group(option.group, _NOTES.get(option.group))
                place = groups[option.group]
            option.add(place, **({"default": defaults[option.dest]} if option.dest in defaults else {}))


# ---- from options to the request


def make_request(command: str, parser: Parser, given: argparse.Namespace, argv: Sequence[str] = ()) -> Request:
    """Return the request of parsed options. Exits with 2 and one line on stderr if they contradict each other."""
    request = Request(
        command, getattr(given, "file", ""), tuple(argv), limits=Limits(**chosen(Limits, given)),
        outputs=Outputs(**chosen(Outputs, given)), target_given=hasattr(given, "target"),
    )._replace(**chosen(Request, given, but=("target", "trace")))  # fmt: skip
    if hasattr(given, "grad"):
        request = request._replace(config=_config(given))
    if hasattr(given, "ranks"):
        request = request._replace(fake=_fake_ranks(parser, given))
    if hasattr(given, "theme"):
        request = request._replace(appearance=make_appearance(given.theme, given.keymap, getattr(given, "targets", ())))
    return request


def chosen(record: Any, given: argparse.Namespace, but: Sequence[str] = ()) -> dict[str, Any]:
    """Return the options that a record has a field for, lists as tuples, except those of some names."""
    names = [name for name in record._fields if hasattr(given, name) and name not in but]
    return {name: _frozen(getattr(given, name)) for name in names}


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _config(given: argparse.Namespace) -> Config:
    """Return the configuration, with defaults for options that the command does not have."""
    values = {name: _frozen(getattr(given, name)) for name in _CONFIG if hasattr(given, name)}
    for name in ("dynamic", "grad"):
        values[name] = kind.DYNAMIC[values.get(name, "auto")]
    override = tuple(name for name in COMPILE_ARGUMENTS if hasattr(given, name))
    return Config(**values, override=override, inputs=tuple(given.input), compile_arguments=tuple(given.compile_arg))


def _fake_ranks(parser: Parser, given: argparse.Namespace) -> FakeRanks | None:
    """Return the ranks to run a script as; None without these options."""
    if given.ranks is None and given.rank is None and given.world is None:
        return None
    if (given.rank is None) != (given.world is None) or (given.ranks is None) == (given.world is None):
        parser.error("use either --ranks N, or --rank R with --world N")
    if given.rank is not None and given.rank >= given.world:
        parser.error(f"--rank {given.rank}: {given.world} ranks are numbered from 0 to {given.world - 1}")
    return FakeRanks(given.ranks or given.world, given.rank)


def require_one_python(parser: Parser, given: argparse.Namespace) -> None:
    """Exit with 2 if `--python` is repeated."""
    if len(given.python) > 1:
        parser.error("use --python once; tcexplore modes compares several, as does the app")
