"""What of a compiled model can be kept, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.text import Text

from tcexplore import events as ev
from tcexplore.documents.locations import display_path
from tcexplore.documents.timing.state_dict_view import name_differences
from tcexplore.report.text.layout import indented, labelled
from tcexplore.session import Snapshot
from tcexplore.studies.artifacts import artifacts_text as words
from tcexplore.studies.artifacts.artifacts_result import shipped


def print_ship(
    runs: Sequence[Snapshot], machine: ev.Standby | None, *, stopped: bool = False, stream: TextIO | None = None
) -> None:
    """Print what was saved, both sides, and what loading spared."""
    console = Console(file=stream, markup=False, emoji=False, highlight=False)
    found = shipped(runs)
    if found is None:
        console.print(Text("stopped before the first run was done", "yellow"))
        return
    on = f" · torch {machine.torch} · {machine.device}" if machine else ""
    console.print(Text(f"{display_path(found.made.file)}{on}", "bold"), soft_wrap=True)
    for line in name_differences(found.made.state_keys) if found.made.state_keys else ():
        console.print(indented(line))
    console.print(indented(words.saved(found)))
    console.print(labelled("made", words.side(found.made)))
    if found.loaded is not None:
        console.print(labelled("loaded", words.side(found.loaded)))
    for said in filter(None, (words.again(found), words.verdict(found))):
        console.print(indented(said, "bold"))
    if stopped:
        console.print(Text(f"stopped after {len(runs)} of 2 runs", "yellow"))
