"""Writes to the user's disk. Nothing of the user's is lost, and no link is followed out of a folder.

- `create` writes a new file, `new_file` a large one piece by piece, `create_all` several files in a folder. An existing
  file stays unless `force` is given.
- `require_unused` refuses a path that `create` would refuse, before work is done whose result could not be written.
- `private_folder` creates a folder for what only the user may read.
- `replace` changes a file whose content is known, and `undo` restores it.
- `open_regular` opens a file to read, and never waits for a pipe.

Each write goes to a temporary file in the same folder, which then takes the name: a crash leaves the old or the new
content. Each function raises `NotWrittenError` with a sentence for the user.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

SUFFIX = ".tcexplore-tmp"
"""Suffix of temporary files; one stays only if the process is killed while it writes."""

_WRITE_BITS = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class NotWrittenError(Exception):
    """Nothing was written; the message says why."""


class NotRegularError(OSError):
    """A file is a pipe, a device or a socket."""


class Written(NamedTuple):
    """A file that was replaced, with its old and new bytes."""

    file: str
    before: bytes
    after: bytes


# ---- new files


def cache_folder() -> Path:
    """Return the folder for files that can be made again."""
    folder = os.environ.get("XDG_CACHE_HOME", "")
    return Path(folder if os.path.isabs(folder) else os.path.expanduser("~/.cache")) / "tcexplore"


def create(file: str | Path, content: str | bytes, *, force: bool = False, private: bool = False) -> Path:
    """Write a new file and return its path; its folder must exist. With `force`, replace an existing regular file.

    Only the user can read a `private` file.
    """
    path = Path(file)
    require_unused(path, force=force)
    with _os_errors(path):
        _put(path, _encoded(content), overwrite=force, mode=0o600 if private else 0o666)
    return path


def create_one_of_many(path: str, pieces: Iterable[str]) -> None:
    """Write a new file and the folders it is in, without waiting until it is on the disk, which takes milliseconds."""
    with _os_errors(Path(path)):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with _opened(Path(path), 0o666, stored=False) as opened:
            opened.writelines(map(_encoded, pieces))


@contextmanager
def new_file(file: str | Path, *, force: bool = False, keep: Iterable[str] = ()) -> Iterator[BinaryIO]:
    """Write a new file piece by piece; its folder must exist, and it appears once it is complete.

    With `force`, replace an existing regular file, but none in `keep`.
    """
    path = Path(file)
    _require_unkept(path, keep)
    require_unused(path, force=force)
    temporary = _temporary(path)
    try:
        with _os_errors(path):
            with _opened(temporary, 0o666) as opened:
                yield opened
            if force and path.exists():
                _copy_attributes(path, temporary)
            if force:
                os.replace(temporary, path)
            else:
                _link(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def private_folder(folder: str | Path) -> Path:
    """Create a folder that only the user can read, unless it exists, and return its path."""
    path = Path(folder)
    with _os_errors(path):
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(path, os.W_OK | os.X_OK):
            raise NotWrittenError(f"{path} is read-only. Nothing was written.")
    return path


def create_all(
    folder: str | Path, contents: Mapping[str, str | bytes], *, force: bool = False, keep: Iterable[str] = ()
) -> tuple[Path, ...]:
    """Write files by their names relative to a folder, which is created if missing; return their paths.

    Nothing is written if one of them is refused, and no new file stays if the disk is full. Files in `keep` are not
    overwritten, even with `force`.
    """
    root = Path(folder)
    paths = {root / name: _encoded(content) for name, content in contents.items()}
    for path, name in zip(paths, contents, strict=True):
        _require_inside(root, name)
        _require_unkept(path, keep)
    existing = [path for path in paths if os.path.lexists(path)]
    if existing and not force:
        names = ", ".join(str(path.relative_to(root)) for path in existing[:3])
        more = f" and {len(existing) - 3} more" if len(existing) > 3 else ""
        raise NotWrittenError(
            f"{names}{more} already in {root}. Nothing was written; choose another folder, or add --force."
        )
    for path in existing:
        require_unused(path, force=True)
    is_new = not root.exists()
    try:
        for path, data in paths.items():
            with _os_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                _put(path, data, overwrite=force)
    except NotWrittenError:
        _remove(paths.keys() - set(existing))
        if is_new:
            with suppress(OSError):
                root.rmdir()
        raise
    return tuple(paths)


def _remove(paths: Iterable[Path]) -> None:
    """Remove the files of an incomplete set, none of which existed before."""
    for path in paths:
        with suppress(OSError):
            path.unlink()


def require_unused(file: str | Path, *, force: bool = False) -> None:
    """Refuse an existing file; with `force`, only one that is not a regular file, or is read-only."""
    path = Path(file)
    with _os_errors(path):
        try:
            status = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return
        if stat.S_ISLNK(status.st_mode):
            raise NotWrittenError(f"{path} is a symbolic link, which is not followed. Choose another name.")
        if not stat.S_ISREG(status.st_mode):
            raise NotWrittenError(f"{path} is not a regular file. Choose another name.")
        if not force:
            raise NotWrittenError(f"{path} already exists. Nothing was written; choose another name, or add --force.")
        _require_writable(path, status)


def require_unused_folder(folder: str | Path) -> None:
    """Refuse anything but a new or an empty folder."""
    path = Path(folder)
    with _os_errors(path):
        if os.path.lexists(path) and (not path.is_dir() or any(path.iterdir())):
            raise NotWrittenError(f"{path} already exists. Nothing is overwritten; choose another name.")


def _require_inside(root: Path, name: str) -> None:
    """Refuse a name that leaves the folder, or whose folders are links or files."""
    path = root / name
    if os.path.isabs(name) or ".." in Path(name).parts:
        raise NotWrittenError(f"{path} is not in {root}. Nothing was written.")
    for parent in path.parents:
        if parent == root:
            break
        if parent.is_symlink() or (parent.exists() and not parent.is_dir()):
            raise NotWrittenError(f"{parent} is not a folder, but a link or a file. Nothing was written.")


def _require_unkept(path: Path, keep: Iterable[str]) -> None:
    with _os_errors(path):
        for file in keep:
            if path.exists() and os.path.exists(file) and path.samefile(file):
                raise NotWrittenError(f"{path} is a source of this run. Nothing was written; choose another folder.")


# ---- known files


def replace(file: str, before: bytes, after: bytes) -> Written:
    """Replace a file whose content is `before`. It keeps permissions, owner and attributes; a link to it stays.

    A link is followed only inside its own folder. A file with another content, a read-only file, and a file with
    several hard links are refused.
    """
    real = _real(file)
    with _os_errors(file):
        status = os.stat(real)
        _require_writable(Path(file), status)
        if status.st_nlink > 1:
            raise NotWrittenError(f"{file} has {status.st_nlink} hard links, which would become different files.")
        _require_content(file, real, before)
        _put(Path(real), after, overwrite=True, check=partial(_require_content, file, real, before))
    return Written(file, before, after)


def undo(written: Written) -> None:
    """Restore a file unless it has changed since it was written."""
    replace(written.file, written.after, written.before)


def read(file: str) -> bytes:
    """Return the content of a regular file."""
    with _os_errors(file, "read"):
        try:
            with open_regular(file) as opened:
                return opened.read()
        except NotRegularError:
            raise NotWrittenError(f"{file} is not a regular file.") from None


def open_regular(file: str) -> BinaryIO:
    """Open a regular file. Raise `OSError`; `NotRegularError` for a pipe or a device, whose reading may not end."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if stat.S_ISREG(mode := os.fstat(descriptor).st_mode):
            return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), file) if stat.S_ISDIR(mode) else NotRegularError


