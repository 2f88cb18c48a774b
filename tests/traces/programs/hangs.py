"""A program of several ranks that hangs in its third step. `--hang KIND` chooses why, on rank 1."""

import argparse
import os
import queue
import signal
import time

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--hang", default="")
hang = parser.parse_args().hang
rank = int(os.environ["RANK"])
lock: queue.Queue[None] = queue.Queue()


@torch.compile(backend="aot_eager")
def scaled(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).relu() + rank


def average(x: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(x)
    return x / dist.get_world_size()


def load(step: int) -> torch.Tensor:
    if hang == "loading" and rank == 1 and step == 2:
        lock.get()
    return torch.randn(4, 4)


def skip_a_step() -> None:
    while True:
        time.sleep(1)


def train(step: int) -> torch.Tensor:
    x = scaled(load(step))
    if step == 2 and rank == 1:
        if hang == "collective":
            dist.broadcast(x, 1)
        if hang == "barrier":
            dist.barrier()
        if hang == "sleep":
            skip_a_step()
        if hang == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        if hang == "loop":
            while step:
                x = x + 1
        if hang == "exception":
            raise ValueError("the loss is not finite")
        if hang == "ended":
            os._exit(0)
    return average(x)


def main() -> None:
    dist.init_process_group("gloo")
    for step in range(4):
        train(step)
    dist.barrier()


if __name__ == "__main__":
    main()
