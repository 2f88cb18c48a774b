"""Tokens that an agent with only a shell reads for three tasks: `python -m tests.benchmarks.answer_tokens`.

The tasks: fix all graph breaks of `samples/graph_breaks.py`; why two kernels of `samples/fusion.py`, with the matrix
product that its docstring proposes, are not fused; whether batch 33 would recompile it. Each is done with
`tcexplore ask`, with `tcexplore check --json`, and with TORCH_LOGS and tlparse (`pip install tlparse`; without it, with
TORCH_LOGS alone). Four characters count as a token. Whether the answers are right is tested: the fixes are applied and
the breaks counted again; the reason has to name the product; a plain script recompiles for batch 33, or does not.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

SAMPLES = Path(__file__).parents[2] / "samples"
BATCH = 33

RUN = """
import runpy, sys, torch
known = runpy.run_path(sys.argv[1])
compiled, inputs = torch.compile(known["model"]), known["inputs"]
with torch.no_grad():
    compiled(*inputs)
    if len(sys.argv) > 2:
        compiled(torch.randn(int(sys.argv[2]), *inputs[0].shape[1:]))
"""


class Reading(NamedTuple):
    """What was read for a task in one way."""

    text: str
    right: bool

    @property
    def tokens(self) -> int:
        return len(self.text) // 4


def tcexplore(*arguments: str) -> str:
    command = [sys.executable, "-m", "tcexplore", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Logs(NamedTuple):
    """What torch itself writes about a plain script."""

    log: str
    pages: dict[str, str]
    """Text of the pages of tlparse by name."""

    def page(self, pattern: str) -> str:
        """Return the pages whose names match: what a reader opens for the task."""
        return "".join(text for name, text in self.pages.items() if re.search(pattern, name))


def plain_logs(file: Path, logs: str, *arguments: str) -> Logs:
    """Run a plain script with TORCH_LOGS and TORCH_TRACE, and parse its trace."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "TORCH_LOGS": logs,
            "TORCH_TRACE": folder,
            "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
        }
        command = [sys.executable, "-c", RUN, str(file), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return Logs(done.stdout + done.stderr, parsed(Path(folder)))


def parsed(folder: Path) -> dict[str, str]:
    """Return the pages that tlparse makes of a trace, without their markup; empty without tlparse."""
    if shutil.which("tlparse") is None:
        return {}
    out = folder / "pages"
    (trace,) = folder.glob("*.log")
    subprocess.run(["tlparse", str(trace), "-o", str(out), "--no-browser"], capture_output=True, check=True)
    files = (path for path in out.rglob("*") if path.is_file() and path.suffix in (".html", ".txt", ".json"))
    return {str(path.relative_to(out)): plain(path.read_text(errors="replace")) for path in files}


def plain(page: str) -> str:
    """Return the text of a page, as a program that strips markup reads it."""
    page = re.sub(r"<(style|script)\b.*?</\1>", "", page, flags=re.S)
    return unescape(re.sub(r"<[^>]+>", "", page))


# ---- the tasks


def fix_breaks(folder: Path) -> dict[str, Reading]:
    file = str(shutil.copy(SAMPLES / "graph_breaks.py", folder / "graph_breaks.py"))
    known = tcexplore("ask", file, "breaks", "--json", "--no-session")
    broken = json.loads(known)["breaks"]
    whole = tcexplore("check", file, "--json", "--time-for", "0")
    logs = plain_logs(Path(file), "graph_breaks")
    lines = [int(each["where"].split(":")[1].split()[0]) for each in broken]
    for each in broken:
        patch = f"--- a\n+++ b\n{each['fix']['diff']}\n"
        subprocess.run(["patch", "-s", file], input=patch, text=True, check=True)
    after = json.loads(tcexplore("ask", file, "breaks", "--json", "--no-session"))["breaks"]
    text = tcexplore("ask", str(SAMPLES / "graph_breaks.py"), "breaks", "--no-session")
    return {
        "ask": Reading(text, not after),
        "check": Reading(whole, len(json.loads(whole)["breaks"]) == len(broken)),
        "logs": Reading(logs.log + logs.page(r"index|dynamo_graph_break_reason|compile_directory"),
                        all(f"line {line}" in logs.log or f":{line}" in logs.log for line in lines)),
    }  # fmt: skip


def explain_fusion(folder: Path) -> dict[str, Reading]:
    file = folder / "fusion.py"
    gelu = "        h = F.gelu(h)\n"
    text = (SAMPLES / "fusion.py").read_text()
    assert gelu in text
    file.write_text(text.replace(gelu, f"{gelu}        h = h @ self.weight\n"))
    kernels = tcexplore("ask", str(file), "kernels", "--quick", "--no-session")
    generated = re.findall(r"^- (k-\w+)  cpp_", kernels, re.M)
    reason = tcexplore("ask", str(file), "why-not-fused", *generated[:2], "--no-session")
    whole = tcexplore("check", str(file), "--json", "--time-for", "0")
    logs = plain_logs(file, "fusion,output_code")
    return {
        "ask": Reading(kernels + reason, "mm" in reason and "needs the result" in reason),
        "check": Reading(whole, "extern_kernels.mm" in (json.loads(whole)["unfused_neighbors"][0]["between"] or [])),
        "logs": Reading(logs.log + logs.page(r"index|inductor_output_code|inductor_post_grad"), "mm" in logs.log),
    }  # fmt: skip


def check_batch(folder: Path) -> dict[str, Reading]:
    file = folder / "batch.py"
    shutil.copy(SAMPLES / "fusion.py", file)
    recompiled = "Recompiling" in plain_logs(file, "recompiles", str(BATCH)).log
    inputs = f"f32[{BATCH}, 1024]"
    text = tcexplore("ask", str(file), "recompile", inputs, "--no-session")
    known: dict[str, Any] = json.loads(tcexplore("ask", str(file), "recompile", inputs, "--json", "--no-session"))
    whole = tcexplore("check", str(file), "--json", "--time-for", "0", "--recompile-check", inputs)
    (answer,) = json.loads(whole)["recompile_answers"]
    logs = plain_logs(file, "guards,recompiles", str(BATCH))
    return {
        "ask": Reading(text, known["answers"][0]["would_recompile"] is recompiled),
        "check": Reading(whole, (answer["frames"][0]["verdict"] == "recompiles") is recompiled),
        "logs": Reading(
            logs.log + logs.page(r"index|dynamo_guards|recompile"), ("Recompiling" in logs.log) is recompiled
        ),
    }


TASKS: dict[str, Callable[[Path], dict[str, Reading]]] = {
    "fix all breaks": fix_breaks, "why not fused": explain_fusion, f"would batch {BATCH} recompile": check_batch,
}  # fmt: skip


def main() -> None:
    """Print the tokens of each task, and the ratios to `ask`."""
    print(f"{'task':30} {'ask':>8} {'check --json':>14} {'TORCH_LOGS, tlparse':>21}")
    with tempfile.TemporaryDirectory() as made:
        for name, task in TASKS.items():
            folder = Path(made, name.replace(" ", "-"))
            folder.mkdir()
            read = task(folder)
            ask = read["ask"]
            cells = [f"{one.tokens:,}{'' if one.right else ' wrong'}" for one in read.values()]
            ratios = [f"{one.tokens / ask.tokens:.0f}×" for way, one in read.items() if way != "ask"]
            print(f"{name:30} {cells[0]:>8} {cells[1]:>8} {ratios[0]:>5} {cells[2]:>14} {ratios[1]:>6}", flush=True)


if __name__ == "__main__":
    main()
