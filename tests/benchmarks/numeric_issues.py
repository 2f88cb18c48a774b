"""Wrong results that were reported to PyTorch, rebuilt small, and what `tcexplore numerics` says about them.

Run `python -m tests.benchmarks.numeric_issues`; `study_runs.py` has its options. Each program is first called as a
plain script would: if this torch gives eager's results, the report is fixed there, and nothing may be accused. If not,
the op must be named. Where a report is fixed, its cause is seeded: wrong strides, indices, a lowering that reads what
was overwritten.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tests.benchmarks.study_runs import Outcome, Program, judge, reasons


class ReportedIssue(NamedTuple):
    """A wrong result."""

    number: int
    """Number of the report in pytorch/pytorch."""
    name: str
    ops: tuple[str, ...]
    """Ops any of which is right to name."""
    program: str
    train: bool = False
    seed: str = ""
    """Code that brings the fault back where torch has mended it."""

    def source(self, *, seeded: bool = False) -> str:
        return f"import torch\n{self.seed if seeded else ''}\n\n{self.program.strip()}\n"


MODULE = """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn({shape}))

    def forward(self, y):
        return {expression}


torch.manual_seed(0)
model = Model()
inputs = (torch.randn({other}),)
loss = lambda output: output.sum()
"""

EXPANDED = """
def keep_strides(name):
    # The result has the strides of its first argument, also where these are zero: several elements share their memory.
    from torch._inductor import ir, lowering

    op = getattr(torch.ops.aten, name).default
    original = lowering.lowerings[op]

    def lowered(x, src, *args, **kwargs):
        result = original(x, src, *args, **kwargs)
        sizes, loader = result.get_size(), result.make_loader()

        def inner(index):
            return loader([0, *index[1:]])

        return ir.Pointwise.create(
            device=result.get_device(), dtype=result.get_dtype(), inner_fn=inner, ranges=list(sizes)
        )

    lowering.lowerings[op] = lowered


keep_strides("{name}")
"""

TRANSPOSED = """
def transpose_indices():
    # The index of a reduction counts the elements in the order of the memory instead of that of the tensor.
    from torch._inductor import lowering

    for op in (torch.ops.aten.argmin.default, torch.ops.aten.argmax.default):
        original = lowering.lowerings[op]

        def lowered(x, dim=None, keepdim=False, original=original):
            if dim is None:
                x = lowering.lowerings[torch.ops.aten.permute.default](x, [1, 0])
            return original(x, dim, keepdim)

        lowering.lowerings[op] = lowered


transpose_indices()
"""

ISSUES = (
    ReportedIssue(
        180164, "the gradient of slice_scatter has an expanded input", ("slice_scatter", "sum", "full", "copy"),
        MODULE.format(shape="4, 13, 8", expression="torch.slice_scatter(self.weight, y, 1, 2, 5).sum(1)",
                      other="4, 3, 8"),
        train=True, seed=EXPANDED.format(name="slice_scatter"),
    ),
    ReportedIssue(
        182012, "the gradient of diagonal_scatter has an expanded input", ("diagonal_scatter", "copy", "full", "where"),
        MODULE.format(shape="8, 8", expression="torch.diagonal_scatter(self.weight, y, 0).sum()", other="8"),
        train=True,
    ),
    ReportedIssue(
        183894, "argmin of a transposed tensor that was changed in place", ("argmin",), """
def model(x):
    x = x.clone()
    x.sin_()
    return x.t().argmin()


torch.manual_seed(0)
inputs = (torch.randn(4, 6),)
""", seed=TRANSPOSED,
    ),
    ReportedIssue(
        197739, "argmin of a transposed tensor that was added to", ("argmin",), """
def model(x):
    return (x.t() + 0.5).argmin()


torch.manual_seed(0)
inputs = (torch.randn(4, 6),)
""", seed=TRANSPOSED,
    ),
    ReportedIssue(
        178964, "indices of the maximum of a transposed tensor", ("max", "argmax"), """
def model(a, b):
    return (a + b).max(dim=1)


torch.manual_seed(0)
inputs = (torch.randn(8, 8).transpose(0, 1), torch.randn(8, 8))
""",
    ),
    ReportedIssue(
        185382, "an optimizer's loop with a break at item() in each iteration",
        ("addcdiv", "addcmul", "mul", "add", "div"), """
def update(param, grad, m, v, step_t):
    step_t.add_(1)
    m.mul_(0.9).add_(grad, alpha=0.1)
    v.mul_(0.999).addcmul_(grad, grad, value=0.001)
    step = step_t.item()
    denominator = (v.sqrt() / ((1 - 0.999**step) ** 0.5)).add_(1e-8)
    param.addcdiv_(m, denominator, value=-0.001 / (1 - 0.9**step))


def model(x, grad):
    param, m, v, step_t = x.clone(), torch.zeros_like(x), torch.zeros_like(x), torch.zeros(())
    for _ in range(5):
        update(param, grad, m, v, step_t)
    return param


