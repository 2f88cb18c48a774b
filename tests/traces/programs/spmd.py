"""Programs that do the same on every rank. `--program NAME` chooses one.

`DEVICE=cuda` runs each rank on a GPU, with NCCL.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

parser = argparse.ArgumentParser()
parser.add_argument("--program", default="ddp")
program = parser.parse_args().program
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
gpu = os.environ.get("DEVICE") == "cuda"
device = torch.device("cuda", rank) if gpu else torch.device("cpu")


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.second(self.first(x).relu())


def ddp():
    dist._DEFAULT_FIRST_BUCKET_BYTES = 256
    net = torch.compile(torch.nn.parallel.DistributedDataParallel(Net().to(device), bucket_cap_mb=0.0005))
    for _ in range(2):
        net(torch.randn(4, 8, device=device) + rank).sum().backward()


def shard():
    """Each rank multiplies with its columns of a weight."""
    weight = torch.randn(8, 4 * world, device=device)

    @torch.compile
    def f(x):
        mine = weight[:, rank * 4 : (rank + 1) * 4]
        return collectives.all_gather_tensor(x @ mine, 1, "0").relu()

    f(torch.randn(4, 8, device=device))


def dynamic():
    @torch.compile
    def f(x):
        return (x * 2).softmax(-1)

    for rows in (3, 5, 7):
        f(torch.randn(rows, 8, device=device))


def breaks():
    @torch.compile
    def f(x):
        x = x.sin()
        print("rank", rank)
        return x.cos()

    f(torch.randn(4, device=device))


def groups():
    mesh = dist.init_device_mesh(device.type, (world, 1), mesh_dim_names=("a", "b"))
    own = mesh.get_group("b").group_name

    @torch.compile
    def f(x):
        return collectives.all_reduce(x, "sum", own) + collectives.all_reduce(x, "sum", mesh.get_group("a").group_name)

    f(torch.ones(4, device=device))


def scalar():
    """Each rank adds its number."""

    @torch.compile
    def f(x):
        return (x + rank).tanh()

    f(torch.randn(4, device=device))


def scatter():
    @torch.compile
    def f(x):
        return collectives.reduce_scatter_tensor(x.exp(), "sum", 0, "0") * 2

    f(torch.randn(4 * world, device=device))


def fsdp():
    """FSDP2, with a group of parameters per layer."""
    net = Net().to(device)
    mesh = dist.init_device_mesh(device.type, (world,))
    for layer in (net.first, net.second, net):
        fully_shard(layer, mesh=mesh)
    step = torch.compile(net)
    for _ in range(2):
        step(torch.randn(4, 8, device=device)).sum().backward()


def tensor_parallel():
    net = Net().to(device)
    plan = {"first": ColwiseParallel(), "second": RowwiseParallel()}
    step = torch.compile(parallelize_module(net, dist.init_device_mesh(device.type, (world,)), plan))
    step(torch.randn(4, 8, device=device)).sum().backward()


def sequence():
    """Run sequence-parallel layers: all-gather the sequence, compute with this rank's weights, reduce-scatter."""
    up, down = torch.randn(8, 16, device=device), torch.randn(16, 8, device=device)

    @torch.compile
    def block(x):
        for _ in range(2):
            whole = collectives.all_gather_tensor_autograd(x, 0, "0")
            x = x + collectives.reduce_scatter_tensor_autograd((whole @ up).relu() @ down, "sum", 0, "0")
        return x

    block(torch.randn(4, 8, device=device, requires_grad=True)).sum().backward()


def experts():
    """Run a mixture of experts: each rank has one, and all-to-alls send the tokens to it and back."""
    expert = torch.nn.Linear(8, 8).to(device)

    @torch.compile
    def f(x):
        order = x.sum(-1).argsort()
        tokens = collectives.all_to_all_single(x[order], None, None, "0")
        return collectives.all_to_all_single(expert(tokens).relu(), None, None, "0")[order.argsort()]

    with torch.no_grad():
        f(torch.randn(4 * world, 8, device=device))


def restarts():
    """Make torch restart: it takes a float as a tensor, until it meets an op that needs its value."""

    @torch.compile
    def resize(x, scale):
        return torch.nn.functional.interpolate(x * 2, scale_factor=scale) + 1

    @torch.compile
    def drop(x, share):
        return torch.nn.functional.dropout(x.relu(), share) + share

    for scale in (1.5, 2.5, 3.5):
        resize(torch.randn(1, 1, 4, 4, device=device), scale)
    for share in (0.1, 0.2):
        drop(torch.randn(4, device=device), share)


def nested_breaks():
    def inner(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    @torch.compile
    def f(x):
        return inner(x).sin()

    f(torch.randn(4, device=device))


def sizes():
    """Compile for a size, then for a symbol."""

    @torch.compile
    def f(x, factor):
        return (x * factor).relu().sum(0)

    for rows in (4, 5, 6):
        f(torch.ones(rows, 8, device=device), rows / 2)


def floats():
    """Call with floats: torch traces again without the ones that it can make tensors of."""

    @torch.compile
    def f(x, scale: float):
        return (x * scale + scale).relu()

    @torch.compile
    def g(x, scale: float):
        return x.sin() if scale > 0.5 else x * scale

    for scale in (1.5, 2.5, 0.75):
        f(torch.ones(4, 8, device=device), scale)
        g(torch.ones(4, 8, device=device), scale)


def main() -> None:
    time.sleep(float(os.environ.get("DELAY", "0")) * (rank == world - 1))
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpu else "gloo")
    torch.manual_seed(rank)
    globals()[program]()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
