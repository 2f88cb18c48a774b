"""Configuration files: `tcexplore.toml`, `[tool.tcexplore]` in `pyproject.toml`, and the user-wide file."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Literal

from tcexplore.trust import REPOSITORY

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
            table = _table(statement, sizes, is_array=lines[at].lstrip().startswith("[["))
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


def _table(header: dict[str, Any], sizes: dict[Key, int], *, is_array: bool) -> Key:
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
