"""Time from process start until the first graph is painted, compared with a bare script's time to its first graph.

The bare script imports torch, runs the model file eagerly, and compiles it. Its time ends when Dynamo hands the first
graph to the backend. Both alternate, so that other load affects both. The time until a syntax error is shown is printed
too.

A file without `inputs` is a script that calls `torch.compile` itself, and runs as it is until its first graph.

With `--front-end PYTHON`, a tcexplore that is installed in another environment, which needs no torch, runs the model
in this one with `--python`, and is compared with a tcexplore in this environment.

Run: python -m tests.benchmarks.first_graph [--runs 7] [--model FILE] [--text TEXT] [--front-end PYTHON]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.terminal import Terminal

SAMPLE = Path(__file__).parents[2] / "samples" / "mlp.py"

BARE = """\
import os, runpy, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
if script := "\\ninputs =" not in open(sys.argv[1]).read():
    del sys.argv[0]
else:
    namespace = runpy.run_path(sys.argv[1])
import torch
from torch._dynamo.output_graph import OutputGraph

original = OutputGraph.call_user_compiler

def first_graph(*args, **kwargs):
    print("first graph", flush=True)
    OutputGraph.call_user_compiler = original
    return original(*args, **kwargs)

OutputGraph.call_user_compiler = first_graph
if script:
    runpy.run_path(sys.argv[0], run_name="__main__")
with torch.no_grad():
    namespace["model"](*namespace["inputs"])
    torch.compile(namespace["model"])(*namespace["inputs"])
"""


def bare_time(model_file: Path) -> float:
    """Return the seconds from the start of a bare script to its first graph."""
    model_file = model_file.absolute()
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", BARE, str(model_file)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as script:
        assert script.stdout is not None
        assert any(line.strip() == "first graph" for line in script.stdout), "the script ends without a graph"
        seconds = time.perf_counter() - start
        script.kill()
    return seconds


def painted_time(model_file: Path, pane: str, text: str, front_end: str = sys.executable) -> float:
    """Return the seconds from the start of the app until a pane, the only one on the screen, shows a text."""
    python = [] if front_end == sys.executable else ["--python", sys.executable]
    command = [front_end, "-m", "tcexplore", str(model_file), *python]
    with Terminal(command, columns=90, rows=48) as terminal:
        terminal.wait_for("1 Source", 30)
        terminal.type(pane)
        seconds = terminal.wait_for(text, 120) - terminal.started
        terminal.type("q")
        return seconds


def compare_environments(runs: int, model_file: Path, front_end: str) -> None:
    """Print the time to the first graph with two environments and with one."""
    one, two = [], []
    for _ in range(runs + 1):
        one.append(painted_time(model_file, "2", "linear"))
        two.append(painted_time(model_file, "2", "linear", front_end))
        print(f"  {one[-1]:6.2f} s {two[-1]:6.2f} s", flush=True)
    alone, apart = statistics.median(one[1:]), statistics.median(two[1:])
    print(f"first graph, one environment     {alone:6.2f} s")
    print(f"front end in another one         {apart:6.2f} s   {apart / alone:5.2f} × (at most 1.1)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--model", type=Path, default=SAMPLE, help="a file with a linear layer, such as samples/mlp.py")
    parser.add_argument("--text", default="linear", help="what the graph pane shows of the first graph")
    parser.add_argument("--front-end", metavar="PYTHON", help="a Python of another environment that has tcexplore")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has bytecode; the first times are dropped
    if options.front_end:
        compare_environments(options.runs, options.model, options.front_end)
        return
    bare, painted, errors = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        broken = Path(folder) / "broken.py"
        broken.write_text("def model(x:\n    return x\n")
        for _ in range(options.runs + 1):
            bare.append(bare_time(options.model))
            painted.append(painted_time(options.model, "2", options.text))
            errors.append(painted_time(broken, "1", "never closed"))
    ours, script = statistics.median(painted[1:]), statistics.median(bare[1:])
    print(f"bare script to its first graph   {script:6.2f} s")
    print(f"start to first graph painted     {ours:6.2f} s   {ours / script:5.2f} × (at most 1.25)")
    print(f"start to a syntax error shown    {statistics.median(errors[1:]):6.2f} s   (at most 0.5 s)")


if __name__ == "__main__":
    main()
