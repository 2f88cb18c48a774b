"""Small models, each with a regression that a flag turns on."""

from __future__ import annotations

from typing import Any

import torch


class Encoder(torch.nn.Module):
    """Prints if it has the regression, which breaks the graph."""

    def __init__(self, *, regressed: bool = False) -> None:
        super().__init__()
        self.regressed = regressed
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        if self.regressed:
            torch._dynamo.graph_break()
        return torch.relu(x)


class Denoiser(torch.nn.Module):
    """Counts its steps as a Python number if it has the regression, which recompiles."""

    def __init__(self, *, regressed: bool = False) -> None:
        super().__init__()
        self.regressed = regressed
        self.step = 0.5

    def forward(self, sample: torch.Tensor) -> torch.Tensor:
        if self.regressed:
            self.step += 1.5
        return sample * self.step


class Tabular(torch.nn.Module):
    """Loops over its rows if it has the regression, which compiles each size anew."""

    def __init__(self, *, regressed: bool = False) -> None:
        super().__init__()
        self.regressed = regressed

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        for _ in range(rows.shape[0] if self.regressed else 0):
            rows = rows + 1
        return rows.softmax(0)


class Layers(torch.nn.Module):
    """Runs equal layers, which share one graph unless one of them differs."""

    def __init__(self, *, regressed: bool = False) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Encoder() for _ in range(3))
        self.regressed = regressed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
            if self.regressed:
                torch._dynamo.graph_break()
        return x


def attention(x: torch.Tensor) -> torch.Tensor:
    """Return the attention, which stays out of the graphs."""
    return x.softmax(-1)


class Decoder(torch.nn.Module):
    """Calls attention between its layers: one graph more than calls."""

    def __init__(self, *, regressed: bool = False) -> None:
        super().__init__()
        self.regressed = regressed
        self.attend: Any = torch.compiler.disable(attention)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.attend(x + 1)
        x = self.attend(x + 2)
        if self.regressed:
            x = self.attend(x + 3)
        return x * 2
