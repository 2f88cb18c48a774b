"""Assembly of an Inductor C++ kernel: source lines of its instructions, and its vectorization."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tcexplore.events.target_events import KernelStage, Vectors

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+(?:"([^"]*)"\s+)?"([^"]*)"', re.M)
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")
_INSTRUCTION = re.compile(r"^\t([a-z][a-z0-9.]*)(\s.*)?$")
_PACKED = re.compile(r"^v?(?:add|sub|mul|div|max|min|sqrt|rcp|rsqrt|fn?m(?:add|sub)\d+|and|or|xor|cmp|blend)p[sd]$")
_SCALAR = re.compile(r"^v?(?:add|sub|mul|div|max|min|sqrt|rcp|rsqrt|fn?m(?:add|sub)\d+|ucomi|comi)s[sd]$")
_FUNCTION = re.compile(r"^([A-Za-z_][\w.$]*):")
_LABEL = re.compile(r"^\.L\d+:")
_WIDTH = re.compile(r"%(x|y|z)mm\d+")
_ARM = re.compile(r"\bv\d+\.(?:4s|2d|8h)|\bz\d+\.[shd]")


class NotCompiledError(RuntimeError):
    """The C++ compiler failed on the kernel; the message gives the reason."""


class CpuAssembly(NamedTuple):
    """The assembly of a kernel with its source lines, and its vectorization."""

    stage: KernelStage
    vectors: Vectors


def compile_to_assembly(source: str) -> CpuAssembly:
    """Compile a C++ kernel as torch does on this machine, to assembly. Raises `NotCompiledError`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cpp"
        file.write_text(source)
        return parse_assembly(_compile(file), file.name)


def _compile(file: Path) -> str:
    """Run torch's compiler command for this kernel, with assembly and line information as its output."""
    from torch._inductor import cpu_vec_isa
    from torch._inductor.cpp_builder import CppBuilder, CppTorchOptions

    isa = cpu_vec_isa.pick_vec_isa()
    options = CppTorchOptions(vec_isa=isa, compile_only=True)
    builder = CppBuilder(name=file.stem, sources=str(file), BuildOption=options, output_dir=str(file.parent))
    out = file.with_suffix(".s")
    words = [w for w in builder.get_command_line().split() if w not in ("-c", "-shared", "-fPIC")]
    command = [*_without_output(words), "-fPIC", "-S", "-g1", "-o", str(out)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotCompiledError(f"cannot run the C++ compiler {command[0]}: {error}") from error
    if done.returncode:
        raise NotCompiledError(f"{command[0]}: {done.stderr.strip()[:1000]}")
    return out.read_text()


def _without_output(words: list[str]) -> list[str]:
    return [w for n, w in enumerate(words) if w != "-o" and (n == 0 or words[n - 1] != "-o")]


def parse_assembly(assembly: str, file: str) -> CpuAssembly:
    """Return code and vectorization of the kernel functions in an assembly listing of the source `file`."""
    lines = list(_code(assembly, file))
    parsed = [_INSTRUCTION.match(text) for text, _ in lines]
    instructions = [(match.group(1), match.group(2) or "") for match in parsed if match]
    counts = Counter(_kind(*instruction) for instruction in instructions)
    packed, scalar = counts["packed"], counts["scalar"]
    calls = (operands.strip().partition("@")[0] for opcode, operands in instructions if opcode in ("call", "bl"))
    return CpuAssembly(
        stage=KernelStage(
            "assembly",
            "\n".join(text for text, _ in lines),
            tuple((n, line) for n, (_, line) in enumerate(lines, 1) if line),
        ),
        vectors=Vectors(
            vectorized=packed > scalar if packed + scalar else None,
            width=max((_width(*instruction) for instruction in instructions), default=0),
            packed=packed,
            scalar=scalar,
            calls=tuple(dict.fromkeys(calls)),
        ),
    )


def _code(assembly: str, file: str) -> Iterator[tuple[str, int]]:
    """Yield labels and instructions of the kernel functions, each with its line in `file` or 0."""
    ours = {number for number, _, name in _FILE.findall(assembly) if name.rpartition("/")[2] == file}
    inside, current = False, 0
    for line in assembly.splitlines():
        function, place = _FUNCTION.match(line), _LOC.match(line)
        if function:
            inside, current = "kernel" in function.group(1), 0
        if not inside:
            continue
        if place:
            current = int(place.group(2)) if place.group(1) in ours else current
        elif _INSTRUCTION.match(line):
            yield line, current
        elif function or _LABEL.match(line):
            yield line, 0


def _kind(opcode: str, operands: str) -> str:
    if _PACKED.match(opcode) or _ARM.search(operands):
        return "packed"
    return "scalar" if _SCALAR.match(opcode) else "other"


def _width(opcode: str, operands: str) -> int:
    if _ARM.search(operands):
        return 128
    if not _PACKED.match(opcode):
        return 0
    return max(({"x": 128, "y": 256, "z": 512}[name] for name in _WIDTH.findall(operands)), default=0)
