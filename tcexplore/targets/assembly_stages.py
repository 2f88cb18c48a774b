"""Stages of a kernel from TTIR to machine code, each line linked to its line in the kernel's Triton source."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from tcexplore.events.target_events import KernelResources, KernelStage
from tcexplore.targets.device_table import Target
from tcexplore.targets.resources import amd_resources, nvidia_resources

Lines = Iterator[tuple[int, int]]

STAGE_ORDER = ("ttir", "ttgir", "llir", "ptx", "amdgcn")

_MLIR_USE = re.compile(r"loc\((#loc\d*)\)\s*$")
_MLIR_NAMED = re.compile(r"^(#loc\d*) = loc\((.*)\)\s*$", re.M)
_MLIR_PLACE = re.compile(r'"([^"]*)":(\d+):\d+')
_LLVM_USE = re.compile(r"!dbg (!\d+)")
_LLVM_PLACE = re.compile(r"^(!\d+) = (?:distinct )?!DILocation\(line: (\d+).*?(?:inlinedAt: (!\d+))?\)", re.M)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?', re.M)
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+\d+")
_INLINED = re.compile(r"inlined_at (\d+) (\d+) \d+")
_INLINED_COMMENT = re.compile(r"@\[ ([^\]]*?):(\d+):\d+ \]")
_SASS_LINE = re.compile(r'//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?')
_SASS_CODE = re.compile(r"^\s*/\*[0-9a-f]+\*/")
_INSTRUCTION = re.compile(r"^\s+[@a-z]")
_ASM_BEGIN, _ASM_END = "// begin inline asm", "// end inline asm"
_USAGE = re.compile(r"(\w+):(\d+)")


class NoDisassemblerError(RuntimeError):
    """Neither the triton package nor the PATH has the tool."""


class MachineCode(NamedTuple):
    """The stages of a compiled kernel."""

    stages: tuple[KernelStage, ...]
    resources: KernelResources | None
    missing: str = ""
    """Why SASS and resources are missing."""


def machine_code(compiled: dict[str, Any], target: Target, file: str, added_lines: int) -> MachineCode:
    """Return stages and resources of a compiled kernel (`asm` by stage, `cubin` in hex, `metadata`).

    `added_lines` lines precede the kernel's displayed source in `file`. Raises `OSError` if a tool fails.
    """
    asm: dict[str, str] = compiled["asm"]
    stages = [make_stage(name, asm[name], file, added_lines) for name in STAGE_ORDER if name in asm]
    if target.backend == "hip":
        return MachineCode(tuple(stages), amd_resources(target, compiled["metadata"], asm.get("amdgcn", "")))
    cubin = bytes.fromhex(compiled["cubin"])
    try:
        sass = _run_tool("nvdisasm", ["-g", "-c"], cubin)
        usage = _resource_usage(cubin)
    except NoDisassemblerError as error:
        return MachineCode(tuple(stages), None, f"No SASS and no resources: {error}.")
    resources = nvidia_resources(target, usage, compiled["metadata"], sass)
    return MachineCode((*stages, make_stage("sass", sass, file, added_lines)), resources)


def make_stage(name: str, text: str, file: str, added_lines: int = 0) -> KernelStage:
    """Return a stage with its lines linked to `file`, whose first `added_lines` lines are not displayed."""
    link = _LINKS.get(name)
    pairs = () if link is None else tuple((n, line - added_lines) for n, line in link(text, file) if line > added_lines)
    return KernelStage(name, text, pairs)


def mark_inline_asm(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line of PTX, and whether it is outside of inline assembly."""
    inside = False
    for line in text.split("\n"):
        marker = line.strip()
        inside = (inside or marker == _ASM_BEGIN) and marker != _ASM_END
        yield line, not inside


def drop_inline_asm_locations(ptx: str) -> str:
    """Return the PTX without `.loc` inside of inline assembly.

    The assembler numbers each line of such a block upward from the block's own, which points to unrelated source lines.
    """
    return "\n".join(line for line, outside in mark_inline_asm(ptx) if outside or not line.strip().startswith(".loc"))


