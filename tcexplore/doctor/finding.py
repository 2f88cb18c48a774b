"""One line of the doctor's answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that this machine has or lacks.

    `state` is `good`, `missing` (something that tcexplore needs) or `without` (something that it can do without);
    `remedy` is what to do about it.
    """

    name: str
    state: str
    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Findings that belong together."""

    title: str
    findings: tuple[Finding, ...]
