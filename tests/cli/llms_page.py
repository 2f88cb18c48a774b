"""docs/llms.txt, rendered from the parsers and the JSON Schema: commands and JSON keys for programs."""

from __future__ import annotations

import argparse
from typing import Any

from tcexplore.cli.arguments import APP, PARSERS
from tcexplore.cli.options import Parser

INTRO = """\
# tcexplore

> The terminal explorer for torch.compile. It runs a Python file that defines `model` and `inputs`, or a script that
> calls torch.compile itself, and shows what torch did: FX graphs, graph breaks and their reasons, guards, recompiles,
> generated kernels, and the time of eager against compiled.

Ask one question at a time: `tcexplore ask FILE breaks` answers in at most 2,000 tokens, with ids that stay the same
after an edit of something else. `tcexplore serve-session FILE &` keeps a session, which answers within about a second
of an edit; `tcexplore mcp` has the same as tools. `tcexplore check FILE --json` prints everything about one run, which
is long: `--select breaks,kernels` prints only these keys. A study such as `tcexplore fix FILE --json` makes many runs.
Answers are on stdout, progress is on stderr. Nothing writes the model file, except `fix --write`. FILE is a Python file
or a notebook (.ipynb): its cells marked with the tag or the comment `tcexplore`, or else all of them. `FILE:NAME`
chooses a module, a class or a function.

Exit status: 0 ok, 1 a limit was exceeded, 2 error in FILE or arguments, 3 error in the compiler or the worker.

- [Agents](agents.md): which question for which task, sessions, and the MCP server
- [The JSON report](report.md): every key, with its type, unit and meaning
- [CI](ci.md): limits, baselines, annotations, and the pytest fixture
- [Guarantees](guarantees.md): what tcexplore never does to files, the network and processes
- [Measuring](measuring.md): what verdicts, intervals, accuracy and memory mean
- [Targets](targets.md): code for a GPU that need not be present
- [Traces](traces.md): ranks of a job, finished or running
- [Architecture](architecture.md): for changes to tcexplore itself

## Recipes

- What is there to see? `tcexplore ask FILE`; what to do next? `tcexplore ask FILE next`
- Where are the graph breaks, why, and which edit may remove them? `tcexplore ask FILE breaks`
- Which kernels take the time? `tcexplore ask FILE kernels --slowest 5`; the source of one: `tcexplore ask FILE k-…`
- Why are two kernels not fused? `tcexplore ask FILE why-not-fused A B`
- What is on line 21? `tcexplore ask FILE line 21`
- What did my edit change? `tcexplore ask FILE diff`, in a session
- Which edit removes them, verified against the original? `tcexplore fix FILE --json`
- Is it faster, beyond noise? `tcexplore check FILE --json`, key `timing`: `verdict`, `speedup`, `low`, `high`
- Would a call with other inputs recompile? `tcexplore ask FILE recompile 'f32[33,512]'`
- What code would an H100 run? `tcexplore check FILE --target h100 --json`, key `kernels`: no GPU is needed
- Which rank of a job differs? `tcexplore open TRACE_DIR --json`, key `divergence`
"""


def render(schema: dict[str, Any]) -> str:
    """Return the whole page."""
    keys = [f"- `{name}`: {_meaning(form)}" for name, form in schema["properties"].items()]
    commands = [part for name, make in PARSERS.items() for part in _command(name, make())]
    return "\n".join([INTRO, "## Commands", *commands, "", "## Keys of `tcexplore check --json`", "", *keys, ""])


def _meaning(form: dict[str, Any]) -> str:
    reference = next((f"`{part['$ref'].rpartition('/')[2]}`" for part in _parts(form) if "$ref" in part), "")
    return " ".join(filter(None, [reference, form.get("description", "")])) or f"`{form.get('type', 'any')}`"


def _parts(form: dict[str, Any]) -> list[dict[str, Any]]:
    return [form, *form.get("anyOf", ()), form.get("items") or {}]


def _command(name: str, parser: Parser) -> list[str]:
    program = "tcexplore FILE" if name == APP else parser.prog
    options = [f"- {_usage(action)}: {_help(action)}" for action in parser._actions if action.dest != "help"]
    return ["", f"### {program}", "", parser.description or "", "", *options]


def _usage(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else f" {action.metavar or _choices(action) or action.dest.upper()}"
    return f"`{action.option_strings[-1]}{value}`" if action.option_strings else f"`{action.metavar or action.dest}`"


def _choices(action: argparse.Action) -> str:
    return "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""


def _help(action: argparse.Action) -> str:
    values = {**vars(action), "prog": "tcexplore"}
    return (action.help or "") % values
