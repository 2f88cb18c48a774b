"""Format torch's multi-line log messages for a pane."""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable
from typing import Any

_Format = Callable[[Any, logging.LogRecord], str]


def indent_continued_lines() -> None:
    """Have torch's `TorchLogsFormatter` print its prefix before the first line of a message only.

    torch repeats time, process and location before each line. Do nothing if torch has no such formatter.
    """
    try:
        formatter = importlib.import_module("torch._logging._internal").TorchLogsFormatter
        original = formatter.format
    except (ImportError, AttributeError):
        return
    if not hasattr(original, "__wrapped__"):
        formatter.format = _indenting(original)


def _indenting(original: _Format) -> _Format:
    @functools.wraps(original)
    def format(formatter: Any, record: logging.LogRecord) -> str:  # noqa: A001
        return indented(original(formatter, record), record.getMessage())

    return format


def indented(text: str, message: str) -> str:
    """Return `text`, which is `message` with a prefix before each line, with the prefix before the first line only."""
    first, *others = text.split("\n")
    prefix = first.removesuffix(message.split("\n", 1)[0])
    if not others or not prefix.strip() or len(prefix) == len(first):
        return text
    return "\n".join([first, *(f"  {line.removeprefix(prefix)}".rstrip() for line in others)]).rstrip()
