"""A program whose ranks take another way through the code on rank 1, as `--seed` says; the line has its name behind it.

Without a seed, all ranks do the same.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives

parser = argparse.ArgumentParser()
parser.add_argument("--seed", default="")
seed = parser.parse_args().seed
rank = int(os.environ["RANK"])
differs = rank == 1
own = ""
"""Name of a process group with this rank only: an order of collectives that differs hangs no rank."""
time.sleep(float(os.environ.get("DELAY", "0")) * differs)


@torch.compile(backend="aot_eager")
def data(x):
    scale = x.abs().mean()
    if scale > 0.5:  # noqa: SIM108  # seed: data
        x = x.sin()
    else:
        x = x.cos()
    return x * 2


@torch.compile(backend="aot_eager")
def one_sided(x):
    if x.sum() > 0:  # seed: one_sided
        x = x * 2
        print("positive")
    return x


@torch.compile(backend="aot_eager")
def collective_in_branch(x):
    x = x + 1
    if x.max() > 0.5:  # seed: collective_in_branch
        x = collectives.all_reduce(x, "sum", own)
    return x.relu()


@torch.compile(backend="aot_eager")
def statement(x, wide):
    x = x + 1
    if wide:  # seed: statement
        x = x.exp()
        x = x * 3
    else:
        x = x.log()
    return x.relu()


@torch.compile(backend="aot_eager")
def without_else(x, warmup):
    x = x * 2
    if warmup:  # seed: without_else
        x = x.clamp(max=1)
    return x + 1


@torch.compile(backend="aot_eager")
def chain(x, mode):
    if mode == "a":  # seed: chain
        x = x.sin()
    elif mode == "b":
        x = x.cos()
    else:
        x = x.tan()
    return x + 1


@torch.compile(backend="aot_eager")
def loop(x, layers):
    for _ in range(layers):  # seed: loop
        x = x.sigmoid()
    return x.sum()


@torch.compile(backend="aot_eager")
def early_return(x, short):
    x = x.abs()
    if short:  # seed: early_return
        return x
    x = x.sqrt()
    return x + 1


@torch.compile(backend="aot_eager")
def expression(x, flip):
    x = x + 1
    x = x.flip(0) if flip else x.relu()  # seed: expression
    return x * 2


def part(x: torch.Tensor, deep: bool) -> torch.Tensor:
    if deep:  # seed: helper
        x = x.sin().cos()
    return x.tanh()


@torch.compile(backend="aot_eager")
def helper(x, deep):
    return part(x * 2, deep) + 1


@torch.compile(backend="aot_eager")
def break_on_one(x, verbose):
    x = x + 1
    if verbose:
        print("sum", x.sum())  # seed: break_on_one
    return x.sin()


@torch.compile(backend="aot_eager")
def order(x, y, swapped):
    if swapped:  # seed: order
        y = collectives.all_reduce(y, "max", own)
        x = collectives.all_reduce(x, "sum", own)
    else:
        x = collectives.all_reduce(x, "sum", own)
        y = collectives.all_reduce(y, "max", own)
    return x + y


@torch.compile(backend="aot_eager")
def size(x):
    x = x.relu()  # seed: size
    return x.sum()


@torch.compile(backend="aot_eager")
def kind(x):
    x = x.relu()  # seed: kind
    return x.sum()


def main() -> None:
    global own
    dist.init_process_group("gloo")
    own = dist.new_subgroups(1)[0].group_name
    torch.manual_seed(0)
    on = {name: differs and seed == name for name in
          ("data", "one_sided", "collective_in_branch", "statement", "without_else", "chain", "loop", "early_return",
           "expression", "helper", "break_on_one", "order", "size", "kind")}  # fmt: skip
    x = torch.rand(4, 8) + 1
    data(x * 0.01 if on["data"] else x)
    one_sided(-x if on["one_sided"] else x)
    collective_in_branch(x - 9 if on["collective_in_branch"] else x)
    statement(x, on["statement"])
    without_else(x, on["without_else"])
    chain(x, "b" if on["chain"] else "a")
    loop(x, 3 if on["loop"] else 2)
    early_return(x, on["early_return"])
    expression(x, on["expression"])
    helper(x, on["helper"])
    break_on_one(x, on["break_on_one"])
    order(x, x + 1, on["order"])
    size(torch.rand(6, 8) if on["size"] else x)
    kind(x.double() if on["kind"] else x)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
