"""Decide whether something in a folder may be executed. Nothing else in the front end decides this.

To explore a model file is to run it, with the modules that it imports. All else that a folder holds is a stranger's:
an interpreter that nobody named, a program or a file to write that its configuration names. It is used only if

- the user trusts the folder: by `--trust`, or by an answer to a question that is asked once;
- every component of its path, links included, belongs to the user, to root, or to the owner of the trusted folder, and
  nobody else can replace one.

What the user names on the command line, by an activated environment or in the user-wide configuration, is the user's
own choice.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = (".git", ".hg")
"""Entries of the root of a repository."""

MOST_FOLDERS = 500
"""Folders that are remembered; the oldest answers go first."""

_MOST_BYTES = 1 << 20
_MOST_LINKS = 40
"""As many links as Linux follows in one path."""

Ask = Callable[[str], bool | None]
"""Asks the user a question; returns the answer, None for none."""


class RepositoryText(str):
    """A value that a configuration file of a project sets: not the user's own words."""

    __slots__ = ("place", "root")

    root: str
    """The folder that has to be trusted."""
    place: str
    """File and line."""

    def __new__(cls, text: str, root: str, place: str) -> RepositoryText:
        self = super().__new__(cls, text)
        self.root, self.place = root, place
        return self


@dataclass(frozen=True, slots=True)
class Consent:
    """How the user can trust a folder in this call."""

    given: bool = False
    """Whether `--trust` was given."""
    ask: Ask | None = None
    """None if nobody can be asked."""


NOBODY = Consent()
"""Only what the user trusted in an earlier call."""


def root_of(path: str) -> str:
    """Return the folder to trust for a file or a folder: the root of its repository, or else the folder itself.

    The home folder is never the root of what is below it, even if it is a repository.
    """
    folder = os.path.realpath(path)
    if not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    home = os.path.realpath(os.path.expanduser("~"))
    for parent in (folder, *map(str, Path(folder).parents)):
        if parent == home:
            break
        if any(os.path.lexists(os.path.join(parent, name)) for name in REPOSITORY):
            return parent
    return folder


def refusal(path: str, root: str, consent: Consent, purpose: str) -> str:
    """Return why a path may not be executed, as a sentence; empty if it may.

    `purpose` says what would be done with it, such as `run the model with /repository/.venv/bin/python`.
    """
    owners = {os.getuid(), 0}
    with suppress(OSError):
        owners.add(os.stat(root).st_uid)
    if problem := foreign_component(path, owners):
        return f"{problem}; name it with --python if it may be run."
    return consent_refusal(root, consent, purpose)


def consent_refusal(root: str, consent: Consent, purpose: str) -> str:
    """Return why a folder is not trusted, as a sentence; empty if it is. Remember a new answer."""
    answer = remembered(root)
    if consent.given:
        if not answer:
            remember(root, trusted=True)
        return ""
    if answer is None and consent.ask is not None:
        answer = consent.ask(
            f"{root}{_foreign_owner(root)} is opened for the first time.\n"
            f"To {purpose} is to run code of this folder.\nTrust it, now and later?"
        )
        if answer is not None:
            remember(root, trusted=answer)
    return "" if answer else f"The folder {root} is not trusted; --trust trusts it, now and later."


def _foreign_owner(root: str) -> str:
    """Return whose a folder is, in parentheses; empty for the user's own."""
    with suppress(OSError):
        if (owner := os.stat(root).st_uid) != os.getuid():
            return f" (of {_user(owner)})"
    return ""


def foreign_component(path: str, owners: set[int]) -> str:
    """Return the first component of a path that another user owns or can replace; empty for none.

    Each link is resolved, and the components of its target are examined as well.
    """
    try:
        for part, status in _components(os.path.abspath(path)):
            if status.st_uid not in owners:
                return f"{part} belongs to {_user(status.st_uid)}"
            open_to_all = bool(status.st_mode & stat.S_IWOTH) and not stat.S_ISLNK(status.st_mode)
            if open_to_all and not (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX):
                return f"{part} can be changed by every user"
    except OSError as error:
        return f"{path} cannot be examined: {(error.strerror or str(error)).lower()}"
    return ""


def _components(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield each folder, each link and finally the file of an absolute path, with its own status."""
    done, rest, links = "/", [part for part in path.split(os.sep) if part], 0
    yield done, os.lstat(done)
    while rest:
        name = rest.pop(0)
        if name in (".", ".."):
            done = os.path.dirname(done) if name == ".." else done
            continue
        part = os.path.join(done, name)
        status = os.lstat(part)
        yield part, status
        if not stat.S_ISLNK(status.st_mode):
            done = part
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(f"more than {_MOST_LINKS} links")
        target = os.readlink(part)
        done = "/" if target.startswith(os.sep) else done
        rest = [each for each in target.split(os.sep) if each] + rest


def _user(number: int) -> str:
    import pwd  # not imported before the first frame

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


# ---- memory


def trust_file() -> Path:
    """Return the file with the answers, in the user's folder for state."""
    from platformdirs import user_state_path

    return user_state_path("tcexplore", appauthor=False) / "trust.json"


def remembered(root: str) -> bool | None:
    """Return whether the user trusts a folder; None if that was never asked."""
    return _answers().get(root)


def remember(root: str, *, trusted: bool) -> None:
    """Remember an answer; a folder for state that refuses it costs only the memory."""
    from tcexplore.files import NotWrittenError, create, private_folder  # not imported before the first frame

    answers = {folder: answer for folder, answer in _answers().items() if folder != root}
    answers[root] = trusted
    newest = dict(list(answers.items())[-MOST_FOLDERS:])
    with suppress(OSError, NotWrittenError):
        file = trust_file()
        private_folder(file.parent)
        create(file, json.dumps({"folders": newest}, indent=1), force=True, private=True)


def _answers() -> dict[str, bool]:
    """Return the answers of a file that only the user can have written; none for any other."""
    from tcexplore.files import open_regular

    with suppress(OSError, ValueError, RecursionError):
        path = str(trust_file())
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return {}
            record = json.loads(file.read(_MOST_BYTES))
        folders = record.get("folders") if isinstance(record, dict) else None
        if isinstance(folders, dict):
            return {folder: answer for folder, answer in folders.items() if isinstance(answer, bool)}
    return {}
