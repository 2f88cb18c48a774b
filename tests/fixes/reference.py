"""`python -m tests.fixes.reference FILE`: the graph breaks of a file by torch's own trace, without tcexplore.

The file runs with `torch.compile` under `TORCH_TRACE`, and the traces are read afterwards. Prints JSON: the distinct
places [file, line] of breaks, and how many breaks torch reports in all.
"""

from __future__ import annotations

import gc
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
    """Return the place of each break that torch's trace files report, repetitions included."""
    places = []
    for path in glob.glob(os.path.join(traces, "*.log")):
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        matches = list(_PLACE.finditer(text))
        ends = [match.start() for match in matches[1:]] + [len(text)] * bool(matches)
        places += [_user_place(match, text[match.end() : end]) for match, end in zip(matches, ends, strict=True)]
    return places


def _user_place(match: re.Match[str], rest: str) -> tuple[str, int]:
    """Return the place, or its caller in the user's code if it is in Python's library or torch's replacement of it."""
    if not _in_python(match[1]):
        return os.path.abspath(match[1]), int(match[2])
    traceback = rest.partition("User code traceback:")[2].partition("\n\t\n")[0].partition("====")[0]
    callers = [(file, int(line)) for file, line in _FRAME.findall(traceback) if not _in_python(file)]
    return callers[-1]


def _in_python(file: str) -> bool:
    return file.startswith((sysconfig.get_paths()["stdlib"] + os.sep, "<frozen ")) or "/_dynamo/polyfills/" in file


def run(file: str) -> None:
    """Compile the file's `model` and call it with its `inputs`."""
    gc.disable()  # the import of torch makes millions of objects that stay
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
        places = breaks(traces)
    print(json.dumps({"places": sorted(set(places)), "reported": len(places)}))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
    sys.stdout.flush()
    os._exit(0)  # the end of the interpreter would traverse them
