"""Profiles of one's own: the share of their work that is on a line, and the lines against labels from tensor sizes.

    python -m tests.benchmarks.profile_labels FOLDER --record [NAME,…]    records them, on a machine with a GPU
    python -m tests.benchmarks.profile_labels FOLDER                      joins and judges them, anywhere

1. Required: 99% of the time of compiled kernels and 95% of all is on a line.
2. In these programs each block of lines has tensors of a size of its own. So the sizes of an op in the profile tell
   the line of its kernels, without any text of the compiler. In a replayed CUDA graph, where the profile has no ops,
   the order of the program tells it. Required: no kernel is on a line or in a module of another block, or on the wrong
   line of its own where the sizes tell it.

`training` trains blocks of two linear layers; `graphs` replays such blocks as a CUDA graph; `convolutions` trains
convolutions with graph breaks; `ranks` trains the blocks under DDP on two GPUs. Exits with 1 if a requirement fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

BLOCKS = 30
BATCH, MODEL = 512, 96


def width(block: int) -> int:
    """Return the size that only the tensors of a block have."""
    return 200 + 8 * block


CONVOLUTIONS = 12


def channels(block: int) -> int:
    """Return the channels that only the results of a block have."""
    return 24 + 8 * block


HEAD = """\
import os
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile, record_function

rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
torch.cuda.set_device(rank)
torch.manual_seed(0)
"""

TRAIN = """\
model = Net().cuda()
if ranks > 1:
    torch.distributed.init_process_group("nccl")
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
compiled = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), fused=True)


def step():
    optimizer.zero_grad()
    with record_function("the forward"):
        loss = compiled(x).square().mean()
    with record_function("the backward"):
        loss.backward()
        torch.cuda.synchronize()
    optimizer.step()
"""

INFER = """\
model = Net().cuda().eval()
compiled = torch.compile(model, mode="reduce-overhead")


@torch.no_grad()
def step():
    compiled(x)
"""

RECORD = """\

for _ in range(6):
    step()
torch.cuda.synchronize()
with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True, with_stack=True
) as profiled:
    for number in range(3):
        with record_function(f"ProfilerStep#{number}"):
            step()
    torch.cuda.synchronize()
profiled.export_chrome_trace(os.environ["PROFILE"] + f"_{rank}.json")
if ranks > 1:
    torch.distributed.destroy_process_group()
