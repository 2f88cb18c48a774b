"""A script for several ranks: rank 1 takes another branch if asked to."""

import os
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
assert os.environ["RANK"] == str(rank)
assert dist.get_world_size() == int(os.environ["WORLD_SIZE"])


@torch.compile(backend=os.environ.get("BACKEND", "inductor"))
def step(x, flag):
    y = x * 2
    dist.all_reduce(y)
    if flag:
        y = y.relu()
    gathered = torch.empty(dist.get_world_size() * y.shape[0], y.shape[1])
    dist.all_gather_into_tensor(gathered, y)
    return gathered.sum()


step(torch.ones(4, 8), "differ" in sys.argv and rank == 1)
layer = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
layer(torch.ones(4, 8)).sum().backward()
assert layer.module.weight.grad is not None
print("rank", rank, flush=True)
if "objects" in sys.argv:
    dist.broadcast_object_list([1])
dist.destroy_process_group()