torch.manual_seed(0)
inputs = (torch.randn(64), torch.randn(64))
""",
    ),
    ReportedIssue(
        175966, "a product of arange that needs 64 bits", ("mul",), """
def model(x):
    return torch.arange(0, 11, dtype=torch.int64) * 1000000000 + x


inputs = (torch.zeros(11, dtype=torch.int64),)
""",
    ),
    ReportedIssue(
        162410, "a flip that is copied into its own input", ("flip", "rev", "copy", "add", "sum"), """
def model(x, y):
    x = x.clone()
    x.copy_(x.flip(1))
    y = y.sum(dim=1) + y
    return x + y


torch.manual_seed(0)
inputs = (torch.randn(20, 20), torch.randn(20, 20))
""",
    ),
    ReportedIssue(
        171493, "a gather that is fused with the index_add that it reads",
        ("index_put", "index_add", "index", "scatter_add"), """
def model(f, batch):
    scaled = f**2 + 0.00987654321
    total = torch.zeros((3, f.shape[1])).index_add(0, batch, scaled)
    return scaled / (total[batch] + 1e-6)


torch.manual_seed(0)
inputs = (torch.ones(1024, 1), torch.zeros(1024, dtype=torch.int64))
""",
    ),
    ReportedIssue(
        183575, "a buffer that is read after its memory was used again", ("lerp", "add", "mul"), """
def model(p, x, m):
    y = x.to(torch.bfloat16) @ p.to(torch.bfloat16)
    g = (x.to(torch.bfloat16).t() @ y).float()
    m = m.lerp(g, 0.05)
    return p - 0.01 * m, m


torch.manual_seed(0)
inputs = (torch.randn(64, 64), torch.randn(64, 64), torch.zeros(64, 64))
""",
    ),
)  # fmt: skip

CHECK = """

import sys

def flat(output):
    return [output] if isinstance(output, torch.Tensor) else list(output)

def called(function):
    arguments = [x.clone() for x in inputs]
    if not {train}:
        with torch.no_grad():
            return flat(function(*arguments))
    model.zero_grad()
    output = function(*arguments)
    output.sum().backward()
    return [output.detach(), *(p.grad.clone() for p in model.parameters())]

eager = called(model)
compiled = called(torch.compile(model))
same = all(torch.allclose(a.double(), b.double(), rtol=1e-3, atol=1e-4) for a, b in zip(eager, compiled))
sys.exit(0 if same else 3)
"""


def is_wrong(source: str, folder: Path, *, train: bool) -> bool:
    """Return whether a plain script gives other results compiled than in eager."""
    file = folder / "plain.py"
    file.write_text(source + CHECK.format(train=train))
    # The cache does not know that a seeded fault changes what a graph is lowered to.
    environment = {**os.environ, "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False, env=environment)
    if done.returncode not in (0, 3):
        raise RuntimeError(done.stderr)
    return done.returncode == 3


def program(issue: ReportedIssue, *, seeded: bool) -> Program:
    """Return the program of an issue, with its fault seeded or as it is."""
    source, wrong = issue.source(seeded=seeded), False

    def job(folder: Path) -> ev.Job:
        nonlocal wrong
        wrong = is_wrong(source, folder, train=issue.train)
        file = folder / f"issue{issue.number}.py"
        file.write_text(source)
        return ev.Job(
            run=1, file=str(file), source=source, config=ev.Config(train=issue.train), time_for=0.0, profile=False,
            examine=False, numerics=True,
        )  # fmt: skip

    def outcome(run: Snapshot) -> Outcome:
        return verdict(issue, run, wrong=wrong)

    return Program(f"{issue.number}{', seeded' if seeded else ''}: {issue.name}", job, outcome)


def verdict(issue: ReportedIssue, run: Snapshot, *, wrong: bool) -> Outcome:
    """Return whether the judgement is right, and what it says."""
    state = "wrong in a plain script" if wrong else "right in a plain script"
    if run.numerics is None:
        return Outcome(False, f"{state}, not judged", f"{state}, not judged: {reasons(run)}")
    first = run.first_op
    accused = first is not None and first.kind == "wrong"
    said: str = run.numerics.verdict
    if first is not None and accused:
        line = first.location.line if first.location else None
        said += f": {first.op} ({first.node}), {first.stage} {first.culprit}, line {line}, `{first.statement}`"
    named = first is not None and accused and first.op.rpartition(".")[2] in issue.ops
    right = named if wrong else run.numerics.verdict != "wrong"
    finding = "named" if named else "accused of another op" if accused else "not accused"
    return Outcome(right, f"{state}, {finding}", f"{state}: {said}")


def programs() -> Iterator[Program]:
    """Yield each report as it is, and with its cause seeded where there is one."""
    for issue in ISSUES:
        for seeded in (False, True) if issue.seed else (False,):
            yield program(issue, seeded=seeded)


if __name__ == "__main__":
    asyncio.run(judge(programs()))
