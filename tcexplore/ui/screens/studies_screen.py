"""The menu of studies: what more runs of the model file can answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from textual.binding import Binding, BindingType

from tcexplore.documents.document import Row, StaticDocument
from tcexplore.documents.prose import row
from tcexplore.keymap import ACTIONS, Action, normal_keys
from tcexplore.studies.registry import StudyName
from tcexplore.ui.actions import bindings
from tcexplore.ui.messages import RowEntered
from tcexplore.ui.screens.reading_screen import BoxScreen
from tcexplore.ui.screens.study_screen import StudyTask

STUDIES = tuple(sorted((action for action in ACTIONS if action.menu), key=lambda action: action.scope == "main"))
"""The actions in the menu: those of the selected kernel are last."""


class StudiesScreen(BoxScreen):
    """Calls `choose` with the action that the user chose, by its row or its key."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("studies"),
        *(Binding(normal_keys(action.name, action.menu), f"choose('{action.name}')", show=False) for action in STUDIES),
    ]
    SCOPES = ("view", "reading", "studies")

    def __init__(self, choose: Callable[[Action], None], begun: Mapping[StudyName, StudyTask], *, on_gpu: bool) -> None:
        """Make the menu; `begun` has the newest study of each name, if there is one. `on_gpu`: this machine has one."""
        super().__init__("Studies: more runs that answer one question")
        self._choose = choose
        self._begun = begun
        self._on_gpu = on_gpu

    @property
    def page(self) -> tuple[str, str]:
        return "studies", "Studies"

    def _show(self) -> None:
        self._show_document(
            StaticDocument("", tuple(_row(action, self._begun, on_gpu=self._on_gpu) for action in STUDIES))
        )

    def on_row_entered(self, _: RowEntered) -> None:
        self._run(STUDIES[self._view.cursor])

    def action_choose(self, name: str) -> None:
        """Choose an action by its name."""
        self._run(next(action for action in STUDIES if action.name == name))

    def _run(self, action: Action) -> None:
        self.leave()
        self.app.call_later(self._choose, action)


def _row(action: Action, begun: Mapping[StudyName, StudyTask], *, on_gpu: bool) -> Row:
    """Return the row of an action: its question, or how far the study is or its answer."""
    task = next((task for name, task in begun.items() if action.run == f"study('{name}')"), None)
    about = (action.question, "") if task is None else (task.status, "muted" if task.state.over else "running")
    if action.of_gpu and not on_gpu:
        about = ("needs a GPU in this machine", "dim")
    return row((f" {action.menu}  ", "key"), (f"{action.label:<12}", "strong"), about)
