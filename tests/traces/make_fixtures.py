"""Write `fixtures.tar.xz`, a TORCH_TRACE per program: `python -m tests.traces.make_fixtures [NAME…]`.

The seeded programs have one difference each; the others do the same on every rank.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
ARCHIVE = FOLDER / "fixtures.tar.xz"
SEEDS = ("", "branch", "shape", "dtype", "break", "guard", "config", "environment", "collectives", "cache")
PROGRAMS = {
    **dict.fromkeys(("ddp", "shard", "dynamic", "breaks", "groups", "scalar", "scatter", "tensor_parallel"), 2),
    "fsdp": 4,
    "pieces": 1,
    "workers": 1,
}
"""Ranks by program."""
SCRIPTS = {"pieces": ("pieces.py", "--late"), "workers": ("workers.py",)}
"""Programs that are not `spmd.py`; `workers` needs torch 2.15."""
RECORD = re.compile(rb"^(?=[VIWE]\d{4} \d\d:)", re.M)


def record(name: str, into: Path, script: str, *arguments: str) -> None:
    """Run a script on several ranks, and write its trace."""
    with tempfile.TemporaryDirectory() as folder:
        caches = [Path(folder, f"cache{rank}") for rank in range(PROGRAMS.get(name, 2))]
        if name == "cache":
            run(script, arguments, Path(folder, "first"), [caches[1], caches[1]])
        trace = Path(folder, name)
        run(script, arguments, trace, caches)
        (into / name).mkdir(exist_ok=True)
        for file in (into / name).iterdir():
            file.unlink()
        for file in trace.iterdir():
            (into / name / file.name).write_bytes(without_own_paths(file.read_bytes()))


def run(script: str, arguments: tuple[str, ...], trace: Path, caches: list[Path]) -> None:
    """Run a script on a rank per cache."""
    common = {**os.environ, "TORCH_TRACE": str(trace), "WORLD_SIZE": str(len(caches)), "OMP_NUM_THREADS": "1",
              "MASTER_ADDR": "localhost", "MASTER_PORT": str(20000 + os.getpid() % 20000),
              "TORCHINDUCTOR_COMPILE_THREADS": "1"}  # fmt: skip
    command = [sys.executable, str(FOLDER / "programs" / script), *arguments]
    processes = [
        subprocess.Popen(command, env={**common, "RANK": str(rank), "TORCHINDUCTOR_CACHE_DIR": str(cache)})
        for rank, cache in enumerate(caches)
    ]
    if any(list(map(subprocess.Popen.wait, processes))):
        raise SystemExit(f"{script} {' '.join(arguments)} failed")


def without_own_paths(trace: bytes) -> bytes:
    """Replace the paths of this machine, and the checksums of the payloads with such a path."""
    root = FOLDER.parents[1]
    # Dynamo cuts the beginning of the paths in guards.
    cut = os.path.join(*root.parts[-2:], "tests")
    paths = ((str(root).encode(), b"/project"), (sys.prefix.encode(), b"/venv"), (cut.encode(), b"project/tests"))
    records = []
    for text in RECORD.split(trace):
        head, newline, payload = text.partition(b"\n")
        for path, replacement in paths:
            head, payload = head.replace(path, replacement), payload.replace(path, replacement)
        if payload:
            body = payload.removesuffix(b"\n").removeprefix(b"\t").replace(b"\n\t", b"\n")
            digest = hashlib.md5(body, usedforsecurity=False).hexdigest().encode()
            head = re.sub(rb'"has_payload": "\w+"', b'"has_payload": "' + digest + b'"', head)
        records.append(head + newline + payload)
    return b"".join(records)


def main(names: list[str]) -> None:
    """Make the traces of these names, all if there are none; the others stay as they are."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if names and ARCHIVE.exists():
            with tarfile.open(ARCHIVE) as archive:
                archive.extractall(folder, filter="data")
        for seed in SEEDS:
            if not names or (seed or "same") in names:
                record(seed or "same", folder, "seeded.py", "--seed", seed)
        for program in PROGRAMS:
            if not names or program in names:
                record(program, folder, *SCRIPTS.get(program, ("spmd.py", "--program", program)))
        with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
            for trace in sorted(folder.iterdir()):
                archive.add(trace, trace.name)


if __name__ == "__main__":
    main(sys.argv[1:])
