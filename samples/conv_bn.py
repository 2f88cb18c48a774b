"""Convolution, batch normalization and ReLU, twice.

Look at: each convolution is an extern kernel, and batch normalization and ReLU share the generated kernel after it.
On a CPU, another kernel may come before the first convolution: it converts the input to the layout that the
convolution wants.
Edit: delete `.eval()`. In training mode the normalization computes mean and variance over the batch, so its kernel
gets a reduction and also writes the running statistics.
"""

import torch
from torch import nn


class ConvBlock(nn.Module):
    def __init__(self, channels_in: int, channels_out: int):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels_out)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


model = nn.Sequential(ConvBlock(3, 16), ConvBlock(16, 32)).eval()
inputs = (torch.randn(4, 3, 32, 32),)
