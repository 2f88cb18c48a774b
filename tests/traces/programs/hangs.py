"""A program of several ranks that hangs in its third step. `--hang NAME` chooses why, on rank 1.

A line that rank 1 does not leave ends with the name. The file that `HANG_BEGAN` names is made before. `HANG_BACKEND`
is `gloo`, or `nccl` with a GPU for each rank.

With `HANG_S`, rank 1 goes on after so many seconds in `sleep`, `loop`, `compile` and `autotuning`, and all ranks
compile the same: it is only late.
"""

import argparse
import os
import queue
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--hang", default="")
hang = parser.parse_args().hang
rank = int(os.environ["RANK"])
empty: queue.Queue[None] = queue.Queue()
taken = threading.Lock()
backend = os.environ.get("HANG_BACKEND", "gloo")
device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
late_s = float(os.environ.get("HANG_S", "0"))
late_since = 0.0
"""When rank 1 began to be late."""
other = None
"""A second group of all ranks."""


@torch.compile(backend="aot_eager")
def scaled(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).relu() + rank


def average(x: torch.Tensor, *, in_other: bool = False) -> torch.Tensor:
    dist.all_reduce(x, group=other if in_other else None)  # reached
    return x / dist.get_world_size() + x.sum().item()


class Stuck(torch.utils.data.Dataset[torch.Tensor]):
    """A data set whose worker waits for ever, such as for a file on a server."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, _: int) -> torch.Tensor:
        while True:
            time.sleep(60)


def load(wrong: bool) -> torch.Tensor:
    if wrong and hang == "loading":
        empty.get()  # hang: loading
    if wrong and hang == "dataloader":
        loader = torch.utils.data.DataLoader(Stuck(), num_workers=1)
        next(iter(loader))  # hang: dataloader
    return torch.randn(4, 4, device=device)


def lasts() -> Iterator[None]:
    """Yield until rank 1 goes on: it is late once, also if autotuning measures many choices."""
    global late_since
    late_since = late_since or time.monotonic()
    while rank == 1 and (not late_s or time.monotonic() < late_since + late_s):
        yield


def skip_a_step() -> None:
    for _ in lasts():
        time.sleep(1)  # hang: sleep


def never(graph: Any, _: Any) -> Any:
    for _again in lasts():
        time.sleep(1)
    return graph


def busy(choice: Any, *_: Any) -> float:
    for _again in lasts():
        pass
    return float(len(choice.name))


def product(a: torch.Tensor) -> torch.Tensor:  # hang: compile
    return a @ a


layer = torch.nn.Linear(64, 64).to(device)


def tuned(a: torch.Tensor) -> torch.Tensor:  # hang: autotuning
    return layer(a)


def stuck_in_compile(x: torch.Tensor) -> None:
    if hang == "compile":
        torch.compile(product, backend=never)(x)
    if hang == "autotuning":
        from torch._inductor import select_algorithm

        torch._inductor.config.max_autotune = torch._inductor.config.freezing = True
        select_algorithm.AlgorithmSelectorCache.benchmark_choice = staticmethod(busy)
        with torch.no_grad():
            torch.compile(tuned)(torch.randn(64, 64, device=device))


@torch.compile(backend="aot_eager")
def last(x: torch.Tensor) -> torch.Tensor:
    return x.relu() * 3


def hang_up(x: torch.Tensor) -> None:
    """Hang in the way that was chosen."""
    stuck_in_compile(x)
    if hang == "collective":
        dist.broadcast(x, 0)  # hang: collective
    if hang == "barrier":
        dist.barrier()  # hang: barrier
    if hang == "sleep":
        skip_a_step()
    if hang == "lock":
        taken.acquire()
        taken.acquire()  # hang: lock
    if hang == "socket":
        pair = socket.socketpair()
        pair[0].recv(1)  # hang: socket
    if hang == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)  # hang: stopped
    if hang == "loop":
        sum(0 for _ in lasts())  # hang: loop
    if hang == "exception":
        raise ValueError("the loss is not finite")  # hang: exception


def train(step: int) -> torch.Tensor:
    wrong = step == 2 and rank == 1
    if wrong and (began := os.environ.get("HANG_BEGAN")):
        open(began, "w").close()
    x = scaled(load(wrong))
    if wrong:
        hang_up(x)
    if step == 2 and late_s:
        if not wrong:
            stuck_in_compile(x)
        x = last(x)
    return average(x, in_other=wrong and hang == "groups")


def main() -> None:
    global other
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(backend)
    other = dist.new_group(list(range(dist.get_world_size())))
    for step in range(4):
        train(step)
    dist.barrier()


if __name__ == "__main__":
    main()
