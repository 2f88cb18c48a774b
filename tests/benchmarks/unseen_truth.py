"""What torch's own trace says about a program: `python -m tests.benchmarks.unseen_truth FILE`, as JSON.

Runs the file without tcexplore, and makes its calls compiled. No eager call comes before, which could change state.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import re
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch._dynamo import convert_frame, symbolic_convert

BACKEND = "aot_eager"
_BREAK = re.compile(r"Graph break in user code at (.+):(\d+)")
_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+)', re.M)
_ADDRESS = re.compile(r"\d{9,}|\b0x[0-9a-f]+|(?<=SUPPORTED_NODES\) == )\d+")
_SET = re.compile(r"frozenset\({(.*)}\)")
_GUARD = re.compile(r"^[ |]*\+- [A-Z_]+: (.+)$", re.M)
_VARIABLE = re.compile(r"\b[GL]\['([^']+)'\]")
_SUBMODULE = re.compile(r"\._modules\['([^']+)'\]")


class TraceReader(logging.Handler):
    """Collects compile ids from torch's structured trace, numbered as in tcexplore: a reset does not restart them."""

    def __init__(self, folder: str) -> None:
        super().__init__(logging.DEBUG)
        self._folder = folder
        """The folder of the program."""
        self.earlier_frames = 0
        """Frames before the last reset, after which torch numbers frames from 0."""
        self.graphs: dict[str, None] = {}
        self.compiled: list[str] = []
        self.guarded: dict[str, list[str]] = {}
        """The conditions that each entry checks."""
        self.causes: dict[str, list[str]] = {}
        """The failed guards of each recompile."""
        self.over_limit: list[str] = []
        self.breaks: dict[tuple[str, int], None] = {}

    def handle(self, record: logging.LogRecord) -> bool:
        metadata, payload = getattr(record, "metadata", {}), getattr(record, "payload", None) or ""
        kind = next(iter(metadata), "")
        name = metadata[kind]["name"] if kind == "artifact" else kind
        graph = f"{self.earlier_frames + metadata.get('frame_id', 0)}/{metadata.get('frame_compile_id')}"
        if name == "dynamo_output_graph":
            self.graphs[graph] = None
        elif name == "dynamo_cpp_guards_str":
            self.guarded[graph] = sorted(without_addresses(text) for text in _GUARD.findall(payload))
        elif name == "compilation_metrics":
            self._compiled(graph, metadata[kind])
        elif name == "recompile_reasons":
            reasons = json.loads(payload) if payload.startswith("[") else [payload]
            self.causes[graph] = [self._cause(text) for text in reasons]
        elif name == "dynamo_graph_break_reason" and (place := self._place(payload)):
            self.breaks[place] = None
        return True

    def _compiled(self, graph: str, metrics: Any) -> None:
        if metrics.get("has_guarded_code"):
            self.compiled.append(graph)
        elif "recompile limit" in str(metrics.get("fail_reason")):
            self.over_limit.append(graph)
        elif "Unsupported" in str(metrics.get("fail_type")) and metrics["fail_user_frame_filename"]:  # `fullgraph=True`
            file = os.path.basename(metrics["fail_user_frame_filename"])
            self.breaks[file, metrics["fail_user_frame_lineno"]] = None

    def _cause(self, text: str) -> str:
        frame, _, rest = cause(text).partition("/")
        return f"{self.earlier_frames + int(frame)}/{rest}"

    def _place(self, text: str) -> tuple[str, int] | None:
        """Return the innermost line of the program, which may call a library that breaks."""
        traceback = text.partition("User code traceback:")[2].partition("\n\n")[0]
        match = _BREAK.search(text)
        places = [*_FRAME.findall(traceback), *([match.groups()] if match else [])]
        return next(((os.path.basename(f), int(n)) for f, n in reversed(places) if f.startswith(self._folder)), None)

    def result(self) -> dict[str, Any]:
        recompiled = [graph for graph in self.causes if graph in self.compiled]
        return {
            "graphs": len(self.graphs),
            "breaks": sorted([file, line] for file, line in self.breaks),
            "recompiles": len(recompiled),
            "causes": [self.causes[graph] for graph in recompiled],
            "over_limit": len(self.over_limit),
            "guards": len(self.guarded),
            "conditions": list(self.guarded.values()),
        }


def cause(text: str) -> str:
    """Return the entry and the guard that failed, without addresses, hints and the line of the program.

    Without a guard, the entry was compiled for another backend.
    """
    guard = without_addresses(text.partition("\n")[0].partition(" BACKEND_MATCH failure")[0])
    return _SUBMODULE.sub(r".\1", _VARIABLE.sub(r"\1", guard))


def without_addresses(guard: str) -> str:
    """Return the condition of a guard without the line that needs it, hints, addresses, and the order of a set."""
    text = _ADDRESS.sub("0", guard.partition("  #")[0].partition(" (HINT")[0].strip())
    return _SET.sub(lambda match: ", ".join(sorted(match[1].split(", "))), text)


def main(file: str, grad: bool) -> None:
    """Run the file and print what was traced. `grad` enables gradients in the calls of a model."""
    reader = TraceReader(os.path.dirname(file))
    logger = logging.getLogger("torch.__trace")
    logger.handlers.insert(0, reader)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    _count_earlier_frames(reader)
    # In its text of a stack, torch drops a caller that has the same name as its callee.
    symbolic_convert.collapse_resume_frames = lambda stack: stack
    torch.manual_seed(0)
    sys.argv = [file]
    path = Path(file)
    is_script = "\ninputs = " not in path.read_text()
    names = runpy.run_path(file, run_name="__main__") if is_script else vars(_imported(path))
    calls = []
    if "inputs" in names:
        compiled = torch.compile(names["model"], backend=BACKEND)
        for call in names["inputs"]:
            before = len(reader.compiled)
            _invoke(compiled, call, grad)
            calls.append(len(reader.compiled) - before)
    print(json.dumps({**reader.result(), "calls": calls}), file=sys.__stdout__)


def _imported(path: Path) -> ModuleType:
    """Return the file as a module, which Dynamo finds by its name."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    return module


def _invoke(function: Any, call: Any, grad: bool) -> None:
    with torch.set_grad_enabled(grad):
        if isinstance(call, dict):
            function(**call)
        else:
            function(*call)


def _count_earlier_frames(reader: TraceReader) -> None:
    original = torch._dynamo.reset

    def reset() -> None:
        reader.earlier_frames += convert_frame.FRAME_COUNTER
        original()

    torch._dynamo.reset = reset


if __name__ == "__main__":
    main(sys.argv[1], "--grad" in sys.argv)
