"""A program for two ranks. With `--seed KIND`, rank 1 differs from rank 0 in one way."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives

parser = argparse.ArgumentParser()
parser.add_argument("--seed", default="")
seed = parser.parse_args().seed
rank = int(os.environ["RANK"])
differs, swapped = rank == 1, rank == 1 and seed == "collectives"

if differs and seed == "environment":
    torch.set_num_threads(2)
if differs and seed == "config":
    torch._dynamo.config.assume_static_by_default = False


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.smooth = not (differs and seed == "branch")
        self.verbose = differs and seed == "break"
        self.label = "rank one" if differs and seed == "guard" else "any"

    def forward(self, x):
        x = self.linear(x)
        if self.label:
            x = x + 1
        x = x.sin() if self.smooth else x.cos()
        if self.verbose:
            print("sum", x.sum())
        return x * 2


def exchange(a, b):
    if swapped:
        b = collectives.all_reduce(b, "max", "0")
        a = collectives.all_reduce(a, "sum", "0")
    else:
        a = collectives.all_reduce(a, "sum", "0")
        b = collectives.all_reduce(b, "max", "0")
    return a + b


gpu = os.environ.get("DEVICE") == "cuda"
"""Whether each rank runs on a GPU, with NCCL."""
device = torch.device("cuda", rank) if gpu else torch.device("cpu")


def seed_process() -> None:
    """Make what is not in the code differ."""
    if differs and seed == "version":
        torch.__version__ = "2.12.1"  # what torch writes into its records
    if differs and seed == "missing":
        logging.getLogger("torch.__trace").handlers.clear()
    if differs and seed == "unfinished":
        graph.GraphLowering.run = lambda *_: os._exit(1)
    if seed == "autotuning":
        torch._inductor.config.max_autotune = torch._inductor.config.freezing = True
        select_algorithm.AlgorithmSelectorCache.benchmark_choice = staticmethod(time_choice)


def time_choice(choice, *_):
    """Return a fake benchmark time: the library call is the fastest choice on rank 1 only."""
    library = isinstance(choice, select_algorithm.ExternKernelCaller)
    return 1.0 if library == differs else 2.0


def wrapped(net: torch.nn.Module, wrap: str | None) -> torch.nn.Module:
    if wrap == "fsdp":
        return fully_shard(net, mesh=dist.init_device_mesh(device.type, (dist.get_world_size(),)))
    return torch.nn.parallel.DistributedDataParallel(net) if wrap == "ddp" else net


def main() -> None:
    seed_process()
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpu else "gloo")
    torch.manual_seed(0)
    dtype = torch.float64 if differs and seed == "dtype" else torch.float32
    net = torch.compile(wrapped(Net().to(device, dtype), os.environ.get("WRAP")))
    for step in range(2):
        rows = 6 if differs and seed == "shape" and step == 1 else 4
        if seed == "autotuning":
            with torch.no_grad():
                net(torch.randn(64, 8, device=device))
        net(torch.randn(rows, 8, dtype=dtype, device=device)).sum().backward()
    torch.compile(exchange)(torch.ones(4, device=device), torch.full((4,), float(rank), device=device))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    import logging

    from torch._inductor import graph, select_algorithm
    from torch.distributed.fsdp import fully_shard

    main()
