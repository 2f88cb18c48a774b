"""The app in a real terminal, on a model file that tests edit."""

from __future__ import annotations

import getpass
import os
import sys
import tempfile
from pathlib import Path

from tests.terminal import Terminal

BREAKS = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        print("in forward")
        return torch.relu(x) * 1.5


model = Model()
inputs = (torch.randn(8, 8),)
"""
RESTORED = b"\x1b[?1049l"
"""The sequence that leaves the alternate screen."""


def write_model(folder: Path) -> Path:
    file = folder / "model.py"
    file.write_text(BREAKS)
    return file


def open_app(model: Path) -> Terminal:
    """Return the app in a terminal, with a temporary folder that shows leftover files."""
    command = [sys.executable, "-m", "tcexplore", model.name]
    scratch = model.parent / "scratch"
    scratch.mkdir()
    # The compile caches are shared with the other tests.
    caches = os.environ.get("TORCHINDUCTOR_CACHE_DIR", f"{tempfile.gettempdir()}/torchinductor_{getpass.getuser()}")
    env = {"TMPDIR": str(scratch), "TORCHINDUCTOR_CACHE_DIR": caches}
    # Torch keeps precompiled headers, which take seconds, below the temporary folder.
    headers = Path(tempfile.gettempdir(), f"torchinductor_{getpass.getuser()}")
    headers.mkdir(exist_ok=True)
    (scratch / headers.name).symlink_to(headers)
    return Terminal(command, columns=160, rows=50, cwd=str(model.parent), env=env)


def save(file: Path, text: str) -> None:
    new = file.with_suffix(".tmp")
    new.write_text(text)
    os.replace(new, file)
