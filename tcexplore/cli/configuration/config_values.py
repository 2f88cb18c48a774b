"""Values of options in configuration files: the known keys, the value that applies, and its type."""

from __future__ import annotations

import argparse
import ast
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tcexplore.cli.configuration.config_file import ConfigError, ConfigFile
from tcexplore.cli.terminal_question import terminal_ask
from tcexplore.trust import REPOSITORY, Consent, RepositoryText, consent_refusal, root_of

ONE_CALL = frozenset({
    "help", "version", "json", "report", "force", "write", "break", "kernel", "to", "repro", "recompile-check", "ranks",
    "rank", "world", "job", "against", "trace", "detach", "trust",
})  # fmt: skip
"""Options that belong to one call: what to look at now, where to write. A file cannot set them."""

PATHS = ("FILE", "PATH", "DIR")
"""Metavars of options whose values are paths; in a file, they are relative to its folder."""

TABLES = ("keymap", "theme")
"""Options that take a table in a file."""

VARIABLES = {"no-history": "TCEXPLORE_NO_HISTORY"}
"""Flags that an environment variable sets, above the files."""

FILES = "files"
"""Name of the tables with options for some model files."""


class ConfigValue(NamedTuple):
    """The value of an option in a configuration file."""

    value: Any
    file: ConfigFile
    key: tuple[str | int, ...]
    """Its path in the file's table."""

    @property
    def place(self) -> str:
        """File and line."""
        return self.file.place(self.key)


def command_of(parser: argparse.ArgumentParser) -> str:
    """Return the command that a parser is for; `app` without one."""
    return parser.prog.partition(" ")[2] or "app"


def configurable(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """Return the options of a command that a file can set, by their keys: the names without dashes in front."""
    options = {}
    for action in parser._actions:
        name = next((text[2:] for text in action.option_strings if text.startswith("--")), "")
        if isinstance(action, argparse._StoreFalseAction):
            continue  # turns off a flag
        if name and name not in ONE_CALL and not (command_of(parser) == "open" and name == "follow"):
            options[name] = action
    return options


def add_negation(parser: argparse.ArgumentParser, name: str, action: argparse.Action) -> None:
    """Add the hidden option that turns off a flag, such as `--no-train`, and `--history` for `--no-history`."""
    if isinstance(action, argparse._StoreTrueAction):
        parser.add_argument(
            f"--{name[3:]}" if name.startswith("no-") else f"--no-{name}",
            dest=action.dest, action="store_false", default=argparse.SUPPRESS, help=argparse.SUPPRESS,
        )  # fmt: skip


def set_by_environment(name: str) -> bool:
    """Return whether an environment variable sets the flag: it is neither empty nor 0."""
    return name in VARIABLES and os.environ.get(VARIABLES[name], "") not in ("", "0")


def is_shared(name: str, action: argparse.Action) -> bool:
    """Return whether a key outside of the command's own table sets the option.

    A study that varies an option, such as `modes --dynamic`, gives it another meaning and another destination.
    """
    return action.dest == name.replace("-", "_")


def config_values(files: Sequence[ConfigFile], parser: argparse.ArgumentParser, model: str) -> dict[str, ConfigValue]:
    """Return the values that apply to a command and a model file; a later file, and a narrower table, wins."""
    options, command, values = configurable(parser), command_of(parser), dict[str, ConfigValue]()
    for file in files:
        for table, key in _tables(file, command, model):
            for name, value in table.items():
                if isinstance(value, dict) and name == command and command not in key:
                    continue  # the command's own table
                if name in options and (command in key or is_shared(name, options[name])):
                    values[name] = ConfigValue(value, file, (*key, name))
    return values


def _tables(file: ConfigFile, command: str, model: str) -> Iterator[tuple[Mapping[str, Any], tuple[str | int, ...]]]:
    """Yield the tables of a file that apply, with their keys, from the most general to the narrowest."""
    tables: list[tuple[Any, tuple[str | int, ...]]] = [(file.content, ())]
    entries = file.content.get(FILES)
    for number, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, dict) and matches(file, entry.get("pattern"), model):
            tables.append((entry, (FILES, number)))
    for table, key in tables:
        yield table, key
        if isinstance(own := table.get(command), dict):
            yield own, (*key, command)


def matches(file: ConfigFile, pattern: Any, model: str) -> bool:
    """Return whether a model file matches a pattern, or one in a list.

    A pattern is compared with its path from the file's folder, with its whole path, and with its name.
    """
    if isinstance(pattern, list):
        return any(matches(file, each, model) for each in pattern)
    if not isinstance(pattern, str) or "\0" in model:
        return False
    from fnmatch import fnmatch

    path = os.path.abspath(model)
    forms = (os.path.relpath(path, file.folder), path, os.path.basename(path))
    return any(fnmatch(form.replace(os.sep, "/"), pattern.removeprefix("./")) for form in forms)


