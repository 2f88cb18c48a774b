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


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = torch.compile(Net())
    dtype = torch.float64 if differs and seed == "dtype" else torch.float32
    net.to(dtype)
    for step in range(2):
        rows = 6 if differs and seed == "shape" and step == 1 else 4
        net(torch.randn(rows, 8, dtype=dtype)).sum().backward()
    torch.compile(exchange)(torch.ones(4), torch.full((4,), float(rank)))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
