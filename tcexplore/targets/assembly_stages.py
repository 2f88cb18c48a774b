"""Which line of a kernel's Triton source each line of TTIR, TTGIR, LLVM IR, PTX, SASS or AMDGCN was made from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tcexplore.events.target_events import Stage
from tcexplore.targets.inline_asm import outside

Lines = Iterator[tuple[int, int]]

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


def stage(name: str, text: str, file: str, before: int = 0) -> Stage:
    """A stage with its lines linked to the source `file`, of which `before` lines stood ahead of the kernel's own."""
    link = _LINKS.get(name)
    pairs = () if link is None else tuple((n, line - before) for n, line in link(text, file) if line > before)
    return Stage(name, text, pairs)


def _mlir(text: str, file: str) -> Lines:
    places = dict(_MLIR_NAMED.findall(text))
    for n, line in enumerate(text.splitlines(), 1):
        found = _MLIR_USE.search(line)
        if found and not line.startswith("#loc"):
            origin = _mlir_origin(found.group(1), places, file)
            if origin:
                yield n, origin


def _mlir_origin(name: str, places: dict[str, str], file: str, depth: int = 0) -> int:
    """The line in `file` of a location; a call site's caller counts where the callee is a helper's file."""
    described = places.get(name, "")
    direct = _MLIR_PLACE.search(described)
    if direct and _is(direct.group(1), file):
        return int(direct.group(2))
    inner = (_mlir_origin(used, places, file, depth + 1) for used in re.findall(r"#loc\d*", described) if depth < 20)
    return next((line for line in inner if line), 0)


def _llvm(text: str, file: str) -> Lines:
    del file  # the whole module comes from one; a helper's lines are taken to the call that inlined them
    places = {name: (int(line), at) for name, line, at in _LLVM_PLACE.findall(text)}
    for n, line in enumerate(text.splitlines(), 1):
        found = _LLVM_USE.search(line)
        if found and found.group(1) in places:
            number, at = places[found.group(1)]
            while at:
                number, at = places[at]
            yield n, number


def _dotted(text: str, file: str) -> Lines:
    """PTX and AMDGCN: a `.loc` holds for the instructions after it."""
    ours = {number for number, a, b in _FILE.findall(text) if _is(b or a, file)}
    current = 0
    for n, (line, outside_asm) in enumerate(outside(text), 1):
        found = _LOC.match(line)
        if found and not outside_asm:
            continue
        if found:
            inlined, commented = _INLINED.search(line), _INLINED_COMMENT.findall(line)
            callers = [int(number) for path, number in commented if _is(path, file)]
            if found.group(1) in ours:
                current = int(found.group(2))
            elif callers:
                current = callers[-1]
            elif inlined and inlined.group(1) in ours:
                current = int(inlined.group(2))
        elif current and _INSTRUCTION.match(line) and not line.strip().startswith("."):
            yield n, current


def _sass(text: str, file: str) -> Lines:
    """`nvdisasm -g`: a comment with file and line holds for the instructions after it."""
    current = 0
    for n, line in enumerate(text.splitlines(), 1):
        found = _SASS_LINE.search(line)
        if found:
            path, number, caller, at = found.groups()
            current = int(number) if _is(path, file) else int(at) if caller and _is(caller, file) else current
        elif current and _SASS_CODE.match(line):
            yield n, current


def _is(path: str, file: str) -> bool:
    return path.rpartition("/")[2] == file.rpartition("/")[2]


_LINKS: dict[str, Callable[[str, str], Lines]] = {
    "ttir": _mlir,
    "ttgir": _mlir,
    "llir": _llvm,
    "ptx": _dotted,
    "amdgcn": _dotted,
    "sass": _sass,
}