def _real(file: str) -> str:
    """Return the file that a link in the same folder points to."""
    with _os_errors(file, "read"):
        real = os.path.realpath(file)
    folder = os.path.realpath(os.path.dirname(os.path.abspath(file)))
    if os.path.dirname(real) != folder:
        raise NotWrittenError(f"{file} is a link to {real}, in another folder. Nothing was written; run on that file.")
    return real


def _require_content(file: str, real: str, content: bytes) -> None:
    if read(real) != content:
        raise NotWrittenError(f"{os.path.basename(file)} has changed meanwhile. Nothing was written.")


def _require_writable(path: Path, status: os.stat_result) -> None:
    """Refuse a read-only file: a file can be replaced without the permission to write to it."""
    if not status.st_mode & _WRITE_BITS or not os.access(path, os.W_OK):
        raise NotWrittenError(f"{path} is read-only. Nothing was written.")


# ---- the write itself


def _put(
    path: Path, content: bytes, *, overwrite: bool, check: Callable[[], None] | None = None, mode: int = 0o666
) -> None:
    """Write a temporary file and give it the name, after a last `check`, which may raise."""
    temporary = _temporary(path)
    try:
        with _opened(temporary, mode) as opened:
            opened.write(content)
        if overwrite and path.exists():
            _copy_attributes(path, temporary)
        if check is not None:
            check()
        if overwrite:
            os.replace(temporary, path)
        else:
            _link(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name[:80]}.{os.urandom(4).hex()}{SUFFIX}")


@contextmanager
def _opened(path: Path, mode: int, *, stored: bool = True) -> Iterator[BinaryIO]:
    """Create a file to write; unless `stored` is false, wait until it is on the disk."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, mode), "wb") as opened:
        yield opened
        if stored:
            opened.flush()
            os.fsync(opened.fileno())


def _copy_attributes(source: Path, target: Path) -> None:
    """Copy permissions, extended attributes and owner, but not the times."""
    status, times = source.stat(), target.stat()
    if (status.st_uid, status.st_gid) != (times.st_uid, times.st_gid):
        os.chown(target, status.st_uid, status.st_gid)
    shutil.copystat(source, target)
    os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))


def _link(temporary: Path, path: Path) -> None:
    """Give a file its name unless the name is taken, atomically where the file system has hard links."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise NotWrittenError(f"{path} already exists. Nothing was written.") from None
    except OSError:
        if os.path.lexists(path):
            raise NotWrittenError(f"{path} already exists. Nothing was written.") from None
        os.replace(temporary, path)


def _encoded(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape")


@contextmanager
def _os_errors(file: str | Path, verb: str = "written") -> Iterator[None]:
    """Raise `NotWrittenError` in place of `OSError`."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise NotWrittenError(f"{file} cannot be {verb}: {reason}.") from None