"""


def linear_blocks() -> str:
    """Return a model of blocks with three lines each."""
    layers = [
        f"        self.up{n} = torch.nn.Linear({MODEL}, {width(n)})\n"
        f"        self.down{n} = torch.nn.Linear({width(n)}, {MODEL})\n"
        for n in range(BLOCKS)
    ]
    calls = [
        f"        h = self.up{n}(x)\n        h = torch.sigmoid(h) * 1.25\n        x = x + self.down{n}(h)\n"
        for n in range(BLOCKS)
    ]
    return _model(layers, calls) + f'x = torch.randn({BATCH}, {MODEL}, device="cuda")\n'


def convolution_blocks() -> str:
    """Return a model of convolutions with a graph break after every fourth."""
    layers = [
        f"        self.conv{n} = torch.nn.Conv2d({channels(n - 1)}, {channels(n)}, 3, padding=1)\n"
        f"        self.norm{n} = torch.nn.BatchNorm2d({channels(n)})\n"
        for n in range(CONVOLUTIONS)
    ]
    calls = [
        f"        x = self.conv{n}(x)\n        x = F.silu(self.norm{n}(x))\n"
        + ("        torch._dynamo.graph_break()\n" if n % 4 == 3 else "")
        for n in range(CONVOLUTIONS)
    ]
    return _model(layers, calls) + f'x = torch.randn(8, {channels(-1)}, 20, 20, device="cuda")\n'


def _model(layers: list[str], calls: list[str]) -> str:
    return (
        "\n\nclass Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n" + "".join(layers)
        + "\n    def forward(self, x):\n" + "".join(calls) + "        return x\n\n\n"
    )  # fmt: skip


PROGRAMS = {
    "training": HEAD + linear_blocks() + TRAIN + RECORD,
    "graphs": HEAD + linear_blocks() + INFER + RECORD,
    "convolutions": HEAD + convolution_blocks() + TRAIN + RECORD,
    "ranks": HEAD + linear_blocks() + TRAIN + RECORD,
}


def record(folder: Path, name: str) -> None:
    """Run a program with TORCH_TRACE; it profiles three steps."""
    file = folder / f"{name}.py"
    file.write_text(PROGRAMS[name])
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    count = 2 if name == "ranks" else 1
    ranks = []
    for rank in range(count):
        variables = {
            "TORCH_TRACE": str(folder / f"{name}_trace"), "PROFILE": str(folder / name), "RANK": str(rank),
            "WORLD_SIZE": str(count), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port),
        }  # fmt: skip
        ranks.append(subprocess.Popen([sys.executable, str(file)], env={**os.environ, **variables}))
    for rank, process in enumerate(ranks):
        print(f"{name}, rank {rank}: exit status {process.wait()}", flush=True)


class Label(NamedTuple):
    """Lines that a kernel may be on, and those that it must be on one of."""

    block: int
    allowed: frozenset[int]
    one_of: frozenset[int]


class Labels:
    """Labels of one program."""

    def __init__(self, source: str) -> None:
        lines = source.split("\n")
        pattern = re.compile(r" self\.(?:up|conv|down|norm)(\d+)\(| self\.norm(\d+)\(|silu\(self\.norm(\d+)\(")
        self.lines: dict[int, list[int]] = {}
        last = None
        for number, line in enumerate(lines, 1):
            match = pattern.search(line) if line.startswith("        ") and "torch.nn" not in line else None
            if match is not None:
                last = int(match[1] or match[2] or match[3])
                self.lines.setdefault(last, []).append(number)
            elif "torch.sigmoid" in line and last is not None:
                self.lines[last].append(number)

    def of_op(self, name: str, sizes: list[list[int]], backward: bool) -> Label | None:
        """Return the label of an op by the sizes of its tensors; None if it has no size of one block."""
        every = {size for tensor in sizes for size in tensor}
        if len(self.lines) == CONVOLUTIONS:
            return self._of_convolution(name, sizes, every)
        blocks = {block for block in self.lines if width(block) in every}
        if len(blocks) != 1:
            return None
        (block,) = blocks
        up, activation, down = self.lines[block]
        if name.startswith("triton"):
            needed = {activation} if "sigmoid" in name else {up, activation, down}
            return Label(block, frozenset(self.lines[block]), frozenset(needed))
        # The matrices of `mm` come first, those of `addmm` after the bias; a bias of full size is added in the kernel.
        matrices = [tuple(tensor) for tensor in sizes if len(tensor) == 2][1 if name == "aten::addmm" else 0 :]
        line = self._linear_line(block, matrices, backward)
        return None if line is None else Label(block, frozenset([line]), frozenset([line]))

    def _linear_line(self, block: int, matrices: list[tuple[int, ...]], backward: bool) -> int | None:
        up, _, down = self.lines[block]
        size = width(block)
        lines: dict[tuple[tuple[int, ...], ...], int] = {
            ((BATCH, MODEL), (MODEL, size)): down if backward else up,  # the gradient of the activation, or the call
            ((BATCH, size), (size, MODEL)): up if backward else down,
            ((MODEL, BATCH), (BATCH, size)): down,
            ((size, BATCH), (BATCH, MODEL)): up,
        }
        return lines.get(tuple(matrices[:2]))

    def _of_convolution(self, name: str, sizes: list[list[int]], every: set[int]) -> Label | None:
        weight = next((tensor for tensor in sizes if len(tensor) == 4 and tensor[2:] == [3, 3]), None)
        if not name.startswith("triton"):
            if "conv" not in name:
                return None
            block = next((b for b in self.lines if weight and weight[:2] == [channels(b), channels(b - 1)]), None)
            line = None if block is None else self.lines[block][0]
            return None if line is None or block is None else Label(block, frozenset([line]), frozenset([line]))
        blocks = sorted(block for block in self.lines if channels(block) in every)
        if len(blocks) != 1:
            return None
        (block,) = blocks
        near = {line for b in (block, block + 1) for line in self.lines.get(b, ())}  # layouts of the next convolution
        return Label(block, frozenset(near), frozenset(near))


def labeled(profile: dict[str, Any], labels: Labels) -> Iterator[tuple[dict[str, Any], Label]]:
    """Yield each kernel that has a label: that of the op whose External id it has."""
    events = [event for event in profile["traceEvents"] if event.get("ph") == "X"]
    backward = [(e["ts"], e["ts"] + e["dur"]) for e in events if e["name"] == "the backward"]
    ops: dict[int, dict[str, Any]] = {}
    for event in events:
        number = event.get("args", {}).get("External id")
        if event.get("cat") == "cpu_op" and number is not None:
            ops[number] = event
    kernels = sorted((event for event in events if event.get("cat") == "kernel"), key=lambda event: event["ts"])
    if not backward:
        yield from _labeled_by_order(kernels, labels)
        return
    for kernel in kernels:
        op = ops.get(kernel["args"].get("External id"))
        if op is None:
            continue
        sizes = [size for size in op["args"].get("Input Dims", ()) if not size or not isinstance(size[0], list)]
        late = any(begin <= op["ts"] <= end for begin, end in backward)
        if (label := labels.of_op(op["name"], sizes, late)) is not None:
            yield kernel, label


def _labeled_by_order(kernels: list[dict[str, Any]], labels: Labels) -> Iterator[tuple[dict[str, Any], Label]]:
    """Yield the kernels of replays of a forward: per block a matrix product, the activation, a matrix product."""
    places = [index for index, kernel in enumerate(kernels) if "sigmoid" in kernel["name"]]
    for number, index in enumerate(places):
        block = number % BLOCKS
        up, activation, down = labels.lines[block]
        yield kernels[index], Label(block, frozenset([up, activation]), frozenset([activation]))
        for other, line in ((index - 1, up), (index + 1, down)):
            if 0 <= other < len(kernels) and "triton" not in kernels[other]["name"]:
                yield kernels[other], Label(block, frozenset([line]), frozenset([line]))


def judge(folder: Path, path: Path, name: str) -> bool:
    """Join a profile, and print its shares and how many labels hold."""
    command = [sys.executable, "-m", "tcexplore"]
    trace = str(folder / f"{name}_trace")
    with tempfile.TemporaryDirectory() as temporary:
        lines, report = Path(temporary, "lines.json"), Path(temporary, "report.json")
        subprocess.run(
            [*command, "export", str(path), "--trace", trace, "--perfetto", str(lines)], check=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        with report.open("w") as file:
            subprocess.run([*command, "open", str(path), "--trace", trace, "--json"], check=True, stdout=file)
        joined, read = json.loads(lines.read_text()), json.loads(report.read_text())["profile"]
    compiled = read["compiled_on_lines_us"] / read["compiled_us"]
    work = read["work_on_lines_us"] / read["work_us"]
    outcomes: Counter[str] = Counter()
    for kernel, label in labeled(joined, Labels((folder / f"{name}.py").read_text())):
        text = str(kernel["args"].get("tcexplore line", ""))
        on = {int(line) for line in re.findall(rf"{name}\.py:(\d+)", text)}
        modules = {int(number) for number in re.findall(r"\D(\d+)\b", str(kernel["args"].get("tcexplore module", "")))}
        right = bool(on) and on <= label.allowed and bool(on & label.one_of) and modules <= {label.block}
        outcomes["right" if right else "no line" if not text else "wrong"] += 1
        if not right and outcomes.total() - outcomes["right"] <= 8:
            wanted = sorted(label.one_of)
            module = kernel["args"].get("tcexplore module", "")
            print(f"  {kernel['name'][:60]}: {text or 'no line'} {module}; block {label.block}, lines {wanted}")
    print(
        f"{path.name}: compiled kernels' time on a line {compiled:.2%}, all work {work:.2%}; of {outcomes.total()} "
        f"labeled kernels {outcomes['right']} are right, {outcomes['wrong']} wrong, {outcomes['no line']} on no line",
        flush=True,
    )
    for item in read["unjoined"][:3]:
        print(f"  on no line: {item['us']:.0f} µs, {item['name'][:70]}: {item['reason']}")
    return compiled >= 0.99 and work >= 0.95 and outcomes["right"] == outcomes.total() > 0


def main() -> None:
    """Record profiles, or join and judge those of a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--record", type=lambda text: text.split(","), nargs="?", const=list(PROGRAMS))
    given = parser.parse_args()
    if given.record:
        given.folder.mkdir(parents=True, exist_ok=True)
        for name in given.record:
            record(given.folder.resolve(), name)
        return
    results = [
        judge(given.folder, path, name) for name in PROGRAMS for path in sorted(given.folder.glob(f"{name}_[0-9].json"))
    ]
    if not results or not all(results):
        sys.exit("a requirement fails" if results else "no profiles there")


if __name__ == "__main__":
    main()
