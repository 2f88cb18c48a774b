"""Run the terminal app, from its start to its exit status."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tcexplore.model_python import ModelPython
from tcexplore.ui.appearance import Appearance

if TYPE_CHECKING:
    from tcexplore.cli.options import Request
    from tcexplore.processes import Deadline
    from tcexplore.profiles.profile_job import ProfileJob
    from tcexplore.traced_job import TracedJob
    from tcexplore.traces.followed_trace import FollowedTrace
    from tcexplore.traces.trace_job import OpenedTrace, TraceJob
    from tcexplore.ui.engine import Engine
    from tcexplore.ui.run_history import RunHistory
    from tcexplore.ui.saved_settings import Settings

FRAMES_PER_S = "200"
"""Maximum repaints per second. Textual's 60 delay a second paint within 17 to 33 ms of the first one by as much."""

_RATE = "TEXTUAL_FPS"


def run_app(file: str, name: str | None, request: Request, pythons: tuple[ModelPython, ...]) -> int:
    """Show the app until the user leaves it; return the exit status (128 + n after signal n).

    The first of `pythons` runs the file, and the study of modes compares it with the others. On return, the terminal is
    restored and no worker is left.
    """
    try:
        worker = pythons[0].start_worker()  # it imports torch while this process imports Textual
    except OSError:
        worker = None  # the engine tries again, and says why it cannot be started
    _prepare_first_frame()
    _set_frame_rate()
    from tcexplore.ui.saved_settings import load, settings_file

    settings, config = load(settings_file()), request.config
    if not request.target_given and (target := settings.target_of(file)):
        config = replace(config, target=target)

    def engine() -> Engine:
        from tcexplore.ui.file_engine import FileEngine

        return FileEngine(file, config, request.argv, name, request.standbys, pythons, worker)

    def history(of: str) -> RunHistory:
        from tcexplore.run_store import RunStore, history_folder
        from tcexplore.ui.run_history import RunHistory

        return RunHistory(RunStore(of, history_folder()))

    return _show(engine, request.appearance, settings, history if request.history else None, file=file)


def _set_frame_rate() -> None:
    """Set Textual's frame rate, which it reads from the environment when it is imported. Workers don't inherit it."""
    if _RATE in os.environ:
        return
    os.environ[_RATE] = FRAMES_PER_S
    import textual.constants  # noqa: F401

    del os.environ[_RATE]


def run_trace_app(
    job: TraceJob, rank: int | None, opened: OpenedTrace, before: TraceJob | None, appearance: Appearance
) -> int:
    """Show the app on the ranks of a traced job until the user leaves it; return the exit status.

    `before` is another job, whose same rank is the base of diffs.
    """
    from tcexplore.traces.forked_run import fork_run

    forked = fork_run(job, rank) if before is None else None  # now: this process has no threads yet

    def engine() -> Engine:
        from tcexplore.ui.trace_engine import TraceEngine

        return TraceEngine(job, rank, opened.problems, before, opened.unread, forked)

    return _show(engine, appearance)


def run_profile_app(job: ProfileJob, rank: int | None, appearance: Appearance) -> int:
    """Show the app on the profiles of a job until the user leaves it; return the exit status."""

    def engine() -> Engine:
        from tcexplore.ui.profile_engine import ProfileEngine

        return ProfileEngine(job, rank)

    return _show(engine, appearance)


def run_follow_app(trace: FollowedTrace, rank: int | None, launched: TracedJob | None, appearance: Appearance) -> int:
    """Show the app on a job that is running until the user leaves it; return the exit status.

    `launched` is the job if tcexplore started it.
    """

    def engine() -> Engine:
        from tcexplore.ui.follow_engine import FollowEngine

        return FollowEngine(trace, rank, launched)

    from tcexplore.processes import Deadline

    end = Deadline(_restore_terminal(), keep=() if launched is None else (launched.pid,))
    try:
        return _show(engine, appearance, end=end)
    finally:
        end.cancel()  # the job has its own time to end


def run_ranks_app(file: str, command: Sequence[str], rank: int | None, appearance: Appearance) -> int:
    """Show the app on a script that runs as several ranks on every save; return the exit status."""

    def engine() -> Engine:
        from tcexplore.ui.follow_engine import SavedRanksEngine

        return SavedRanksEngine(file, command, rank)

    return _show(engine, appearance)


def _show(
    engine: Callable[[], Engine],
    appearance: Appearance,
    settings: Settings | None = None,
    history: Callable[[str], RunHistory] | None = None,
    end: Deadline | None = None,
    file: str = "",
) -> int:
    _prepare_first_frame()
    import asyncio

    from tcexplore.processes import Deadline

    end = end or Deadline(_restore_terminal())
    return asyncio.run(_run(engine, appearance, settings, history, end, file))


def _restore_terminal() -> Callable[[], None]:
    """Return a function that restores the terminal as it is now."""
    try:
        import termios

        attributes = termios.tcgetattr(0)
    except (ImportError, termios.error):  # Windows, or a browser
        return lambda: None

    def restore() -> None:
        from tcexplore.ui.terminal_driver import restore_terminal

        restore_terminal(0, attributes)

    return restore


def _prepare_first_frame() -> None:
    """Leave out what would delay the first frame: collections, by 20 ms, and OpenSSL, which asyncio imports, by 5 ms.

    Nothing that is allocated before that frame is garbage; the app enables collection again once it is set up. It opens
    no connections, and asyncio can do without OpenSSL.
    """
    gc.disable()
    if "ssl" in sys.modules or "asyncio" in sys.modules:
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]
    try:
        import asyncio  # noqa: F401
    finally:
        del sys.modules["ssl"]


async def _run(
    engine: Callable[[], Engine],
    appearance: Appearance,
    settings: Settings | None,
    history: Callable[[str], RunHistory] | None,
    end: Deadline,
    model_file: str,
) -> int:
    from tcexplore.ui.app import ExplorerApp
    from tcexplore.ui.saved_settings import load, settings_file, store

    file = settings_file()
    settings = settings or load(file)
    app = ExplorerApp(engine, settings=settings, history=history, appearance=appearance, end=end, file=model_file)
    try:
        await app.run_async()
    finally:
        app.stop_study()
        await app.close_answers()
        # In the order of what the user would miss: the deadline may end this process before all is done.
        store(file, app.chosen_settings(load(file)))
        if app.history is not None:
            await app.history.store(app.session, newest=True)
        if app.engine is not None:
            await app.engine.close()
    return app.return_code or 0
