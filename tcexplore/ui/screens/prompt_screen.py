"""Forms over the screen: one that asks the user for values, and one that checks inputs for a recompile."""

from __future__ import annotations

import re
import shlex
from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, TypeGuard

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static
from textual.widgets.input import Selection

from tcexplore.argument_types import assignment
from tcexplore.documents.document import StaticDocument
from tcexplore.documents.guards.recompile_check_view import answer_rows
from tcexplore.events import RecompileAnswer
from tcexplore.events.commands import RecompileQuery
from tcexplore.events.input_specs import split_arguments
from tcexplore.keymap import hint
from tcexplore.session import Session, Snapshot
from tcexplore.session.links import Link, QueryRegion, query_regions, select_region
from tcexplore.studies.study import Prompt, PromptField
from tcexplore.ui.row_painter import MARGIN
from tcexplore.ui.row_view import RowView


class LineInput(Input):
    """A line that is edited as in a shell: words, deleting and inserting again, and lines that were typed earlier."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+b", "cursor_left", show=False),
        Binding("ctrl+f", "cursor_right", show=False),
        Binding("alt+b", "cursor_left_word", show=False),
        Binding("alt+f", "cursor_right_word", show=False),
        Binding("ctrl+w,alt+backspace,ctrl+backspace", "delete_part('left_word')", show=False),
        Binding("alt+d", "delete_part('right_word')", show=False),
        Binding("ctrl+k", "delete_part('right_all')", show=False),
        Binding("ctrl+u", "delete_line", show=False),
        Binding("ctrl+y", "insert_deleted", show=False),
        Binding("up,ctrl+p", "earlier(-1)", show=False),
        Binding("down,ctrl+n", "earlier(1)", show=False),
    ]

    def __init__(self, field: PromptField) -> None:
        super().__init__(field.value, compact=True, select_on_focus=field.selected is None)
        if field.selected is not None:
            self.selection = Selection(*field.selected)
        self._deleted = ""
        """What the last of the deleting keys removed."""
        self._lines = [*(line for line in field.earlier if line != field.value), field.value]
        self._at = len(self._lines) - 1

    def action_delete_part(self, part: str) -> None:
        """Delete a part of the line on one side of the cursor."""
        before = self.value
        getattr(self, f"action_delete_{part}")()
        if len(before) > len(self.value):
            start = self.cursor_position
            self._deleted = before[start : start + len(before) - len(self.value)]

    def action_delete_line(self) -> None:
        """Delete the whole line, wherever the cursor is."""
        self._deleted, self.value = self.value or self._deleted, ""

    def action_insert_deleted(self) -> None:
        """Insert what was deleted last."""
        self.insert_text_at_cursor(self._deleted)

    def action_earlier(self, by: int) -> None:
        """Show the line that was typed before or after this one."""
        at = self._at + by
        if 0 <= at < len(self._lines):
            self._lines[self._at] = self.value
            self._at, self.value = at, self._lines[at]
            self.cursor_position = len(self.value)


class PromptScreen(ModalScreen[tuple[str, ...] | None]):
    """Returns the values, all checked, or None if the user pressed escape."""

    CSS_PATH = Path(__file__).with_name("prompt.tcss")  # Textual resolves a bare name relative to the subclass
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", show=False)]

    def __init__(self, prompt: Prompt) -> None:
        super().__init__()
        self._prompt = prompt

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(self._prompt.title)
            for field in self._prompt.fields:
                yield Static(Content(field.label))
                yield LineInput(field)
            yield Static(Content(self._prompt.note), id="note")

    def on_mount(self) -> None:
        self.query(Input).first().focus()
        # The inputs show the end of a long text at first, and a selection may lie before it.
        self.call_after_refresh(self._show_starts)

    def _show_starts(self) -> None:
        for entered, field in zip(self.query(Input), self._prompt.fields, strict=True):
            if field.selected is not None:
                entered.scroll_to(x=0, animate=False, immediate=True)

    def on_descendant_focus(self) -> None:
        last = self.focused is self.query(Input).last()
        self.query_one(Vertical).border_subtitle = Content(f"⏎ {'OK' if last else 'next'} · esc cancel")

    def valid_values(self) -> tuple[str, ...] | None:
        """Return the values if all are valid, else None."""
        values = tuple(entered.value for entered in self.query(Input))
        try:
            for field, value in zip(self._prompt.fields, values, strict=True):
                field.check(value)
        except ValueError:
            return None
        return values

    @property
    def refused(self) -> bool:
        """Whether the values can't be used, although each is valid; the screen says why."""
        return False

    def on_input_submitted(self, event: Input.Submitted) -> None:
        inputs = list(self.query(Input))
        for field, entered in zip(self._prompt.fields, inputs, strict=True):
            try:
                field.check(entered.value)
            except ValueError as error:
                self._show_error(str(error))
                entered.focus()
                return
            if entered is event.input and entered is not inputs[-1]:
                self.focus_next()
                return
        if not self.refused:
            self.dismiss(tuple(entered.value for entered in inputs))

    def _show_error(self, message: str) -> None:
        note = self.query_one("#note", Static)
        note.update(Content(message))
        note.display = True
        note.add_class("-error")


