"""What a run's generated code computes, with the names and comments taken out that differ without meaning."""

from __future__ import annotations

import re
from functools import lru_cache

from tcexplore import events as ev
from tcexplore.session.snapshot import Snapshot

_COMMENT = re.compile(r"(?:#|//)(?!include|define|pragma|if|endif|else).*")
_HASH = re.compile(r"'backend_hash': '\w+'")
_PATH = re.compile(r"/\S+?/c\w{2}/c\w{40,}\.\w+")

_BUFFER = re.compile(r"\b(?:buf\d+|arg\d+_\d+|primals_\d+|tangents_\d+)\b")


@lru_cache(maxsize=4096)
def _stripped(source: str) -> str:
    if "'backend_hash'" in source:
        source = _HASH.sub("", source)
    return "\n".join(filter(None, map(str.rstrip, _COMMENT.sub("", _PATH.sub("", source)).splitlines())))


@lru_cache(maxsize=4096)
def _bare(source: str, names: tuple[str, ...]) -> str:
    """The code with each of `names` replaced by its number among them."""
    numbers = {name: f"kernel{number}" for number, name in enumerate(names)}
    code = _stripped(source)
    # By how they begin: thousands of lines against hundreds of whole names are a second's work.
    starts = {"_".join(name.split("_")[:2]) for name in names}
    found = [re.escape(start) for start in starts if start in code]
    if not found:
        return code
    return re.sub(rf"\b(?:{'|'.join(found)})\w*", lambda match: numbers.get(match.group(), match.group()), code)


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
    names = tuple(dict.fromkeys(k.name for k in snapshot.code.kernels if k.language != "extern"))
    kernels = ((kernel.phase, kernel.source) for kernel in snapshot.code.kernels)
    wrappers = ((wrapper.phase, wrapper.source) for wrapper in snapshot.code.wrappers)
    return [(phase, _bare(source, names)) for phase, source in (*kernels, *wrappers)]
