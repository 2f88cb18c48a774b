"""The report to read: the verdict first, then why. Every word of the user's goes through `rich.text.Text`."""

from __future__ import annotations

from tcexplore.report.text.page import print_report

__all__ = ["print_report"]
