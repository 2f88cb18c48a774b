"""Ids that survive unrelated edits: `python -m tests.benchmarks.stable_ids`.

Each of five programs is run, then changed in ten ways that don't concern what it compiles, and run again: lines and
functions inserted above, locals renamed in functions that don't run, the file reformatted, comments, docstrings. The
seed decides where. Printed are the ids of the original that the changed program still has, and ids of two parts.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tcexplore import events as ev
from tcexplore.report.json_report import report
from tcexplore.session import Snapshot
from tcexplore.studies.runs import Runs
from tcexplore.supervisor import Supervisor

SAMPLES = Path(__file__).parents[2] / "samples"

LLAMA = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=2,
                     num_key_value_heads=2, vocab_size=100, use_cache=False)


class Scored(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.llama = LlamaForCausalLM(config).eval()

    def forward(self, tokens):
        logits = self.llama(tokens).logits
        scores = torch.softmax(logits, dim=-1)
        return torch.topk(scores, 3)


model = Scored()
inputs = (torch.arange(16).reshape(1, 16),)
"""

SCRIPT = """
import torch


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = torch.nn.Linear(width, 2 * width)
        self.down = torch.nn.Linear(2 * width, width)
        self.calls = 0

    def forward(self, x):
        y = torch.relu(self.up(x))
        print("mean", y.mean().item())
        return x + self.down(y)


net = torch.nn.Sequential(Block(16), Block(16))
compiled = torch.compile(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for batch in (8, 8, 12, 20):
    loss = compiled(torch.randn(batch, 16)).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""

ABOVE = "# a comment\n\nUNUSED = [1, 2, 3]\n\n"
FUNCTION = "\n\ndef added_helper(first, second):\n    total = first + second\n    return total * 2\n"
CLASS = "\n\nclass AddedThing:\n    def forward(self, x):\n        h = x + 1\n        return h\n"

Edit = Callable[[str, random.Random], str]


def above(text: str, rng: random.Random) -> str:
    return _after_docstring(text, ABOVE * rng.randint(1, 3))


def imports(text: str, rng: random.Random) -> str:
    return _after_docstring(text, rng.choice(["import json\n", "import os.path\n", "from collections import deque\n"]))


def function(text: str, rng: random.Random) -> str:
    return _before_definition(text, rng, FUNCTION.lstrip("\n") + "\n\n")


def class_(text: str, rng: random.Random) -> str:
    return _before_definition(text, rng, CLASS.lstrip("\n") + "\n\n")


def reformatted(text: str, _: random.Random) -> str:
    """Format as `ast.unparse` does: one line for each statement, other quotes and blank lines, no comments."""
    return ast.unparse(ast.parse(text)) + "\n"


def wrapped(text: str, _: random.Random) -> str:
    """Put the arguments of each call in a `return` or an assignment on a line of their own, as formatters do."""
    lines = text.splitlines()
    for node in sorted(ast.walk(ast.parse(text)), key=lambda n: getattr(n, "lineno", 0), reverse=True):
        if isinstance(node, ast.Return | ast.Assign) and isinstance(node.value, ast.Call) and node.value.args:
            call = node.value
            if (
                call.lineno == call.end_lineno
                and "#" not in lines[call.lineno - 1]
                and call.args[0].lineno == call.lineno
            ):
                line, at = lines[call.lineno - 1], call.args[0].col_offset
                indent = " " * (node.col_offset + 8)
                lines[call.lineno - 1 : call.lineno] = [line[:at].rstrip(), indent + line[at:]]
    return "\n".join(lines) + "\n"


def comments(text: str, rng: random.Random) -> str:
    lines = text.splitlines()
    for at in sorted(rng.sample(range(len(lines)), min(6, len(lines))), reverse=True):
        if (
            lines[at].strip()
            and not lines[at].rstrip().endswith(("\\", '"""', "'''"))
            and _outside_strings(text, at + 1)
        ):
            lines[at] += "  # noted"
    return "\n".join(lines) + "\n"


def blank_lines(text: str, rng: random.Random) -> str:
    """Put blank lines before statements inside of functions."""
    lines = text.splitlines()
    starts = [n.lineno for n in ast.walk(ast.parse(text)) if isinstance(n, ast.stmt) and n.col_offset]
    for at in sorted({rng.choice(starts) for _ in range(5)} if starts else (), reverse=True):
        lines.insert(at - 1, "")
    return "\n".join(lines) + "\n"


def docstring(text: str, rng: random.Random) -> str:
    """Give functions without a docstring one."""
    lines = text.splitlines()
    bodies = [
        n.body[0] for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef) and not ast.get_docstring(n)
    ]
    for first in sorted(rng.sample(bodies, min(2, len(bodies))), key=lambda s: s.lineno, reverse=True):
        lines.insert(first.lineno - 1, " " * first.col_offset + '"""Do the work."""')
    return "\n".join(lines) + "\n"


