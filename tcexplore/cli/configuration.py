"""Configuration files: where they are, what they may contain, and which value applies."""

from __future__ import annotations

import argparse
import ast
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

from tcexplore.cli.options import OPTIONS
from tcexplore.cli.terminal import terminal_ask
from tcexplore.trust import REPOSITORY, Consent, RepositoryText, consent_refusal, root_of

# ---- files


NAME = "tcexplore.toml"
"""Name of a configuration file, in a project or in the user's folder for configuration."""

SHARED_NAME = "pyproject.toml"

MOST_BYTES = 1 << 20
"""A larger file is refused."""

_TABLES = (
    (rb"""(?m)^[ \t]*\[*[ \t]*["']?tool["']?[ \t]*\.[ \t]*["']?tcexplore\b""",),
    (rb"""(?m)^[ \t]*\[[ \t]*["']?tool["']?[ \t]*\]""", rb"""(?m)^[ \t]*["']?tcexplore["']?[ \t]*[.=]"""),
)
"""Patterns of a table for tcexplore in a `pyproject.toml`: a file has one only if all patterns of a group match. Other
files are not parsed: they may be broken. Each pattern takes time linear in the size of the file."""

Layer = Literal["user", "project"]


class ConfigError(Exception):
    """A configuration file cannot be used; the message says where and why."""


class ConfigFile:
    """One configuration file."""

    def __init__(self, path: str, layer: Layer, text: str, content: Mapping[str, Any], prefix: tuple[str, ...]) -> None:
        self.path = path
        self.layer: Layer = layer
        self.content = content
        """The table with the options."""
        self._text = text
        self.prefix = prefix
        """The tables around it: `tool`, `tcexplore` in a `pyproject.toml`."""

    @property
    def folder(self) -> str:
        return os.path.dirname(self.path)

    @property
    def shown_path(self) -> str:
        """The path relative to the working directory if it is below it."""
        from tcexplore.documents.locations import display_path

        return display_path(self.path)

    def line(self, key: tuple[str | int, ...]) -> int | None:
        """Return the line of a key below the table with the options; None if it is not known."""
        return self._lines.get((*self.prefix, *key))

    def place(self, key: tuple[str | int, ...]) -> str:
        """Return file and line of a key."""
        line = self.line(key)
        return self.shown_path if line is None else f"{self.shown_path}:{line}"

    @cached_property
    def _lines(self) -> dict[tuple[str | int, ...], int]:

        return key_lines(self._text)


def config_files(model: str) -> list[ConfigFile]:
    """Return the configuration files that apply to a model file or a folder, the lowest priority first.

    Raises `ConfigError`.
    """
    return [file for file in (user_config(), project_config(model)) if file is not None]


def user_config() -> ConfigFile | None:
    """Return the user-wide file, if it exists."""
    path = user_config_path()
    return _load(path, "user", ()) if os.path.lexists(path) else None


def user_config_path() -> str:
    """Return the path of the user-wide file."""
    from platformdirs import user_config_path as folder

    return str(folder("tcexplore", appauthor=False) / NAME)


def project_config(model: str) -> ConfigFile | None:
    """Return the nearest file in the folder of the model file or above it, up to the root of the repository."""
    for folder in _folders(model):
        if os.path.lexists(path := os.path.join(folder, NAME)):
            return _load(path, "project", ())
        if os.path.lexists(path := os.path.join(folder, SHARED_NAME)):
            config = _load(path, "project", ("tool", "tcexplore"))
            if config is not None:
                return config
    return None


def _folders(model: str) -> Iterator[str]:
    """Yield the folder of the model file and those above it, up to the root of the repository.

    A folder in which everyone may create files, such as /tmp, is searched only if the model file is in it.
    """
    try:
        folder = os.path.abspath("." if "\0" in model else model)
    except OSError:  # the working directory is gone
        return
    if not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    first = True
    while first or not _open_to_all(folder):
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder or any(os.path.lexists(os.path.join(folder, name)) for name in REPOSITORY):
            return
        folder, first = parent, False


def _open_to_all(folder: str) -> bool:
    try:
        mode = os.stat(folder).st_mode
    except (OSError, ValueError):  # also a path that no file can have
        return False
    return bool(mode & stat.S_ISVTX and mode & stat.S_IWOTH)


