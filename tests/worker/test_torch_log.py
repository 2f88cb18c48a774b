"""Formatting of torch's multi-line log messages."""

from __future__ import annotations

import pytest

from tcexplore.worker.torch_settings import indented

PREFIX = "W1121 11:12:35.375000 42 torch/_dynamo/variables/tensor.py:1759] [0/0] "


def test_a_prefix_is_printed_once() -> None:
    message = "Graph break from `Tensor.item()`\n  set this\n\nor that\n"
    text = "\n".join(PREFIX + line for line in message.split("\n"))
    assert indented(text, message) == PREFIX + "Graph break from `Tensor.item()`\n    set this\n\n  or that"


@pytest.mark.parametrize("text", ["one line", "two\nlines", PREFIX + "one line"])
def test_text_without_a_repeated_prefix_is_unchanged(text: str) -> None:
    assert indented(text, text.removeprefix(PREFIX)) == text


@pytest.mark.torch
def test_torch_uses_the_formatter() -> None:
    import logging

    from tcexplore.worker import torch_settings

    internal = pytest.importorskip("torch._logging._internal")
    before = internal.TorchLogsFormatter.format
    torch_settings.indent_continued_lines()
    try:
        record = logging.LogRecord("torch.some", logging.WARNING, "here.py", 7, "first\nsecond", None, None)
        first, second = internal.TorchLogsFormatter().format(record).split("\n")
    finally:
        internal.TorchLogsFormatter.format = before
    assert first.startswith("W")
    assert first.endswith("first")
    assert second == "  second"
