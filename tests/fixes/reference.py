"""`python -m tests.fixes.reference FILE`: the graph breaks of a file by torch's own trace, without tcexplore.

The file is run as `torch.compile` would be used by hand, under `TORCH_TRACE`; what torch wrote there is read
afterwards. Prints JSON: [file, line, kind] of each break, each once, and how many torch reported in all.
"""

from __future__ import annotations

import glob
import importlib.util
import json
import os
import random
import re
import sys
import sysconfig
import tempfile
import warnings

_PLACE = re.compile(r"^\s*Graph break in user code at (.+):(\d+)$", re.M)

_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+)', re.M)


def breaks(traces: str) -> list[tuple[str, int]]:
    """The place of every break that torch's trace files report, as often as they do."""
    found = []
    for path in glob.glob(os.path.join(traces, "*.log")):
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        places = list(_PLACE.finditer(text))
        behind = [place.start() for place in places[1:]] + [len(text)] * bool(places)
        found += [_users(place, text[place.end() : end]) for place, end in zip(places, behind, strict=True)]
    return found


def _users(place: re.Match[str], behind: str) -> tuple[str, int]:
    """The place; where it is in Python's own library, or in what torch has in its stead, the line that called that."""
    if not _pythons(place[1]):
        return os.path.abspath(place[1]), int(place[2])
    traceback = behind.partition("User code traceback:")[2].partition("\n\t\n")[0].partition("====")[0]
    callers = [(file, int(line)) for file, line in _FRAME.findall(traceback) if not _pythons(file)]
    return callers[-1]


def _pythons(file: str) -> bool:
    return file.startswith((sysconfig.get_paths()["stdlib"] + os.sep, "<frozen ")) or "/_dynamo/polyfills/" in file


def run(file: str) -> None:
    """Compile and call what the file has as `model`, with its `inputs`."""
    import torch

    random.seed(0)
    torch.manual_seed(0)
    sys.path.insert(0, os.path.dirname(file))
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(file))[0], file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    calls = module.inputs() if callable(module.inputs) else module.inputs
    compiled = torch.compile(module.model, backend="eager")
    with torch.no_grad():
        for call in calls if isinstance(calls, list) else [calls]:
            compiled(**call) if isinstance(call, dict) else compiled(*call)


def main(file: str) -> None:
    """Print the breaks of a file."""
    with tempfile.TemporaryDirectory() as traces, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.environ["TORCH_TRACE"] = traces
        out = os.dup(1)
        os.dup2(2, 1)
        run(os.path.abspath(file))
        sys.stdout.flush()
        os.dup2(out, 1)
        found = breaks(traces)
    print(json.dumps({"places": sorted(set(found)), "reported": len(found)}))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
