"""Every exception of a run as one `Failed`: whose it is, where in the user's file, what to try."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator

from tcexplore.capture.entry.entry import EntryError
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Failed, Location
from tcexplore.worker.torch_errors import judge

LONGEST_MESSAGE = 4_000
LONGEST_TRACEBACK = 60_000
_TCEXPLORE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def failed(error: BaseException, phase: str, project: UserFiles, *, eager_done: bool) -> Failed:
    """What became of a run that ended with `error` in `phase`.

    `eager_done` tells that the same calls ran without the compiler before.
    """
    if isinstance(error, EntryError):
        return Failed(
            stage=error.stage,
            blame="user",
            type="no entry" if error.stage == "file" else "argument",
            message=error.message,
            hint=error.hint,
            location=error.location,
        )
    verdict = judge(error, phase, project, eager_done=eager_done)
    return Failed(
        stage=verdict.stage,
        blame=verdict.blame,
        type=type(verdict.error).__name__,
        message=_message(verdict.error, verdict.stage)[:LONGEST_MESSAGE],
        location=_location(error, project),
        hint=verdict.hint,
        traceback=traceback_text(error, project),
    )


def _message(error: BaseException, stage: str) -> str:
    if isinstance(error, SystemExit):
        where = "while it was imported" if stage == "importing" else "in the middle of the run"
        return f"The file called sys.exit({error.code!r}) {where}."
    if isinstance(error, SyntaxError):
        return error.msg or "invalid syntax"
    inner = getattr(error, "inner_exception", None)
    if inner is not None:
        return f"{type(inner).__name__}: {inner}"
    if isinstance(getattr(error, "msg", None), str):
        return str(error.msg)  # type: ignore[attr-defined]  # without what torch appends for its own developers
    try:
        return str(error).strip() or type(error).__name__
    except Exception:  # the user's own __str__ is at work here
        return f"{type(error).__name__}, whose text could not be made"


def _location(error: BaseException, project: UserFiles) -> Location | None:
    """The innermost of the user's lines; torch's own record of the user stack goes before the traceback."""
    for link in chain(error):
        if isinstance(link, SyntaxError) and link.filename and project.owns(link.filename):
            return Location(os.path.abspath(link.filename), link.lineno or 1)
        frames = project.frames(getattr(link, "real_stack", None)) or project.frames(
            traceback.extract_tb(link.__traceback__)
        )
        if frames:
            return frames[-1]
    return None


def chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and those that caused it."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def traceback_text(error: BaseException, project: UserFiles) -> str:
    """The traceback with the user's frames only; where none is theirs, with all but those of tcexplore."""
    whole = traceback.TracebackException.from_exception(error)
    link: traceback.TracebackException | None = whole
    while link is not None:
        own = [frame for frame in link.stack if project.owns(frame.filename)]
        other = [frame for frame in link.stack if not frame.filename.startswith(_TCEXPLORE)]
        link.stack = traceback.StackSummary.from_list([] if isinstance(error, SyntaxError) else own or other)
        link = link.__cause__ or link.__context__
    return "".join(whole.format())[-LONGEST_TRACEBACK:]