def converted(action: argparse.Action, value: ConfigValue) -> Any:
    """Return a value as the option's own type. Raises `ConfigError`."""
    raw = value.value
    if isinstance(raw, dict) and action.dest in TABLES:
        return _table(action.dest, value)
    if isinstance(action, argparse._StoreTrueAction):
        if not isinstance(raw, bool):
            raise _wrong(value, "is not true or false")
        return raw
    if isinstance(action, argparse._AppendAction):
        items = raw if isinstance(raw, list) else [raw]
        return [_one(action, value, item) for item in items]
    if isinstance(raw, list):
        if not raw or any(isinstance(item, list | dict) for item in raw):
            raise _wrong(value, "is not a list of values")
        result = _one(action, value, ",".join(map(_text, raw)))
        if not isinstance(result, tuple):
            raise _wrong(value, "is one value, not a list")
        return result
    return _one(action, value, raw)


def _table(name: str, value: ConfigValue) -> Any:
    """Return the table of a keymap or of a theme unchanged. Raises `ConfigError`."""
    from tcexplore.keymap import AppearanceError
    from tcexplore.ui.appearance import read_keymap, read_theme

    try:
        (read_keymap if name == "keymap" else read_theme)(value.value)
    except AppearanceError as error:
        entry = ConfigValue(None, value.file, (*value.key, error.name) if error.name else value.key)
        raise _wrong(entry, str(error), "") from None
    return value.value


def _one(action: argparse.Action, value: ConfigValue, raw: Any) -> Any:
    """Return one value as the option's own type."""
    if not isinstance(raw, str | int | float) or (isinstance(raw, bool) and not action.choices and action.type is None):
        raise _wrong(value, "is not a text or a number")
    text = _text(raw)
    if action.metavar in PATHS or (isinstance(raw, str) and raw.endswith(".toml")):
        text = _path(value.file.folder, os.path.expanduser(text), may_be_name=action.dest == "python")
    try:
        result = action.type(text) if callable(action.type) else text
    except argparse.ArgumentTypeError as error:
        raise _wrong(value, str(error), "") from None
    if action.choices is not None and result not in action.choices:
        raise _wrong(value, f"{text!r} is not one of {', '.join(map(str, action.choices))}", "")
    if isinstance(raw, str) and isinstance(result, int | float) and not isinstance(result, bool) and _is_number(raw):
        raise _wrong(value, f"is a number: write {raw} without quotes")
    if not isinstance(raw, str) and result == text and not action.choices:
        raise _wrong(value, f"is a text: write {text!r} with quotes")
    return result


WRITTEN = ("sarif", "junit", "gitlab", "markdown")
"""Options that name a file to write."""


def guarded(name: str, value: Any, source: ConfigValue, *, trusted: bool) -> Any:
    """Return the value of an option from a configuration file, marked if it may execute something.

    A project's file writes only inside the project. Raises `ConfigError`.
    """
    if source.file.layer == "user":
        return value
    root = root_of(source.file.folder)
    if name in WRITTEN:
        _require_inside(os.path.realpath(value), root, source)
    if name == "python":
        return [RepositoryText(path, root, source.place) for path in value]
    if name == "compile-arg" and any(_may_name_a_program(text) for text in value):
        purpose = f"compile with the texts in {source.key[-1]} of {source.place}, which may name programs,"
        if reason := consent_refusal(root, Consent(trusted, terminal_ask()), purpose):
            raise ConfigError(f"{source.place}: {source.key[-1]} has texts, which may name programs. {reason}")
    return value


def _require_inside(path: str, root: str, source: ConfigValue) -> None:
    """Raise `ConfigError` for a file outside of the project, or in the folder of its version control."""
    relative = os.path.relpath(path, root)
    if relative.split(os.sep)[0] in ("..", *REPOSITORY):
        raise ConfigError(f"{source.place}: {source.key[-1]} names a file outside of {root}; give it as an option.")


def _may_name_a_program(assignment: str) -> bool:
    """Return whether `options={…}` has a text as a value: some of torch's options name a compiler."""
    name, _, text = assignment.partition("=")
    if name != "options":
        return False
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    values = tree.values if isinstance(tree, ast.Dict) else [tree]
    return any(not isinstance(value, ast.Constant) or isinstance(value.value, str | bytes) for value in values)


def _path(folder: str, text: str, *, may_be_name: bool) -> str:
    """Return a path relative to a folder; the name of a program or of a conda environment stays."""
    path = os.path.join(folder, text)
    return text if may_be_name and os.sep not in text and not os.path.exists(path) else path


def _text(raw: Any) -> str:
    return str(raw).lower() if isinstance(raw, bool) else str(raw)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _wrong(value: ConfigValue, problem: str, separator: str = " ") -> ConfigError:
    text = f"{value.place}: {value.key[-1]}{separator or ': '}{problem}"
    return ConfigError(text if text.endswith("?") else f"{text}.")
