"""What a run's generated code computes, with the names and comments taken out that differ without meaning."""

from __future__ import annotations

import re
from functools import lru_cache

from tcexplore import events as ev
from tcexplore.session.snapshot import Snapshot

_COMMENT = re.compile(r"[ \t]*(?:#|//)(?!include|define|pragma|if|endif|else).*")
_HASH = re.compile(r"'backend_hash': '\w+'|/\S+?/c\w{2}/c\w{40,}\.\w+")

_BUFFER = re.compile(r"\b(?:buf\d+|arg\d+_\d+|primals_\d+|tangents_\d+)\b")


@lru_cache(maxsize=4096)
def _bare(source: str, names: tuple[str, ...]) -> str:
    for number, name in enumerate(names):
        source = re.sub(rf"\b{re.escape(name)}\b", f"kernel{number}", source)
    lines = (line.rstrip() for line in _COMMENT.sub("", _HASH.sub("", source)).splitlines())
    return "\n".join(line for line in lines if line)


def kernel_program(kernel: ev.Kernel) -> str:
    """The kernel's code without its own name, comments and machine-dependent paths; of a call of an extern kernel also
    without the names of the buffers, which number all buffers of the graph."""
    if kernel.language == "extern":
        return _BUFFER.sub("buffer", kernel.source)
    return _bare(kernel.source, (kernel.name,))


def same_program(before: Snapshot, after: Snapshot) -> bool:
    """Whether both runs generated identical code, kernels and wrappers; False while either has none."""
    programs = [_program(s) for s in (before, after)]
    return bool(programs[0]) and programs[0] == programs[1]


def _program(snapshot: Snapshot) -> list[tuple[str, str]]:
    names = tuple(dict.fromkeys(k.name for k in snapshot.kernels if k.language != "extern"))
    kernels = [(k.phase, _bare(k.source, names)) for k in snapshot.kernels]
    return kernels + [(w.phase, _bare(w.source, names)) for w in snapshot.wrappers]
