"""Four common graph breaks, each next to a form that does not break.

Look at: the breaks pane, with one entry for each line marked BREAK, and the many small graphs where one would do.
Edit: replace `Broken` with `Fixed` in the last lines and save: no break, one graph. Or fix them one at a time: press
`h` on a break.
"""

import torch
from torch import nn


def printed(x):
    h = torch.sin(x)
    print("mean", h.mean())  # BREAK: the values are needed now
    return torch.cos(h)


def printed_fixed(x):
    h = torch.sin(x)
    return torch.cos(h)  # print outside, from what is returned


def scaled(x):
    return x / x.abs().max().item()  # BREAK: a tensor becomes a Python number


def scaled_fixed(x):
    return x / x.abs().max()  # a tensor stays a tensor


def chosen(x):
    if x.sum() > 0:  # BREAK: the branch depends on the data
        return x * 2
    return x - 1


def chosen_fixed(x):
    return torch.where(x.sum() > 0, x * 2, x - 1)  # both branches, and the data picks


@torch.compiler.disable
def opaque(x):
    return torch.relu(x)


def disabled(x):
    return opaque(x) + 1  # BREAK: a function that asks not to be compiled


def disabled_fixed(x):
    return torch.relu(x) + 1


class Broken(nn.Module):
    def forward(self, x):
        return disabled(chosen(scaled(printed(x))))


class Fixed(nn.Module):
    def forward(self, x):
        return disabled_fixed(chosen_fixed(scaled_fixed(printed_fixed(x))))


model = Broken()
inputs = (torch.randn(64, 256),)
