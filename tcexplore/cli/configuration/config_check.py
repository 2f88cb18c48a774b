"""Check of a configuration file: every key is known, and every value has the type of its option."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tcexplore.cli.configuration.config_file import ConfigError, ConfigFile
from tcexplore.cli.configuration.config_values import (
    FILES,
    ONE_CALL,
    TABLES,
    ConfigValue,
    command_of,
    configurable,
    converted,
    is_shared,
)
from tcexplore.cli.options import Parser
from tcexplore.cli.parsers import PARSERS
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
