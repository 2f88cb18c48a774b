"""Figures of programs: those of torch's own trace, those of a report, and where they differ.

`python -m tests.program_figures FILE...` prints torch's own, a line of JSON for each file: it runs the file in a new
process without tcexplore, and makes its calls compiled. No eager call comes before, which could change state.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import re
import runpy
import sys
import traceback
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch._dynamo import convert_frame, symbolic_convert

BACKEND = "aot_eager"
NEEDS_GRADIENTS = 3
"""Status of a process whose program needs gradients."""
_BREAK = re.compile(r"Graph break in user code at (.+):(\d+)")
_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+)', re.M)
_TYPE_ID = re.compile(r"(?<=[\w)\]}]), \d{6,}(?=\))")
"""The second argument of `___check_type_id` and `___check_obj_id`, which the report leaves out."""
_ADDRESS = re.compile(
    r"\d{9,}|\b0x(?:[0-9a-f]+|…)|(?<=SUPPORTED_NODES\) == )\d+|(?<=__builtins_dict___)\d+"
    r"|(?<=dict_contains\()\d+(?=, [^)]*_hooks)"
)
"""Addresses, and numbers that torch counts in a process: of operators, of dicts of builtins and of hooks."""
_SET = re.compile(r"frozenset\({(.*)}\)|{([^{}:]+)}")
_GUARD = re.compile(r"^[ |]*\+- [A-Z_]+: (.+)$", re.M)
_VARIABLE = re.compile(r"\b[GL]\['([^']+)'\]")
_WRAPPED = re.compile(r"\bfn(?=\.)")
_MEMBER = re.compile(
    r"\.(?:_(?:modules|buffers|parameters)|__dict__\['_(?:modules|buffers|parameters)'\])\['([^']+)'\]"
)


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
        self._explained: set[tuple[str, int]] = set()
        """Places of breaks that a line of the program stands for. The library's frame breaks there again by itself."""

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
            # torch says so of frames, too, that it skips because no ops were traced.
            self.compiled += [graph] if graph in self.guarded else []
        elif "recompile limit" in str(metrics.get("fail_reason")):
            self.over_limit.append(graph)
        elif "Unsupported" in str(metrics.get("fail_type")) and metrics["fail_user_frame_filename"]:
            # With `fullgraph=True`, or in a frame of a library that is compiled by itself.
            place = metrics["fail_user_frame_filename"], metrics["fail_user_frame_lineno"]
            if place not in self._explained:
                self.breaks[os.path.basename(place[0]), place[1]] = None

    def _cause(self, text: str) -> str:
        frame, _, rest = cause(text).partition("/")
        return f"{self.earlier_frames + int(frame)}/{rest}"

    def _place(self, text: str) -> tuple[str, int] | None:
        """Return the innermost line of the program, which may call a library that breaks."""
        traceback = text.partition("User code traceback:")[2].partition("\n\n")[0]
        match = _BREAK.search(text)
        found = [*_FRAME.findall(traceback), *([match.groups()] if match else [])]
        places = [(file, int(line)) for file, line in found]
        own = next((place for place in reversed(places) if place[0].startswith(self._folder)), None)
        if own is None:
            return None
        self._explained.update(places)
        return os.path.basename(own[0]), own[1]

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

    torch calls a compiled module of its own, such as a `Sequential`, `fn`; the report calls it `self`.
    Without a guard, the entry was compiled for another backend.
    """
    guard = without_addresses(text.partition("\n")[0].partition(" BACKEND_MATCH failure")[0])
    return _WRAPPED.sub("self", _MEMBER.sub(r".\1", _VARIABLE.sub(r"\1", guard)))


def without_addresses(guard: str) -> str:
    """Return the condition of a guard without the line that needs it, hints, addresses, and the order of a set."""
    text = _ADDRESS.sub("0", _TYPE_ID.sub("", guard.partition("  #")[0].partition(" (HINT")[0].strip()))
    return _SET.sub(lambda match: ", ".join(sorted((match[1] or match[2]).split(", "))), text)


def backend_of(program: Path) -> str:
    """Return the backend that a program of calls is compiled with: a comment of it, or the default."""
    match = re.search(r"^# backend: (\w+)", program.read_text(), re.M)
    return match[1] if match else BACKEND


def figures_of(report: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a JSON report, with the keys of torch's own."""
    compiled = {entry["graph"] for frame in report["frames"] for entry in frame["entries"]}
    causes: dict[str, list[str]] = {}
    for one in report["recompiles"]:
        if one["graph"] in compiled:
            causes.setdefault(one["graph"], []).append(cause(f"{one['failed_entry']}: {one['failed_guard']}"))
    conditions: dict[str, list[str]] = {graph: [] for graph in report["guard_latency_us"]}
    for guard in report["guards"]:
        conditions[guard["graph"]] += map(without_addresses, guard["code"])
    return {
        "graphs": len(report["graphs"]),
        "breaks": sorted(map(list, {(Path(b["file"]).name, b["line"]) for b in report["breaks"]})),
        "recompiles": len(causes),
        "causes": list(causes.values()),
        "over_limit": sum(len(frame["over_limit"]) for frame in report["frames"]),
        "guards": len(report["guard_latency_us"]),
        "conditions": [sorted(texts) for texts in conditions.values()],
        "calls": [call["compiles"] for call in report["calls"] if call["variant"] == "compiled"],
    }


def differences(truth: dict[str, Any], figures: dict[str, Any]) -> list[str]:
    """Return where the figures of a report are not torch's own."""
    counted = {key: value for key, value in truth.items() if key != "conditions"}
    wrong = [f"{k}: torch {v}, tcexplore {figures.get(k)}" for k, v in counted.items() if v != figures.get(k)]
    return [*_guard_differences(truth["conditions"], figures.get("conditions", [])), *wrong]


def _guard_differences(conditions: list[list[str]], reported: list[list[str]]) -> list[str]:
    """Return the conditions that only torch or only the report has, for each guarded entry. torch may repeat one."""
    problems = []
    for number, (expected, given) in enumerate(zip(conditions, reported, strict=False)):
        missing, extra = Counter(set(expected)) - Counter(given), Counter(given) - Counter(expected)
        if missing or extra:
            problems.append(f"guards of entry {number}: missing {list(missing)[:3]}, extra {list(extra)[:3]}")
    return problems


def main(*files: str) -> None:
    """Print what is traced of each file."""
    for file in files:
        if _in_child(file, grad=False) == NEEDS_GRADIENTS:
            _in_child(file, grad=True)


def _in_child(file: str, *, grad: bool) -> int:
    """Trace the file in a forked process, which has imported nothing but torch; return its status."""
    if child := os.fork():
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return status if status in (0, NEEDS_GRADIENTS) else sys.exit(status)
    status = 1
    try:
        _trace(file, grad)
        status = 0
    except Exception as error:  # noqa: BLE001  any error of the program or of torch
        status = NEEDS_GRADIENTS if not grad and "does not require grad" in str(error) else 1
        if status == 1:
            traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _trace(file: str, grad: bool) -> None:
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
        compiled = torch.compile(names["model"], backend=backend_of(path))
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
    main(*sys.argv[1:])
