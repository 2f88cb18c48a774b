"""The list of targets, with the code that the run in view has for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tcexplore.documents.document import StaticDocument
from tcexplore.documents.prose import BLANK, Column, table, wrapped
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.targets.device_table import Target, TargetError, all_targets, find_target
from tcexplore.targets.target_names import NATIVE


class TargetChoice(NamedTuple):
    """A target that the user can choose."""

    named: str
    """Value for `Config.target`."""
    key: str
    """Name in events."""
    target: Target | None = None
    """None for the device in this machine, and for a file with an error."""
    trouble: str = ""
    """Error in the file."""


def list_choices(own: Sequence[str]) -> list[TargetChoice]:
    """Return the device in this machine, the targets of the table, and those of the user's `own` files."""
    known = [TargetChoice(key, key, target) for key, target in all_targets().items()]
    return [TargetChoice(NATIVE, NATIVE), *known, *map(_file, own)]


def _file(path: str) -> TargetChoice:
    key = path.rpartition("/")[2].removesuffix(".toml")
    try:
        return TargetChoice(path, key, find_target(path))
    except TargetError as error:
        return TargetChoice(path, key, trouble=str(error))


NOTE = (
    "Enter shows the code of a target in all panes. The captured graphs are lowered for it, without tracing your "
    "program again. Later saves use the same target."
)


def choice_rows(choices: Sequence[TargetChoice], snapshot: Snapshot | None, device: str, width: int) -> StaticDocument:
    """Return the document: the head and a row for each choice."""
    table_columns: tuple[Column[TargetChoice], ...] = (
        Column("", lambda choice: "●" if _is_shown(choice, snapshot) else " ", style="ok", left=True),
        Column("target", lambda choice: choice.key, left=True,
               style=lambda choice: "strong" if _is_shown(choice, snapshot) else ""),
        Column("device", lambda choice: _device(choice, device)[0], left=True,
               style=lambda choice: "warn" if choice.trouble else ""),
        Column("code", lambda choice: _code(choice, snapshot), style="number", left=True),
        Column("" if width >= _ROOMY else None, lambda choice: _device(choice, device)[1], style="muted", left=True),
    )  # fmt: skip
    return StaticDocument("", (*table(table_columns, choices), BLANK, *wrapped(NOTE, width, "dim")))


FIRST = 1
"""Row of the first choice."""


def _is_shown(choice: TargetChoice, snapshot: Snapshot | None) -> bool:
    return snapshot is not None and snapshot.target == choice.key


_ROOMY = 90
"""Minimum width to show a device's figures."""


def _device(choice: TargetChoice, device: str) -> tuple[str, str]:
    if choice.target is None:
        return choice.trouble or f"device in this machine: {device}", ""
    target = choice.target
    arch = f"sm_{target.arch}" if target.backend == "cuda" else str(target.arch)
    facts = f"{arch}, {target.properties.multi_processor_count} SMs, {target.peaks.memory / 1e12:.2f} TB/s"
    return target.properties.name, facts.replace("SMs", "CUs") if target.backend == "hip" else facts


def _code(choice: TargetChoice, snapshot: Snapshot | None) -> str:
    """Return how much of the code of a target the run has."""
    if snapshot is None or not snapshot.has_code(choice.key):
        return ""
    code = snapshot.code_for(choice.key)
    generated = sum(kernel.generated for kernel in code.kernels)
    lost = f", {count(len(code.not_lowered), 'graph')} not lowered" if code.not_lowered else ""
    return count(generated, "kernel") + lost
