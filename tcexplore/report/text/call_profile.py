"""Where the time of one call goes."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType

from tcexplore.documents.call_profile_text import headline, lines
from tcexplore.report.text.layout import columns, indented
from tcexplore.session import Snapshot


def call_profile(snapshot: Snapshot) -> Iterable[RenderableType]:
    found = snapshot.call_profile
    if found is None:
        return
    yield indented(headline(found))
    yield from columns(lines(found), right=(0, 1), by=4)
