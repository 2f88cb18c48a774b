"""The lines of a compiler stage: its instructions, the labels that they jump to, and directives."""

from __future__ import annotations

import re
from typing import NamedTuple

from tcexplore.documents.document import by_identity
from tcexplore.events import KernelStage

LINKED = ("ptx", "sass", "amdgcn", "assembly")
"""Stages that consist of instructions, in the order from the compiler's to the device's own."""

_CODE = {
    "ptx": re.compile(r"\s+(?:\{\s*)?[@a-z]"),
    "sass": re.compile(r"\s*/\*[0-9a-f]+\*/"),
    "amdgcn": re.compile(r"\s+[a-z]"),
    "assembly": re.compile(r"\s+[a-z]"),
    "ttir": re.compile(r"(?!#loc)\s*\S"),
    "ttgir": re.compile(r"(?!#loc)\s*\S"),
    "llir": re.compile(r"(?![!;]|attributes #|source_filename|target )\s*\S"),
}
"""Start of a line with code, by stage; any other line is a label or a directive."""

_LABEL = re.compile(r"\s*([.$\w]+):\s*(?://.*|;.*)?$")
_NAME = re.compile(r"[.$\w]+")

_NOTES = {
    "ptx": re.compile(r"\s*//.*$"),
    "sass": re.compile(r"^\s*/\*[0-9a-f]+\*/|\s*/\* 0x[0-9a-f]+ \*/"),
    "amdgcn": re.compile(r"\s*;.*$"),
    "ttir": re.compile(r"\s*loc\((?:#loc\d*|unknown)\)$"),
    "ttgir": re.compile(r"\s*loc\((?:#loc\d*|unknown)\)$"),
    "llir": re.compile(r", !dbg !\d+"),
}
"""Parts of a line with code that say where it comes from, or repeat it in another form."""


class CodeLine(NamedTuple):
    """A line of a stage that is no directive."""

    n: int
    """Its number in the text, from 1."""
    text: str
    """Without comments and locations."""
    origin: int
    """Line of the kernel's source, 0 if unknown. A label has that of the next instruction."""
    label: bool = False


class StageCode(NamedTuple):
    """The lines of a stage without its directives."""

    lines: tuple[CodeLine, ...]
    hidden: int
    """Number of the directives, comments and unused labels."""

    @property
    def instructions(self) -> int:
        return sum(not line.label for line in self.lines)


@by_identity(512)
def stage_code(stage: KernelStage) -> StageCode:
    """Return the code of a stage and the labels that it uses, without directives, cached."""
    texts, origins = stage.text.split("\n"), dict(stage.lines)
    code, notes = _CODE.get(stage.name), _NOTES.get(stage.name)
    is_code = [code is None or code.match(text) is not None for text in texts]
    used = {name for text, own in zip(texts, is_code, strict=True) if own for name in _NAME.findall(text)}
    linked = stage.name in LINKED
    kept: list[CodeLine] = []
    following = 0
    for n in range(len(texts), 0, -1):
        text = texts[n - 1]
        if is_code[n - 1]:
            following = origins.get(n, 0)
            shown = notes.sub("", text) if notes else text
            kept.append(CodeLine(n, " ".join(shown.split()) if linked else shown.rstrip(), following))
        elif (label := _LABEL.match(text)) and label[1] in used:
            kept.append(CodeLine(n, f"{label[1]}:", following, label=True))
    blank = sum(not text.strip() for text in texts)
    return StageCode(tuple(reversed(kept)), len(texts) - blank - len(kept))
