"""textual's driver of the terminal: fewer bytes over a slow line, and an end when the terminal is gone."""

from __future__ import annotations

import select
from functools import cache
from typing import Any

from textual.driver import Driver

from tcexplore.ui.terminal.sgr_minimizer import thrifty


@cache
def thrifty_driver(driver: type[Driver]) -> type[Driver]:
    """A driver that sends less, and that starts again only after it was suspended."""

    class ThriftyDriver(driver):  # type: ignore[misc, valid-type]
        def write(self, data: str) -> None:
            super().write(thrifty(data))

        def _sigcont_application(self, *signal: Any) -> None:
            # A terminal that closes sends SIGHUP and SIGCONT: started again then, the thread that reads keys would
            # read the end of input for ever.
            if getattr(self, "_must_signal_resume", True):
                super()._sigcont_application(*signal)

    return ThriftyDriver


def terminal_gone(descriptor: int = 0) -> bool:
    """Whether the other end of the terminal is closed. Not every terminal says so with SIGHUP."""
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))
    except (OSError, ValueError):
        return False