def parse_arguments(text: str) -> tuple[str, ...]:
    """Return the arguments in `recompile_limit=4 name=block`. Raises `ValueError` with a message."""
    try:
        return tuple(map(assignment, shlex.split(text)))
    except ValueError as error:
        raise ValueError(f"Cannot split this into arguments: {str(error).lower()}.") from None
    except ArgumentTypeError as error:
        raise ValueError(f"{error}.") from None


def parse_calls(text: str) -> int | None:
    """Return the number in `1,000` or `1000`, None for an empty text. Raises `ValueError` with a message."""
    digits = text.replace(",", "").replace("_", "").replace(" ", "")
    if digits and (not digits.isdecimal() or not int(digits)):
        raise ValueError("A number of calls is a whole number above 0, such as 100,000.")
    return int(digits) if digits else None


# ---- recompile checks


_NO_RUN = "No run to check yet."
_EARLIER = "This is an earlier run, and its process has ended: press {} for the newest one, then check."
_NO_ENTRY = "The entry point is not known yet: try again in a moment."
_NO_REGION = (
    "No inputs of this script can be checked yet: it has to compile something that takes inputs. An optimizer's step "
    "depends on its own state: its recompiles are in the guards pane."
)
_TITLE = "Recompile check"
_LABEL = "The inputs of one call{of}, initially {which}. Typing replaces the marked number:"
_OWN, _LAST_COMPILED, _LAST_CHECKED = "the file's own", "the last that it was compiled for", "those checked last"
_WAITING = "◐ waiting for the run's answer"
_OLD = f"{_WAITING}; above is the one to the inputs before"
_MOST_ROWS = 12
"""Rows of an answer below the inputs; the check view has all."""

_NOTE = (
    "For example: f32[33, 512], mask=bool[64], 0.01, [f32[4], 2], f32[4, 6] strides[1, 4], f32[4] grad. "
    "Nothing is compiled: torch's own guards answer."
)


Send = Callable[[RecompileQuery], object]


class RecompileCheckScreen(PromptScreen):
    """Sends a query whenever the user has typed other inputs, and shows the answer below them.

    All queries of one form have one number, so that the run keeps the last answer only. Inputs that cannot be checked
    keep the form open.
    """

    def __init__(self, prompt: Prompt, number: int, regions: Sequence[QueryRegion], send: Send | None) -> None:
        """Make the form; `regions` are those of a script. Without `send` it does not answer while the user types."""
        super().__init__(prompt)
        self.number = number
        self._answer: RecompileAnswer | None = None
        """The answer in view."""
        self._regions = {region.name: region for region in regions}
        self._send = send
        self._sent = tuple(field.value for field in prompt.fields)
        """Values that were sent last, at first the initial ones."""
        self._rows = RowView(id="answer")
        self._rows.can_focus = False

    def on_mount(self) -> None:
        self.query_one(Vertical).mount(self._rows, before="#note")
        self.watch(self.app, "session", self._show_answer, init=False)

    def query_for(self, answers: Sequence[str]) -> RecompileQuery:
        """Return the query for the values of the form."""
        only = next(iter(self._regions.values()), None)
        region = only if len(answers) == 1 else self._regions[answers[0].strip()]
        inputs = tuple(split_arguments(answers[-1]))
        return RecompileQuery(number=self.number, inputs=inputs, region=region.region.region if region else None)

    def on_input_changed(self) -> None:
        answers = self.valid_values()
        if self._send is not None and answers not in (None, self._sent):
            self._sent = answers
            self._show_waiting()
            self._send(self.query_for(answers))

    def _show_waiting(self) -> None:
        note = self.query_one("#note", Static)
        note.update(Content(_OLD if self._rows.display else _WAITING))
        note.display = True

    @property
    def refused(self) -> bool:
        return self._is_last(self._answer) and bool(self._answer.problem) and self.valid_values() == self._sent

    def _is_last(self, answer: RecompileAnswer | None) -> TypeGuard[RecompileAnswer]:
        """Check whether an answer is to the values that were sent last: those to earlier ones may still come."""
        return answer is not None and answer.asked == self.query_for(self._sent).inputs

    def _show_answer(self, session: Session) -> None:
        run = session.shown
        answer = next((each for each in run.recompile_answers if each.number == self.number), None) if run else None
        if run is None or answer is None or answer is self._answer:
            return
        self._answer = answer
        width = self.query(Input).first().size.width - MARGIN
        rows = tuple(answer_rows(answer, run, width))[:_MOST_ROWS]
        self._rows.show(StaticDocument("", rows))
        self._rows.styles.height = len(rows)
        self._rows.display = True
        if self._is_last(answer):
            self.query_one("#note").display = False
        else:
            self._show_waiting()


