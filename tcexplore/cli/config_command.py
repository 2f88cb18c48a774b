"""`tcexplore config`: which configuration applies, the source of each value, and whether keys and types are valid."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tcexplore.cli.configuration.config_file import ConfigError, ConfigFile, config_files, user_config_path
from tcexplore.cli.configuration.config_values import (
    FILES,
    ONE_CALL,
    TABLES,
    VARIABLES,
    ConfigValue,
    command_of,
    config_values,
    configurable,
    converted,
    is_shared,
    set_by_environment,
)
from tcexplore.cli.error_line import refuse
from tcexplore.cli.file_argument import BadFileError, split
from tcexplore.cli.options import Parser
from tcexplore.cli.parsers import PARSERS
from tcexplore.cli.request import Request
from tcexplore.events import clean
from tcexplore.events.config import Config
from tcexplore.studies.registry import STUDIES

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
    nearest = difflib.get_close_matches(name, list(dict.fromkeys(known())), 1)
    question = f" Did you mean {nearest[0]!r}?" if nearest else " `tcexplore config --explain` lists all keys."
    return ConfigError(f"{value.place}: unknown key {name!r}.{question}")


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
    from tcexplore.keymap import use_keymap
    from tcexplore.ui.actions import ACTIONS
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
