"""The functions that an event passes from the torch hook that emits it to the painted row.

A real worker runs a small model for the app without a terminal. Both processes record the call stack wherever the
first `GraphCaptured`, or something that contains it, arrives at a sink; a function of that stack is a hop if one of its
values contains the event. docs/architecture.md lists the hops.

Run: python -m tests.benchmarks.event_path
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = str(Path(__file__).parents[2] / "tcexplore") + os.sep
LOG = "TCEXPLORE_EVENT_PATH"
SINKS = {
    "encode",
    "ExplorerApp.deliver",
    "Snapshot.apply",
    "graph_document",
    "RowView.show",
    "RowPainter.line",
}
"""Functions at which the stack is recorded."""

MODEL = "import torch\ndef model(x):\n    return torch.relu(x) * 1.5\ninputs = (torch.ones(8, 8),)\n"
PATIENCE_S = 120

SITE = """\
import sys
sys.path[:0] = {path!r}
from tests.benchmarks.event_path import record
record()
"""


class Recorder:
    """A profile function that logs the hops of each stack at a sink."""

    def __init__(self, log: str) -> None:
        self._log = log
        self._written: set[str] = set()
        self._documents: set[int] = set()
        self._rows: set[int] = set()

    def __call__(self, frame: FrameType, kind: str, value: Any) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            return
        if kind == "return":
            self._note_result(frame, value)
        elif kind == "call" and code.co_qualname in SINKS:
            self._record(frame)

    def _note_result(self, frame: FrameType, value: Any) -> None:
        """Record documents and rows built from the event."""
        name = frame.f_code.co_qualname
        built = name == "graph_document" and self._carries(frame)
        wrapped = name == "guarded" and any(id(part) in self._documents for part in vars(value).values())
        if built or wrapped:
            self._documents.add(id(value))
        elif name == "GuardedDocument.row" and id(frame.f_locals["self"]) in self._documents:
            self._rows.add(id(value))

    def _record(self, frame: FrameType | None) -> None:
        if frame is None or not self._carries(frame):
            return
        hops: list[str] = []
        while frame is not None:
            emitted = hops[:1] == ["worker/event_recorder.py:EventRecorder.emit"]  # by a hook, which has no event yet
            if frame.f_code.co_filename.startswith(PACKAGE) and (emitted or self._carries(frame)):
                hops.insert(0, f"{frame.f_code.co_filename[len(PACKAGE) :]}:{frame.f_code.co_qualname}")
            frame = frame.f_back
        with open(self._log, "a") as log:
            for hop in hops:
                if hop not in self._written:
                    self._written.add(hop)
                    log.write(f"{hop}\n")

    def _carries(self, frame: FrameType) -> bool:
        return any(self._contains_event(value) for value in frame.f_locals.values())

    def _contains_event(self, value: Any) -> bool:
        match type(value).__name__:
            case "GraphCaptured":
                return True
            case "tuple":
                return any(type(item).__name__ == "GraphCaptured" for item in value)
            case "Session":
                return value.newest is not None and bool(value.newest.graphs)
            case "Snapshot":
                return bool(value.graphs)
        return id(value) in self._documents or id(value) in self._rows


def record() -> None:
    """Start to record in this process, if the environment names a log."""
    if LOG in os.environ:
        sys.setprofile(Recorder(os.environ[LOG]))


async def run_app(file: Path) -> None:
    """Show the app until the graph pane has the model's graph."""
    from tcexplore.events import Config
    from tcexplore.ui.app import ExplorerApp
    from tcexplore.ui.file_engine import FileEngine

    app = ExplorerApp(lambda: FileEngine(str(file), Config(backend="eager")))
    try:
        async with app.run_test(size=(160, 50)) as pilot, asyncio.timeout(PATIENCE_S):
            while app.session.newest is None or not app.session.newest.complete:
                await pilot.pause(0.1)
            await pilot.pause(0.5)
    finally:
        assert app.engine is not None
        await app.engine.close()


def main() -> None:
    """Print the hops, and the numbers of functions and files."""
    with tempfile.TemporaryDirectory() as folder:
        log, file, site = Path(folder, "log"), Path(folder, "model.py"), Path(folder, "site", "sitecustomize.py")
        file.write_text(MODEL)
        log.touch()
        site.parent.mkdir()
        site.write_text(SITE.format(path=[str(Path(PACKAGE).parent)]))
        os.environ[LOG] = str(log)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(site.parent), os.environ.get("PYTHONPATH", "")])
        record()
        asyncio.run(run_app(file))
        sys.setprofile(None)
        hops = log.read_text().splitlines()
    print(*hops, sep="\n")
    print(f"{len(hops)} functions in {len({hop.partition(':')[0] for hop in hops})} files")


if __name__ == "__main__":
    main()
