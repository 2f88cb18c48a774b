"""Inline assembly in PTX: each of its lines is given the next line of the source, which is not where it came from."""

from __future__ import annotations

from collections.abc import Iterator

_BEGIN, _END = "// begin inline asm", "// end inline asm"


def outside(text: str) -> Iterator[tuple[str, bool]]:
    """Each line of PTX, and whether it stands outside of inline assembly."""
    inside = False
    for line in text.split("\n"):
        marker = line.strip()
        inside = (inside or marker == _BEGIN) and marker != _END
        yield line, not inside


def kept_to_its_line(ptx: str) -> str:
    """The same PTX with whole blocks of inline assembly on the line that they began on."""
    return "\n".join(line for line, out in outside(ptx) if out or not line.strip().startswith(".loc"))
