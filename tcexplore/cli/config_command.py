"""`tcexplore config`: which configuration applies, the source of each value, and whether keys and types are valid."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tcexplore.cli.arguments import PARSERS, check_keys
from tcexplore.cli.configuration import (
    VARIABLES,
    ConfigError,
    ConfigFile,
    config_files,
    config_values,
    configurable,
    converted,
    is_shared,
    set_by_environment,
    user_config_path,
)
from tcexplore.cli.file_argument import BadFileError, split
from tcexplore.cli.options import Request
from tcexplore.cli.terminal import refuse
from tcexplore.events import clean
from tcexplore.events.config import Config


@dataclass(frozen=True, slots=True)
class ExplainedValue:
    """The value of an option, and its source."""

    name: str
    """The option's key; `modes.timeout` if the value differs from that of other commands."""
    value: Any
    source: Literal["flag", "environment", "file", "default"]
    file: str = ""
    line: int | None = None
    place: str = ""
    """The source as text."""


def show_config(request: Request) -> int:
    """Print the configuration of a model file; return the exit status."""
    query = request.query
    assert query is not None, "the parser sets it"
    try:
        model = split(request.target)[0] if request.target else "."
        files = config_files(model)
        for file in files:
            check_keys(file, PARSERS["check"](), whole=True)
        values = list(explained(files, model, query.flags))
    except ConfigError as error:
        return refuse(str(error), "tcexplore config")
    except BadFileError as error:
        return refuse(error.sentence, "tcexplore config")
    if query.keys:
        return _print_keys(next(value for value in values if value.name == "keymap"), as_json=request.json)
    if request.json:
        _print_json(request.target, files, values)
    else:
        sys.stdout.write("".join(f"{clean(line)}\n" for line in _lines(files, values, everything=query.explain)))
    return 0


def explained(files: Sequence[ConfigFile], model: str, flags: Mapping[str, Any]) -> Iterator[ExplainedValue]:
    """Yield the value of each option of each command; commands that agree share one. Raises `ConfigError`."""
    shared = dict[str, ExplainedValue]()
    for command, make in PARSERS.items():
        parser = make()
        values = config_values(files, parser, model)
        for name, action in configurable(parser).items():
            is_separate = not is_shared(name, action)
            value = ExplainedValue(name, _default(action), "default", place="default")
            if not is_separate and action.dest in flags:
                value = ExplainedValue(name, flags[action.dest], "flag", place=f"command line, --{name}")
            elif set_by_environment(name):
                value = ExplainedValue(name, True, "environment", place=f"environment, {VARIABLES[name]}")
            elif name in values:
                setting = values[name]
                is_separate = is_separate or command in setting.key
                value = ExplainedValue(
                    name, _plain(converted(action, setting)), "file", setting.file.path, setting.file.line(setting.key),
                    setting.place,
                )  # fmt: skip
            if is_separate or shared.setdefault(name, value) != value:
                yield ExplainedValue(
                    f"{command}.{name}", value.value, value.source, value.file, value.line, value.place
                )
    yield from shared.values()


def _default(action: argparse.Action) -> Any:
    if action.default is not argparse.SUPPRESS:
        return _plain(action.default)
    value = getattr(Config(), action.dest)
    return "auto" if value is None else value


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _lines(files: Sequence[ConfigFile], values: Sequence[ExplainedValue], *, everything: bool) -> Iterator[str]:
    paths = {file.layer: file.path for file in files}
    yield f"user-wide file  {paths.get('user', f'none ({user_config_path()})')}"
    yield f"project's file  {paths.get('project', 'none (tcexplore.toml, or [tool.tcexplore] in pyproject.toml)')}"
    shown = sorted(
        (value for value in values if everything or value.source != "default"),
        key=lambda value: (value.source == "default", value.name),
    )
    if not shown:
        yield "no option is set: all have their defaults; --explain lists them"
        return
    texts = [(value.name, json.dumps(value.value, ensure_ascii=False), value.place) for value in shown]
    widths = [min(max(len(text[column]) for text in texts), 60) for column in (0, 1)]
    yield ""
    for name, text, place in texts:
        yield f"{name:<{widths[0]}}  {text:<{widths[1]}}  {place}"


def _print_keys(keymap: ExplainedValue, *, as_json: bool) -> int:
    """Print the actions of the app with their keys in the keymap that applies."""
    from tcexplore.keymap import ACTIONS, use_keymap
    from tcexplore.ui.appearance import read_keymap

    use_keymap(read_keymap(keymap.value) if keymap.value else {})
    if as_json:
        actions = {action.name: {"keys": list(action.keys), "help": action.help} for action in ACTIONS}
        sys.stdout.write(json.dumps({"keymap": keymap.value, "actions": actions}, indent=1) + "\n")
        return 0
    width = max(len(action.name) for action in ACTIONS)
    for action in ACTIONS:
        keys = " ".join(f"{key:<3}" for key in action.shown.split(" "))
        sys.stdout.write(f"{action.name:<{width}}  {keys:<15}  {action.help}\n")
    return 0


def _print_json(target: str, files: Sequence[ConfigFile], values: Sequence[ExplainedValue]) -> None:
    result = {
        "model": target or None,
        "files": [{"layer": file.layer, "path": file.path} for file in files],
        "values": {
            value.name: {
                "value": value.value, "source": value.source, "file": value.file or None, "line": value.line,
            }
            for value in sorted(values, key=lambda value: value.name)
        },
    }  # fmt: skip
    sys.stdout.write(json.dumps(result, indent=1) + "\n")
