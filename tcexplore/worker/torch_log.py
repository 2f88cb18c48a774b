"""torch's own log lines, so that a message of many lines can be read in a pane."""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable
from typing import Any

_Format = Callable[[Any, logging.LogRecord], str]


def indent_continued_lines() -> None:
    """Have torch's `TorchLogsFormatter` say time, process and place before the first line of a message alone.

    torch repeats them before each line. A torch without this formatter is left as it is.
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
    """`text` is `message` with the same prefix before each of its lines; keep the first and indent the others."""
    first, *others = text.split("\n")
    prefix = first.removesuffix(message.split("\n", 1)[0])
    if not others or not prefix.strip() or len(prefix) == len(first):
        return text
    return "\n".join([first, *(f"  {line.removeprefix(prefix)}".rstrip() for line in others)]).rstrip()