def _load(path: str, layer: Layer, prefix: tuple[str, ...]) -> ConfigFile | None:
    """Return a file; None for one without the table `prefix`. Raises `ConfigError`."""
    data = _read(path)
    if prefix and not any(all(re.search(pattern, data) for pattern in group) for group in _TABLES):
        return None
    import tomllib  # not imported before the first frame unless there is a file

    try:
        text = data.decode("utf-8-sig")
        content: Any = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}:{line}: the file is not valid UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from None
    except RecursionError:
        raise ConfigError(f"{path} is not valid: its values are nested too deeply.") from None
    except ValueError as error:  # a number with too many digits, an impossible date
        raise ConfigError(f"{path} is not valid TOML: {error}.") from None
    for name in prefix:
        content = content.get(name) if isinstance(content, dict) else None
        if content is None:
            return None
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: {'.'.join(prefix)} is not a table.")
    return ConfigFile(path, layer, text, content, prefix)


def _read(path: str) -> bytes:
    """Return the content of a regular file of a reasonable size. Raises `ConfigError`."""
    from tcexplore.files import NotRegularError, open_regular  # not imported before the first frame without a file

    try:
        with open_regular(path) as opened:
            data = opened.read(MOST_BYTES + 1)
    except NotRegularError:
        raise ConfigError(f"{path} is not a regular file.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}.") from None
    if len(data) > MOST_BYTES:
        raise ConfigError(f"{path} is larger than {MOST_BYTES >> 20} MiB.")
    return data


# ---- lines of keys


Key = tuple[str | int, ...]
"""Names of the tables around a key, positions in arrays of tables, and the key."""

LONGEST = 500
"""Lines of the longest value. What follows a longer one has no line, so that a hostile file costs little time."""


def key_lines(text: str) -> dict[Key, int]:
    """Return the line on which each table and each key begins, for the text of a valid file."""
    lines, table, sizes, known = text.replace("\r\n", "\n").split("\n"), Key(), dict[Key, int](), dict[Key, int]()
    at = 0
    while at < len(lines):
        count, statement = _statement(lines, at)
        if not count:
            break
        if lines[at].lstrip().startswith("[") and statement is not None:
            table = _table_key(statement, sizes, is_array=lines[at].lstrip().startswith("[["))
            known.setdefault(table, at + 1)
        elif statement is not None:
            for key in _keys(statement):
                known.setdefault((*table, *key), at + 1)
        at += count
    return known


def _statement(lines: list[str], at: int) -> tuple[int, dict[str, Any] | None]:
    """Return the number of lines of the statement at a line, 0 if it is too long, and what it defines."""
    import tomllib

    if not lines[at].strip() or lines[at].lstrip().startswith("#"):
        return 1, None
    for end in range(at + 1, min(len(lines), at + LONGEST) + 1):
        try:
            return end - at, tomllib.loads("\n".join(lines[at:end]))
        except (ValueError, RecursionError):
            continue
    return 0, None


def _table_key(header: dict[str, Any], sizes: dict[Key, int], *, is_array: bool) -> Key:
    """Return the key of a table from its header, and count the elements of arrays of tables in `sizes`."""
    key = Key()
    value: Any = header
    while isinstance(value, dict) and value:
        if key in sizes:
            key = (*key, sizes[key] - 1)
        name, value = next(iter(value.items()))
        key = (*key, name)
    if is_array:
        sizes[key] = sizes.get(key, 0) + 1
    return (*key, sizes[key] - 1) if key in sizes else key


def _keys(value: Any) -> list[Key]:
    """Return the keys of a table and of the tables in it."""
    if not isinstance(value, dict):
        return []
    return [key for name, inner in value.items() for key in ((name,), *((name, *rest) for rest in _keys(inner)))]


# ---- values of options


ONE_CALL = frozenset({"help", "version", "write", "break", "repro"}).union(
    option.key for option in OPTIONS if option.one_call
) - {option.key for option in OPTIONS if not option.one_call}
"""Options that belong to one call, in all commands, those of parsers and studies included. A file cannot set them."""

PATHS = ("FILE", "PATH", "DIR")
"""Metavars of options whose values are paths; in a file, they are relative to its folder."""

TABLES = ("keymap", "theme")
"""Options that take a table in a file."""

VARIABLES = {option.key: option.variable for option in OPTIONS if option.variable}
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
        if name and name not in ONE_CALL and not getattr(action, "one_call", False):
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


_WRITTEN = frozenset(option.key for option in OPTIONS if option.writes)


def guarded(name: str, value: Any, source: ConfigValue, *, trusted: bool) -> Any:
    """Return the value of an option from a configuration file, marked if it may execute something.

    A project's file writes only inside the project. Raises `ConfigError`.
    """
    if source.file.layer == "user":
        return value
    root = root_of(source.file.folder)
    if name in _WRITTEN:
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
