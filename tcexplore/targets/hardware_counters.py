"""The report of Nsight Compute as text: the launches that it counted, joined to the statements of their kernels."""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tcexplore.events import Kernel, KernelAssembled, KernelCounters, KernelStage, StatementCounters

SECTIONS = ("SourceCounters", "WarpStateStats")
"""What is sampled and counted for each instruction."""

_DURATION = "gpu__time_duration.sum"

_SHARES = {
    "compute_share": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory_share": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram_share": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "l2_share": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1_share": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
"""Metrics in percent, by field of `KernelCounters`."""

METRICS = (_DURATION, *_SHARES.values())

_NAME, _CODE, _SAMPLES, _EXECUTED, _STALL = "Kernel Name", "Source", "# Samples", "Instructions Executed", "stall_"

_MICROSECONDS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6, "nsecond": 1e-3, "usecond": 1.0, "msecond": 1e3}

_SASS_CODE = re.compile(r"^\s*/\*[0-9a-f]+\*/\s*(.*?)\s*;")
_OPCODE = re.compile(r"(?:@!?U?P\w+\s+)?([\w.]+)")


class Instruction(NamedTuple):
    """Counters of an instruction of the machine code."""

    text: str
    executed: int
    samples: int
    stalls: dict[str, int]
    """Samples by reason, of those that are not 0."""


class Launch(NamedTuple):
    """Counters of one launch of a kernel."""

    kernel: str
    us: float
    shares: dict[str, Any]
    """By field of `KernelCounters`, from 0 to 1."""
    instructions: tuple[Instruction, ...]


def read_launches(raw: str, source: str) -> list[Launch]:
    """Return the launches of a report, in their order, from its pages `raw` and `source` as CSV."""
    rows = iter(csv.reader(raw.splitlines()))
    head = next((row for row in rows if row[:1] == ["ID"]), None)
    units = next(rows, None)
    if head is None or units is None:
        return []
    unit = dict(zip(head, units, strict=False))
    codes = list(_instructions(source))
    launches = []
    for number, row in enumerate(rows):
        values = dict(zip(head, row, strict=False))
        name, code = codes[number] if number < len(codes) else ("", ())
        launches.append(
            Launch(
                kernel=values[_NAME],
                us=(_number(values.get(_DURATION)) or 0.0) * _MICROSECONDS.get(unit.get(_DURATION, ""), 1.0),
                shares={field: _percent(values.get(metric)) for field, metric in _SHARES.items()},
                instructions=code if name == values[_NAME] else (),
            )
        )
    return launches


def _instructions(source: str) -> Iterator[tuple[str, tuple[Instruction, ...]]]:
    """Yield the kernel and the instructions of each launch."""
    name, head, lines = "", list[str](), list[Instruction]()
    for row in csv.reader(source.splitlines()):
        if row[:1] == [_NAME]:
            if name:
                yield name, tuple(lines)
            name, head, lines = row[1], [], []
        elif not head:
            head = row if _CODE in row else []
        else:
            lines.append(_instruction(dict(zip(head, row, strict=False))))
    if name:
        yield name, tuple(lines)


def _instruction(values: dict[str, str]) -> Instruction:
    stalls = {
        column.removeprefix(_STALL): samples
        for column, value in values.items()
        if column.startswith(_STALL) and "(" not in column and (samples := int(_number(value) or 0))
    }
    return Instruction(
        values[_CODE].strip(), int(_number(values.get(_EXECUTED)) or 0), int(_number(values.get(_SAMPLES)) or 0), stalls
    )


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None  # `n/a`, `-`


def _percent(text: str | None) -> float | None:
    number = _number(text)
    return None if number is None else number / 100


def to_counters(kernel: Kernel, launch: Launch, code: KernelAssembled | None) -> KernelCounters:
    """Return the counters of a kernel, by statement of its source if its machine code is the counted one."""
    sass = next((stage for stage in code.stages if stage.name == "sass"), None) if code else None
    missing, statements = "", tuple[StatementCounters, ...]()
    if not launch.instructions:
        missing = "Nsight Compute gave no counters of single instructions"
    elif sass is None:
        missing = code.missing if code and code.missing else "the machine code of the kernel is not known"
    elif not _is_code_of(sass, launch.instructions):
        missing = "the machine code of the counted process is not the one that was counted"
    else:
        statements = tuple(_by_statement(sass, launch.instructions))
    return KernelCounters(
        graph=kernel.graph, phase=kernel.phase, kernel=kernel.name, target=kernel.target, us=launch.us,
        statements=statements, missing=missing, **launch.shares,
    )  # fmt: skip


def _code_lines(sass: KernelStage) -> list[tuple[int, str]]:
    """Return the number and the text of the lines of a stage that are instructions."""
    lines = enumerate(sass.text.splitlines(), 1)
    return [(n, match[1]) for n, line in lines if (match := _SASS_CODE.match(line))]


def _is_code_of(sass: KernelStage, instructions: Sequence[Instruction]) -> bool:
    """Return whether both have the same operations in the same order; operands have other labels and addresses."""
    ours = [_opcode(text) for _, text in _code_lines(sass)]
    return ours == [_opcode(instruction.text) for instruction in instructions]


def _opcode(text: str) -> str:
    match = _OPCODE.match(text.strip())
    return match[1] if match else text


def _by_statement(sass: KernelStage, instructions: Sequence[Instruction]) -> Iterator[StatementCounters]:
    """Yield the sums of the instructions of each statement, in the order of the source."""
    origins = dict(sass.lines)
    groups: defaultdict[int, list[Instruction]] = defaultdict(list)
    for (n, _), instruction in zip(_code_lines(sass), instructions, strict=True):
        groups[origins.get(n, 0)].append(instruction)
    for line, group in sorted(groups.items()):
        stalls = sum((Counter(instruction.stalls) for instruction in group), Counter[str]())
        yield StatementCounters(
            line=line,
            instructions=sum(instruction.executed for instruction in group),
            samples=sum(instruction.samples for instruction in group),
            stalls=tuple(stalls.most_common()),
        )
