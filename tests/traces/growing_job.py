"""Traces of a job that is running, made by copying a finished trace record by record."""

from __future__ import annotations

import re
from pathlib import Path

_RECORD = re.compile(rb"(?m)^(?=[VIWE]\d{4} )")


class GrowingFile:
    """A trace file to which records of a finished trace are added."""

    def __init__(self, finished: Path, folder: Path, pid: int | None = None) -> None:
        """`pid` replaces the process id in all records."""
        self.path = folder / finished.name
        data = finished.read_bytes()
        if pid is not None:
            data = re.sub(rb"(?m)^([VIWE]\d{4} \S+) \d+ ", rb"\g<1> %d " % pid, data)
        self.records = [record for record in _RECORD.split(data) if record]
        self.written = 0

    def write(self, count: int | None = None) -> None:
        """Add records, all that are left by default."""
        end = len(self.records) if count is None else self.written + count
        self.write_bytes(b"".join(self.records[self.written : end]))
        self.written = min(end, len(self.records))

    def write_bytes(self, data: bytes) -> None:
        """Add bytes."""
        with open(self.path, "ab") as file:
            file.write(data)

    def until(self, kind: str) -> int:
        """Return the number of records to write before the next one of a kind."""
        numbers = range(self.written, len(self.records))
        return next(n for n in numbers if f'{{"{kind}"'.encode() in self.records[n].split(b"\n")[0]) - self.written
