"""Parser of the text of `dis`, in which torch's trace has the bytecode of resume functions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tcexplore.events import Instruction

_LINE = re.compile(
    r"^\s*(?P<numbers>(?:(?:\d+|None|--)\s+)?)(?:-->\s+)?(?:(?:>>|(?P<label>L\d+):)\s*)?(?P<offset>(?:\d+\s+)?)"
    r"(?P<op>[A-Z][A-Z0-9_+]+)(?:\s+(?P<arg>\d+))?(?:\s+\((?P<value>.*)\))?\s*$"
)
_JUMP = re.compile(r"^to (L?\d+)$")
_RESUME = re.compile(r"__resume_at_\w+")


def read_instructions(text: str) -> tuple[Instruction, ...]:
    """Return the instructions of a text of `dis`; since Python 3.13, it has labels in place of offsets."""
    matches = [match for line in text.splitlines() if (match := _LINE.match(line))]
    with_offsets = bool(matches) and all(_numbers(match) for match in matches)
    offsets = [_numbers(match)[-1] if with_offsets else index * 2 for index, match in enumerate(matches)]
    labels = {match["label"]: offset for match, offset in zip(matches, offsets, strict=True) if match["label"]}
    return tuple(_read(matches, offsets, labels, with_offsets=with_offsets))


def _numbers(match: re.Match[str]) -> list[int]:
    """Return the numbers before an opcode: its line, its offset, or both."""
    return [int(text) for text in (match["numbers"] + " " + match["offset"]).split() if text.isdecimal()]


def _read(
    matches: list[re.Match[str]], offsets: list[int], labels: dict[str, int], *, with_offsets: bool
) -> Iterator[Instruction]:
    for index, (match, offset) in enumerate(zip(matches, offsets, strict=True)):
        numbers = _numbers(match)
        # Dynamo's instructions have the line of the last one of the user before them, which `dis` does not repeat.
        line = numbers[0] if len(numbers) > with_offsets and index and match["op"] != "RESUME" else None
        value, arg = match["value"] or "", int(match["arg"]) if match["arg"] else None
        jump = _JUMP.match(value)
        target = None if jump is None else labels.get(jump[1], int(jump[1]) if jump[1].isdecimal() else None)
        yield Instruction(offset, match["op"], arg, "" if jump else value, line, target)


def resume_variables(instructions: tuple[Instruction, ...]) -> tuple[str, ...]:
    """Return the global variables of the resume functions that a function calls, each once."""
    loads = (each.value for each in instructions if each.op == "LOAD_GLOBAL")
    return tuple(dict.fromkeys(name for value in loads for name in _RESUME.findall(value)))
