"""pytest plugin: the fixture `tcexplore`, which compiles in the test's process and returns what torch did.

Loading it imports neither torch nor any other module of tcexplore.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tcexplore.exploration import Explorer


def _is_shown(record: logging.LogRecord) -> bool:
    """Return whether pytest may show a log record: torch's structured trace has hundreds of them for each compile."""
    return record.name != "torch.__trace"


@pytest.fixture
def tcexplore(request: pytest.FixtureRequest) -> Iterator[Explorer]:
    """Return an explorer: `tcexplore.explore(model, x).assert_no_breaks()`."""
    from tcexplore.exploration import Explorer

    # pytest adds its handlers to each logger that does not propagate, too.
    plugin = request.config.pluginmanager.getplugin("logging-plugin")
    handlers = [getattr(plugin, name, None) for name in ("caplog_handler", "report_handler")]
    known = [handler for handler in handlers if isinstance(handler, logging.Handler)]
    for handler in known:
        handler.addFilter(_is_shown)
    yield Explorer()
    for handler in known:
        handler.removeFilter(_is_shown)
