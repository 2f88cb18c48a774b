"""The form that asks which inputs to check for a recompile."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tcexplore.events.input_specs import split_arguments
from tcexplore.keymap import hint
from tcexplore.session import Session, Snapshot
from tcexplore.session.links import Link
from tcexplore.session.region_query import QueryRegion, query_regions, select_region
from tcexplore.studies.study import Prompt, PromptField
from tcexplore.ui.screens.prompt_screen import PromptScreen

_NO_RUN = "No run to check yet."
_EARLIER = "This is an earlier run, and its process has ended: press {} for the newest one, then check."
_NO_ENTRY = "The entry point is not known yet: try again in a moment."
_NO_REGION = (
    "No inputs of this script can be checked yet: it has to compile something that takes inputs. An optimizer's step "
    "depends on its own state: its recompiles are in the guards pane."
)
_TITLE = "Recompile check"
_LABEL = "The inputs of one call, initially the file's own. Typing replaces the marked number:"
_REGION_LABEL = (
    "The inputs of one call of {name}, initially the last that it was compiled for. Typing replaces the marked number:"
)
_NOTE = (
    "f32[33, 512], mask=bool[64], 0.01, [f32[4], 2], f32[4, 6] strides[1, 4], f32[4] grad. "
    "Nothing is run: torch's own guards answer."
)


@dataclass(frozen=True)
class RecompilePrompt:
    """The form, and how to read its answers."""

    screen: PromptScreen
    region: QueryRegion | None
    """The region under the cursor, if the file is a script."""
    regions: dict[str, QueryRegion]

    def query(self, answers: tuple[str, ...]) -> tuple[tuple[str, ...], int | None]:
        """Return the inputs and the number of the region to check them for."""
        region = self.region if len(answers) == 1 else self.regions[answers[0].strip()]
        return tuple(split_arguments(answers[-1])), region.region.region if region else None


def ended() -> str:
    """Return why a run that has ended cannot be checked."""
    return f"The run has ended, and its compiled code is gone: press {hint('run-again')} to run again, then check."


def recompile_prompt(session: Session, links: Sequence[Link] = ()) -> RecompilePrompt | str:
    """Return the form for a recompile check, in a script of the region of these links; or why no run can answer."""
    shown = session.shown
    if shown is None:
        return _NO_RUN
    if shown is not session.newest:
        return _EARLIER.format(hint("newest-save"))
    if shown.status != "running":
        return ended()
    if shown.entry is None:
        return _NO_ENTRY
    script = shown.entry.kind == "script"
    region = select_region(shown, links) if script else None
    if script and region is None:
        return _NO_REGION
    regions = {each.name: each for each in query_regions(shown)} if region else {}
    label = _REGION_LABEL.format(name=region.name) if region else _LABEL
    inputs = _initial_inputs(shown, region)
    fields = [PromptField(label, inputs, _check_inputs, _first_number(inputs))]
    if len(regions) > 1 and region is not None:
        choices = f"The region of the script: {', '.join(regions)}"
        fields.insert(0, PromptField(choices, region.name, _region_check(regions)))
    return RecompilePrompt(PromptScreen(Prompt(_TITLE, tuple(fields), _NOTE)), region, regions)


def _initial_inputs(snapshot: Snapshot, region: QueryRegion | None) -> str:
    """Return the inputs checked last, else those of the file's last call or of the region's last compile."""
    number = region.region.region if region else None
    last = next((answer for answer in reversed(snapshot.recompile_answers) if answer.region == number), None)
    if last is not None:
        return ", ".join(last.inputs)
    if region is not None:
        return ", ".join(region.inputs)
    calls = snapshot.entry.calls if snapshot.entry else ()
    return ", ".join(calls[-1]) if calls else ""


def _first_number(inputs: str) -> tuple[int, int]:
    """Return where the first size is, most often that of the batch; else where the first number is, else the end."""
    number = re.search(r"(?<=\[)\d+", inputs) or re.search(r"\b\d[\d.]*", inputs)
    return number.span() if number else (len(inputs), len(inputs))


def _check_inputs(text: str) -> object:
    if not split_arguments(text):
        raise ValueError("Type the inputs of one call, separated by commas.")
    return text


def _region_check(regions: dict[str, QueryRegion]) -> Callable[[str], object]:
    def check(text: str) -> object:
        if text.strip() not in regions:
            raise ValueError(f"There is no region {text.strip()!r}. Regions: {', '.join(regions)}.")
        return text

    return check