def renamed(text: str, rng: random.Random) -> str:
    """Add a function, and rename its locals: the rest of the file has other lines, nothing else."""
    names = {"total": rng.choice(["amount", "result"]), "first": "one", "second": "two"}
    changed = re.sub("|".join(names), lambda match: names[match.group()], FUNCTION)
    return _before_definition(text, rng, changed.lstrip("\n") + "\n\n")


EDITS: tuple[Edit, ...] = (
    above, imports, function, class_, reformatted, wrapped, comments, blank_lines, docstring, renamed,
)  # fmt: skip


def _after_docstring(text: str, addition: str) -> str:
    body = ast.parse(text).body
    first = body[1] if ast.get_docstring(ast.parse(text), clean=False) is not None else body[0]
    lines = text.splitlines(keepends=True)
    return "".join([*lines[: first.lineno - 1], addition, *lines[first.lineno - 1 :]])


def _before_definition(text: str, rng: random.Random, addition: str) -> str:
    body = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign)]
    node = rng.choice(body)
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    lines = text.splitlines(keepends=True)
    return "".join([*lines[: first - 1], addition, *lines[first - 1 :]])


def _outside_strings(text: str, line: int) -> bool:
    return not any(
        isinstance(node, ast.Constant | ast.JoinedStr) and node.lineno <= line < (node.end_lineno or 0)
        for node in ast.walk(ast.parse(text))
    )


def ids(run: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield (kind, id) of each part in the report of a run."""
    whole = report(run, None)
    for key in ("breaks", "guards", "kernels", "modules", "recompile_fixes"):
        yield from ((key, part["id"]) for part in whole[key])
    yield from (("fixes", part["fix"]["id"]) for part in whole["breaks"] if part["fix"])
    yield from (("lines", part["id"]) for part in whole["line_traffic"])
    for key in ("graphs", "aten_graphs"):
        for graph in whole[key]:
            parts = [graph["nodes"], *(subgraph["nodes"] for subgraph in graph["subgraphs"])]
            yield from ((f"ops of {key}", node["id"]) for nodes in parts for node in nodes)


async def measure(programs: dict[str, str], seed: int) -> None:
    """Print a row for each program and one for each kind of part."""
    before_by_kind, kept_by_kind, shared, edits = Counter[str](), Counter[str](), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        async with Runs(partial(Supervisor), lambda _: None) as runs:
            for name, text in programs.items():
                path = Path(folder, name)
                rng = random.Random(f"{seed} {name}")
                original = await _run(runs, path, text)
                known = Counter(ids(original))
                shared += sum(n - 1 for n in known.values())
                total = kept = 0
                lost: list[str] = []
                for edit in EDITS:
                    changed = edit(text, rng)
                    assert changed != text, edit.__name__
                    after = Counter(ids(await _run(runs, path, changed)))
                    shared += sum(n - 1 for n in after.values())
                    edits += 1
                    for part in known:
                        before_by_kind[part[0]] += 1
                        kept_by_kind[part[0]] += part in after
                        total, kept = total + 1, kept + (part in after)
                    if gone := sum(part not in after for part in known):
                        lost.append(f"{edit.__name__} {gone}")
                print(
                    f"{name:20} {len(known):6} ids  {kept / total:8.2%} kept  lost: {', '.join(lost) or 'none'}",
                    flush=True,
                )
    for kind, number in before_by_kind.items():
        print(f"{kind:20} {number:6}      {kept_by_kind[kind] / number:8.2%} kept")
    print(f"{edits} edits: {kept_by_kind.total() / before_by_kind.total():.2%} kept; {shared} ids shared by two parts")


async def _run(runs: Runs, path: Path, text: str) -> Snapshot:
    await asyncio.to_thread(path.write_text, text)
    job = ev.Job(run=1, file=str(path), source=text, time_for=0.0, examine=False, profile=False)
    run = (await runs.run(job, 300.0)).snapshot
    assert run.status == "ok", (path.name, run.failure)
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("programs", nargs="*", help="names of the programs to run; default: all")
    given = parser.parse_args()
    programs = {
        **{f"{name}.py": (SAMPLES / f"{name}.py").read_text() for name in ("mlp", "graph_breaks", "branching")},
        "llama.py": LLAMA,
        "script.py": SCRIPT,
    }
    chosen = {name: text for name, text in programs.items() if not given.programs or name in given.programs}
    asyncio.run(measure(chosen, given.seed))


if __name__ == "__main__":
    main()