def _resource_usage(cubin: bytes) -> dict[str, int]:
    """Return `REG`, `STACK`, `SHARED`, `LOCAL` of a cubin's kernel as `cuobjdump -res-usage` prints them."""
    text = _run_tool("cuobjdump", ["-res-usage"], cubin)
    line = next((line for line in text.splitlines() if "REG:" in line), "")
    return {name: int(value) for name, value in _USAGE.findall(line)}


def _run_tool(tool: str, options: list[str], cubin: bytes) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([_find_tool(tool), *options, file.name], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{tool}: {(done.stderr or done.stdout).strip()[:500]}")
    return done.stdout


def _find_tool(tool: str) -> str:
    """Return the path of an NVIDIA tool, preferably the one in the triton package."""
    spec = find_spec("triton")
    for folder in spec.submodule_search_locations or () if spec else ():
        bundled = Path(folder) / "backends" / "nvidia" / "bin" / tool
        if bundled.exists():
            return str(bundled)
    path = shutil.which(tool)
    if path is None:
        raise NoDisassemblerError(f"{tool} is neither in the triton package nor on the PATH")
    return path


def _mlir(text: str, file: str) -> Lines:
    places = dict(_MLIR_NAMED.findall(text))
    for n, line in enumerate(text.splitlines(), 1):
        match = _MLIR_USE.search(line)
        if match and not line.startswith("#loc"):
            origin = _mlir_origin(match.group(1), places, file)
            if origin:
                yield n, origin


def _mlir_origin(name: str, places: dict[str, str], file: str, depth: int = 0) -> int:
    """Return the line in `file` of a location; for code inlined from another file, the line of the caller."""
    described = places.get(name, "")
    direct = _MLIR_PLACE.search(described)
    if direct and _same_file(direct.group(1), file):
        return int(direct.group(2))
    inner = (_mlir_origin(used, places, file, depth + 1) for used in re.findall(r"#loc\d*", described) if depth < 20)
    return next((line for line in inner if line), 0)


def _llvm(text: str, file: str) -> Lines:
    del file  # inlined lines resolve to their call, so every line is in the kernel's file
    places = {name: (int(line), at) for name, line, at in _LLVM_PLACE.findall(text)}
    for n, line in enumerate(text.splitlines(), 1):
        match = _LLVM_USE.search(line)
        if match and match.group(1) in places:
            number, at = places[match.group(1)]
            while at:
                number, at = places[at]
            yield n, number


def _dotted(text: str, file: str) -> Lines:
    """Yield the lines of PTX or AMDGCN: a `.loc` applies to the instructions after it."""
    ours = {number for number, a, b in _FILE.findall(text) if _same_file(b or a, file)}
    current = 0
    for n, (line, outside_asm) in enumerate(mark_inline_asm(text), 1):
        match = _LOC.match(line)
        if match and not outside_asm:
            continue
        if match:
            inlined, commented = _INLINED.search(line), _INLINED_COMMENT.findall(line)
            callers = [int(number) for path, number in commented if _same_file(path, file)]
            if match.group(1) in ours:
                current = int(match.group(2))
            elif callers:
                current = callers[-1]
            elif inlined and inlined.group(1) in ours:
                current = int(inlined.group(2))
        elif current and _INSTRUCTION.match(line) and not line.strip().startswith("."):
            yield n, current


def _sass(text: str, file: str) -> Lines:
    """Yield the lines of `nvdisasm -g`: a comment with file and line applies to the instructions after it."""
    current = 0
    for n, line in enumerate(text.splitlines(), 1):
        match = _SASS_LINE.search(line)
        if match:
            path, number, caller, at = match.groups()
            in_caller = bool(caller) and _same_file(caller, file)
            current = int(number) if _same_file(path, file) else int(at) if in_caller else current
        elif current and _SASS_CODE.match(line):
            yield n, current


def _same_file(path: str, file: str) -> bool:
    return path.rpartition("/")[2] == file.rpartition("/")[2]


_LINKS: dict[str, Callable[[str, str], Lines]] = {
    "ttir": _mlir,
    "ttgir": _mlir,
    "llir": _llvm,
    "ptx": _dotted,
    "amdgcn": _dotted,
    "sass": _sass,
}