def ended() -> str:
    """Return why a run that has ended cannot be checked."""
    return f"The run has ended, and its compiled code is gone: press {hint('run-again')} to run again, then check."


def recompile_prompt(session: Session, links: Sequence[Link], send: Send, number: int) -> RecompileCheckScreen | str:
    """Return the form for a recompile check, in a script of the region of these links; or why no run can answer.

    `number` is that of its queries.
    """
    shown = session.shown
    if shown is None:
        return _NO_RUN
    if shown is not session.newest:
        return _EARLIER.format(hint("back"))
    if shown.status != "running":
        return ended()
    if shown.entry is None:
        return _NO_ENTRY
    script = shown.entry.kind == "script"
    region = select_region(shown, links) if script else None
    if script and region is None:
        return _NO_REGION
    regions = query_regions(shown) if region else ()
    names = [each.name for each in regions]
    inputs = _initial_inputs(shown, region)
    checked = _checked(shown, region.region.region if region else None)
    which = _LAST_CHECKED if checked else _LAST_COMPILED if region else _OWN
    label = _LABEL.format(of=f" of {region.name}" if region else "", which=which)
    fields = [PromptField(label, inputs, _check_inputs, _first_number(inputs), checked)]
    if len(regions) > 1 and region is not None:
        choices = f"The region of the script: {', '.join(names)}"
        fields.insert(0, PromptField(choices, region.name, _region_check(names)))
    return RecompileCheckScreen(Prompt(_TITLE, tuple(fields), _NOTE), number, regions, send if shown.complete else None)


def _initial_inputs(snapshot: Snapshot, region: QueryRegion | None) -> str:
    """Return the inputs checked last, else those of the file's last call or of the region's last compile."""
    checked = _checked(snapshot, region.region.region if region else None)
    if checked:
        return checked[-1]
    if region is not None:
        return ", ".join(region.inputs)
    calls = snapshot.entry.calls if snapshot.entry else ()
    return ", ".join(calls[-1]) if calls else ""


def _checked(snapshot: Snapshot, region: int | None) -> tuple[str, ...]:
    """Return the inputs that were checked, of a region of a script; those that could not be are left out."""
    answers = (each for each in snapshot.recompile_answers if each.region == region and not each.problem)
    return tuple(dict.fromkeys(", ".join(answer.inputs) for answer in answers))


def _first_number(inputs: str) -> tuple[int, int]:
    """Return where the first size is, most often that of the batch; else where the first number is, else the end."""
    number = re.search(r"(?<=\[)\d+", inputs) or re.search(r"\b\d[\d.]*", inputs)
    return number.span() if number else (len(inputs), len(inputs))


def _check_inputs(text: str) -> object:
    if not split_arguments(text):
        raise ValueError("Type the inputs of one call, separated by commas.")
    return text


def _region_check(regions: Sequence[str]) -> Callable[[str], object]:
    def check(text: str) -> object:
        if text.strip() not in regions:
            raise ValueError(f"There is no region {text.strip()!r}. Regions: {', '.join(regions)}.")
        return text

    return check
