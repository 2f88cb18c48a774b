"""Generated code without names and comments that differ between runs but have no effect."""

from __future__ import annotations

import re
from functools import lru_cache

from tcexplore import events as ev
from tcexplore.session.snapshot import Snapshot

_COMMENT = re.compile(r"(?:#|//)(?!include|define|pragma|if|endif|else).*")
_HASH = re.compile(r"'backend_hash': '\w+'")
_PATH = re.compile(r"/\S+?/c\w{2}/c\w{40,}\.\w+")

_DEVICE = re.compile(
    r"\b(cuda|xpu|hpu|mtia|npu|privateuseone):\d+"
    r"|(\b(?:device|DeviceProperties)\(type='\w+'), index=\d+"
    r"|(stream|get_raw_stream\(|_DeviceGuard\(|set_device\(|\bdevice=)\d+"
)
"""Numbers of devices in graphs, guards and generated code; the groups are the text before them."""

_BUFFER = re.compile(r"\b(?:buf\d+|arg\d+_\d+|primals_\d+|tangents_\d+)\b")


@lru_cache(maxsize=4096)
def _stripped(source: str) -> str:
    if "'backend_hash'" in source:
        source = _HASH.sub("", source)
    return "\n".join(filter(None, map(str.rstrip, _COMMENT.sub("", _PATH.sub("", source)).splitlines())))


@lru_cache(maxsize=4096)
def _bare(source: str, names: tuple[str, ...]) -> str:
    """Return the code with each name replaced by its number."""
    numbers = {name: f"kernel{number}" for number, name in enumerate(names)}
    code = _stripped(source)
    # Match the starts of names: matching hundreds of whole names in thousands of lines takes a second.
    starts = {"_".join(name.split("_")[:2]) for name in names}
    patterns = [re.escape(start) for start in starts if start in code]
    if not patterns:
        return code
    return re.sub(rf"\b(?:{'|'.join(patterns)})\w*", lambda match: numbers.get(match.group(), match.group()), code)


def are_ranks(before: Snapshot, after: Snapshot) -> bool:
    """Return whether the runs are ranks of traces, each with a device of its own."""
    return bool(before.trace and after.trace)


@lru_cache(maxsize=4096)
def without_device(text: str) -> str:
    """Return a text without the numbers of devices."""
    return _DEVICE.sub(r"\1\2\3", text)


def kernel_program(kernel: ev.Kernel, *, ranks: bool = False) -> str:
    """Return the code of a kernel without its name, comments and paths, and of an extern call without buffer names.

    For `ranks`, it is without the numbers of devices as well.
    """
    own = kernel.generated
    code = _bare(kernel.source, (kernel.name,)) if own else _BUFFER.sub("buffer", kernel.source)
    return without_device(code) if ranks else code


def unique_kernels(snapshot: Snapshot) -> int:
    """Return the number of generated kernels with different code."""
    return len({kernel_program(kernel) for kernel in snapshot.code.kernels if kernel.generated})


def same_program(before: Snapshot, after: Snapshot) -> bool:
    """Return whether both runs generated identical kernels and wrappers; False if either has none."""
    ranks = are_ranks(before, after)
    programs = [_program(s, ranks=ranks) for s in (before, after)]
    return bool(programs[0]) and programs[0] == programs[1]


def _program(snapshot: Snapshot, *, ranks: bool) -> list[tuple[str, str]]:
    names = tuple(dict.fromkeys(k.name for k in snapshot.code.kernels if k.generated))
    kernels = ((kernel.phase, kernel.source) for kernel in snapshot.code.kernels)
    wrappers = ((wrapper.phase, wrapper.source) for wrapper in snapshot.code.wrappers)
    programs = ((phase, _bare(source, names)) for phase, source in (*kernels, *wrappers))
    return [(phase, without_device(code) if ranks else code) for phase, code in programs]
