"""Stages of a run that may fail: each costs one fact, never the run."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.time_limit import TimeLimitError, process_limit, time_limit
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import StageStarted
from tcexplore.worker.failure import describe_error

LIMIT_S = 120.0
"""Time limit of a stage in seconds, for calls that take no time."""

LIMIT_CALLS = 100
"""Times that a stage may take the eager calls, in addition."""


class OptionalStages:
    """Runs optional stages, which call the user's code: it may raise, exit or never return."""

    def __init__(self, hooks: Hooks, user_files: UserFiles) -> None:
        self._hooks = hooks
        self._user_files = user_files
        self.eager_seconds = 0.0
        """Duration of all eager calls."""
        self.compiled = False
        """Whether the compile is over. Before, the end of the process fails the run."""
        self._facts: list[str] = []
        """The facts of the stages in progress, innermost last."""

    @property
    def limit_s(self) -> float:
        """The time limit of a stage in seconds."""
        return LIMIT_S + LIMIT_CALLS * self.eager_seconds

    def run(
        self, fact: str, symbol: str, function: Callable[..., Any], *args: Any, limit_s: float | None = None
    ) -> None:
        """Run a stage; if it fails, report `fact` as missing, with the reason.

        `limit_s` replaces the time limit; 0 for none.
        """
        limit = self.limit_s if limit_s is None else limit_s
        self._enter(fact)
        try:
            with process_limit(limit), time_limit(limit):
                function(*args)
        except TimeLimitError:
            self._hooks.report_missing(fact, symbol, f"it did not end within {limit:.0f} s")
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001  the user's code may raise anything
            self._hooks.report_missing(fact, symbol, self._reason(error))
        finally:
            self._facts.pop()
            if self._facts:
                self._enter(self._facts.pop())

    def _enter(self, fact: str) -> None:
        """Tell the supervisor which fact is missing if the process ends now."""
        self._facts.append(fact)
        if self.compiled:
            self._hooks.emit(StageStarted(fact=fact))

    def _reason(self, error: BaseException) -> str:
        message, location = describe_error(error, self._user_files)
        place = f" ({os.path.basename(location.file)}, line {location.line})" if location else ""
        return f"{type(error).__name__}: {message}{place}"
