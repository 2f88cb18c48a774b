"""NVIDIA's disassemblers, as the triton wheel ships them: SASS and what the assembler says a cubin takes."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

_USAGE = re.compile(r"(\w+):(\d+)")


class NoDisassemblerError(RuntimeError):
    """Neither the triton wheel nor the PATH has the tool."""


def sass(cubin: bytes) -> str:
    """The machine's instructions, each after a comment with its line. Raises `NoDisassemblerError`, `OSError`."""
    return _run("nvdisasm", ["-g", "-c"], cubin)


def usage(cubin: bytes) -> dict[str, int]:
    """`REG`, `STACK`, `SHARED`, `LOCAL` of a cubin's kernel, as `cuobjdump -res-usage` prints them."""
    text = _run("cuobjdump", ["-res-usage"], cubin)
    line = next((line for line in text.splitlines() if "REG:" in line), "")
    return {name: int(value) for name, value in _USAGE.findall(line)}


def _run(tool: str, options: list[str], cubin: bytes) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([_find(tool), *options, file.name], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{tool}: {(done.stderr or done.stdout).strip()[:500]}")
    return done.stdout


def _find(tool: str) -> str:
    spec = find_spec("triton")
    for folder in spec.submodule_search_locations or () if spec else ():
        shipped = Path(folder) / "backends" / "nvidia" / "bin" / tool
        if shipped.exists():
            return str(shipped)
    found = shutil.which(tool)
    if found is None:
        raise NoDisassemblerError(f"{tool} is neither in the triton package nor on the PATH")
    return found
