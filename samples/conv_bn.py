"""Convolution, batch normalization, ReLU, twice.

Look at: each convolution is an extern kernel; batch normalization and ReLU share the generated kernel behind it. On a
CPU another kernel may stand before the first convolution: it brings the input into the layout that this one wants.
Edit: delete `.eval()`. In training mode the normalization has to compute its mean and variance over the batch, so its
kernel grows a reduction, and writes the running statistics too.
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
