"""The local socket of a session: where it is, who may use it, and how a question is asked over it.

A question is one line of JSON, the answer one or more: progress, then the answer. The socket is in the user's folder
for run-time files, and only the user can open it.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tcexplore.events.config import Config

PROTOCOL = 1
"""Version of the messages. A session of another version is not asked."""

CONNECT_S = 1.0

LARGEST = 64_000_000
"""Maximum bytes of a message."""

SUFFIX = ".sock"

Message = Mapping[str, Any]

Fields = dict[str, Any]


class NoSessionError(Exception):
    """No session of the file answers; the message says why if it is worth saying."""


def runtime_folder() -> Path:
    """Return the folder of the sockets. Raises `OSError` unless it belongs to the user, and to the user only."""
    from platformdirs import user_runtime_path

    with warnings.catch_warnings(action="ignore"):  # without XDG_RUNTIME_DIR, it is a folder below /tmp
        folder = user_runtime_path("tcexplore", appauthor=False)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    status, above = folder.lstat(), folder.parent.lstat()
    own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and above.st_uid in (0, os.getuid())
    if not own:
        raise PermissionError(f"{folder} is not a folder of yours")
    if stat.S_IMODE(status.st_mode) & 0o077:
        folder.chmod(0o700)
    return folder


def socket_path(file: str) -> Path:
    """Return the socket of the session of a model file. Raises `OSError` like `runtime_folder`."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(file))).hexdigest()[:24]
    return runtime_folder() / f"{name}{SUFFIX}"


def is_used(path: Path) -> bool:
    """Return whether there is anything at a path. Raises `PermissionError` if it is not a socket of the user."""
    if not os.path.lexists(path):
        return False
    if not is_owned(path):
        raise PermissionError(f"{path} is not a socket of yours")
    return True


def is_owned(path: Path) -> bool:
    """Return whether a path is a socket of the user."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISSOCK(status.st_mode) and status.st_uid == os.getuid()


def is_own_peer(connection: socket.socket) -> bool:
    """Return whether the process at the other end belongs to the user. Systems other than Linux cannot tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, option, 12)
    return int.from_bytes(credentials[4:8], "little") == os.getuid()


def ask_session(file: str, message: Message, limit_s: float, say: Callable[[str], None]) -> Message:
    """Ask the session of a file, and return its answer. Raises `NoSessionError`.

    `say` gets what it waits for.
    """
    try:
        path = socket_path(file)
    except OSError as error:
        raise NoSessionError(str(error)) from None
    if not is_owned(path):
        raise NoSessionError
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(CONNECT_S)
        try:
            connection.connect(os.fspath(path))
            if not is_own_peer(connection):
                raise NoSessionError("the session of the file belongs to another user")
            connection.settimeout(limit_s)
            connection.sendall(encoded({"protocol": PROTOCOL, **message}))
            with connection.makefile("rb") as lines:
                return _answer(iter(lambda: lines.readline(LARGEST), b""), say)
        except TimeoutError:
            raise NoSessionError(f"the session did not answer within {limit_s:g} s") from None
        except OSError:
            raise NoSessionError from None


def _answer(lines: Any, say: Callable[[str], None]) -> Message:
    for line in lines:
        try:
            message: Message = json.loads(line)
        except ValueError:
            break
        if "progress" not in message:
            if problem := message.get("refused"):
                raise NoSessionError(str(problem))
            return message
        say(str(message["progress"]))
    raise NoSessionError("the session ended before it answered")


def question(
    words: Sequence[str],
    command: str,
    *,
    line: int | None = None,
    slowest: int | None = None,
    max_tokens: int = 2000,
    skip: int = 0,
    as_json: bool = False,
    quick: bool = False,
    before: Fields | None = None,
    options: Fields | None = None,
    whole: bool = False,
) -> Message:
    """Return the message of a question. `before` is a report to compare with, `options` None for any.

    `whole` asks for the run itself instead.
    """
    return {
        "words": list(words), "command": command, "line": line, "slowest": slowest, "max_tokens": max_tokens,
        "skip": skip, "json": as_json, "quick": quick, "before": before, "options": options,
        "whole": whole,
    }  # fmt: skip


def run_options(config: Config, name: str | None, argv: Sequence[str]) -> Fields:
    """Return the options of a run as JSON has them, to compare those of a session and of a question."""
    options: Fields = json.loads(json.dumps({"config": asdict(config), "name": name, "argv": list(argv)}))
    return options


def encoded(message: Message) -> bytes:
    """Return a message as one line."""
    return json.dumps(message).encode() + b"\n"
