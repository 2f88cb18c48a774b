"""Do the times of the modules of real models add up to the measured call?

Runs `tcexplore check --json` on small `transformers` models with random weights, and on a U-Net of plain torch. The
share of a call is that of all modules, the outermost one included: each kernel, with the host's time before its
launches. Guards, and the host's work before and after the graphs, are no module's and are printed apart. Guards of a
call with many small modules may take a fifth of it, so the share is also printed with their row.

Run: python -m tests.benchmarks.module_sums [NAME…] [--time-for 4]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

OF_MODULES = ("the model itself",)
"""Rest that is in the outermost module."""

TOLERANCE = 0.1

_HEAD = "import torch, transformers\nfrom transformers import *\ntorch.manual_seed(0)\n"
_TEXT = "vocab_size=128, hidden_size=64, intermediate_size=128, num_attention_heads=4"
_IDS = "inputs = [{'input_ids': torch.randint(0, 128, (2, 16)), 'use_cache': False}]\n"
_IMAGE = "inputs = (torch.randn(1, 3, 32, 32),)\n"


def _text(config: str, model: str, more: str = "", inputs: str = _IDS) -> str:
    return f"{_HEAD}model = {model}({config}({_TEXT}, {more})).eval()\n{inputs}"


MODELS: dict[str, str] = {
    "llama, 32 layers": _text("LlamaConfig", "LlamaForCausalLM", "num_hidden_layers=32, num_key_value_heads=2"),
    "gpt2": f"{_HEAD}model = GPT2LMHeadModel(GPT2Config(n_layer=6, n_embd=64, n_head=4, n_positions=64,"
    f" vocab_size=128)).eval()\n{_IDS}",
    "bert": _text("BertConfig", "BertModel", "num_hidden_layers=6", _IDS.replace(", 'use_cache': False", "")),
    "qwen2": _text("Qwen2Config", "Qwen2ForCausalLM", "num_hidden_layers=8, num_key_value_heads=2"),
    "mistral, larger": _text("MistralConfig", "MistralForCausalLM", "num_hidden_layers=6, num_key_value_heads=2")
    .replace("hidden_size=64", "hidden_size=512")
    .replace("intermediate_size=128", "intermediate_size=1024")
    .replace("(2, 16)", "(2, 64)"),
    "gemma": _text("GemmaConfig", "GemmaForCausalLM", "num_hidden_layers=6, num_key_value_heads=2, head_dim=16"),
    "t5": f"{_HEAD}model = T5Model(T5Config(num_layers=4, d_model=64, num_heads=4, d_kv=16, d_ff=128,"
    " vocab_size=128)).eval()\nids = torch.randint(0, 128, (2, 16))\n"
    "inputs = [{'input_ids': ids, 'decoder_input_ids': ids, 'use_cache': False}]\n",
    "vit": f"{_HEAD}model = ViTModel(ViTConfig(hidden_size=64, intermediate_size=128, num_attention_heads=4,"
    f" num_hidden_layers=6, image_size=32, patch_size=8)).eval()\n{_IMAGE}",
    "resnet": f"{_HEAD}model = ResNetModel(ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 64, 64],"
    f" depths=[1, 2, 2, 1], layer_type='basic')).eval()\n{_IMAGE}",
    "convnext": f"{_HEAD}model = ConvNextModel(ConvNextConfig(hidden_sizes=[16, 32, 64, 64], depths=[1, 1, 2, 1]))"
    f".eval()\n{_IMAGE}",
    "clip": f"{_HEAD}model = CLIPModel(CLIPConfig(text_config=dict({_TEXT}, num_hidden_layers=3,"
    f" max_position_embeddings=32), vision_config=dict(hidden_size=64, intermediate_size=128, num_attention_heads=4,"
    " num_hidden_layers=3, image_size=32, patch_size=8))).eval()\n"
    "inputs = [{'input_ids': torch.randint(0, 120, (2, 16)), 'pixel_values': torch.randn(2, 3, 32, 32)}]\n",
    "u-net": """
import torch
import torch.nn.functional as F
from torch import nn
torch.manual_seed(0)
class Res(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, before), nn.Conv2d(before, after, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(4, after), nn.Conv2d(after, after, 3, padding=1)
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()
    def forward(self, x):
        return self.skip(x) + self.conv2(F.silu(self.norm2(self.conv1(F.silu(self.norm1(x))))))
class UNet(nn.Module):
    def __init__(self, widths=(16, 32, 64)):
        super().__init__()
        self.first = nn.Conv2d(3, widths[0], 3, padding=1)
        self.down = nn.ModuleList(Res(a, b) for a, b in zip(widths, widths[1:]))
        self.middle = Res(widths[-1], widths[-1])
        self.up = nn.ModuleList(Res(2 * b, a) for a, b in reversed(list(zip(widths, widths[1:]))))
        self.last = nn.Conv2d(widths[0], 3, 1)
    def forward(self, x):
        x, kept = self.first(x), []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.middle(x)
        for block in self.up:
            x = F.interpolate(x, scale_factor=2.0)
            x = block(torch.cat([x, kept.pop()], 1))
        return self.last(x)
model = UNet().eval()
inputs = (torch.randn(1, 3, 32, 32),)
""",
}


class Sums(NamedTuple):
    """Microseconds of one call of a model."""

    call: float
    modules: float
    rest: dict[str, float]

    @property
    def ratio(self) -> float:
        return self.modules / self.call

    @property
    def with_guards(self) -> float:
        return (self.modules + self.rest.get("guards", 0.0)) / self.call

    def __str__(self) -> str:
        rest = ", ".join(f"{name} {us / self.call:.1%}" for name, us in self.rest.items())
        return f"{self.ratio:5.2f}, with guards {self.with_guards:5.2f} of {self.call / 1e3:7.2f} ms   {rest}"


def sums(report: dict[str, Any], side: str) -> Sums | None:
    """Return the sums of one side of a report; None if it has no times."""
    rows, key = report["modules"], f"{side}_us"
    if not rows or rows[0][key] is None:
        return None
    rest = {part["name"]: part[key] for part in report["modules_rest"] if part[key]}
    inside = sum(row[key] or 0.0 for row in rows if row["depth"] == 1)
    inside += sum(rest.pop(name, 0.0) for name in OF_MODULES)
    return Sums(rows[0][key], inside, rest)


def report_of(source: str, seconds: float) -> dict[str, Any]:
    """Return the JSON report of a model file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.py")
        file.write_text(source)
        command = [sys.executable, "-m", "tcexplore", "check", str(file), "--json", "--time-for", str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(done.stderr)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def main(names: Sequence[str], seconds: float) -> None:
    within: dict[str, list[tuple[bool, bool]]] = {"eager": [], "compiled": []}
    for name in names or MODELS:
        report = report_of(MODELS[name], seconds)
        if report["error"]:
            print(f"{name:18} {report['error']['message']}", flush=True)
        for side, known in within.items():
            if (of_side := sums(report, side)) is not None:
                known.append((abs(of_side.ratio - 1) <= TOLERANCE, abs(of_side.with_guards - 1) <= TOLERANCE))
                print(f"{name:18} {side:9}{of_side}", flush=True)
    for side, known in within.items():
        alone, together = (sum(each) for each in zip(*known, strict=True)) if known else (0, 0)
        print(
            f"{side}: of {len(known)} models, the modules of {alone} add up to the call within {TOLERANCE:.0%}, "
            f"with the row of the guards those of {together}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *MODELS], default=[])
    parser.add_argument("--time-for", type=float, default=4.0, metavar="S", help="seconds of timing")
    given = parser.parse_args()
    main(given.names, given.time_for)
