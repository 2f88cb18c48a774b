"""Model files for the benchmarks of timing and phases: samples, simple networks, and small transformers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SAMPLES = Path(__file__).parents[2] / "samples"

MLP = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 256), nn.Softmax(-1)).eval()
inputs = (torch.randn({batch}, 256),)
"""

CONV = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.SiLU(), nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16),
    nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
).eval()
inputs = (torch.randn(4, 3, 64, 64),)
"""

POINTWISE = """
import torch


def model(x, y):
    return ((x.sigmoid() * y + x.tanh()).relu() - y.square()).mean(-1)


torch.manual_seed(0)
inputs = (torch.randn(256, 1024), torch.randn(256, 1024))
"""

TRANSFORMER = """
import torch
import transformers


class Wrapper(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x, use_cache=False)[0]


torch.manual_seed(0)
config = transformers.AutoConfig.for_model("{name}", **{settings})
model = Wrapper(transformers.{auto}.from_config(config)).eval()
inputs = (torch.randint(0, 128, (2, 32)),)
"""

_TEXT = {"vocab_size": 128, "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
         "intermediate_size": 128, "max_position_embeddings": 64}  # fmt: skip
_GPT2 = {"n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 64, "vocab_size": 128}


class Model(NamedTuple):
    """A name and the text of the model file."""

    name: str
    source: str


def transformers() -> Iterator[Model]:
    """Yield three architectures of the transformers library."""
    for name, auto, settings in (
        ("gpt2", "AutoModelForCausalLM", _GPT2),
        ("llama", "AutoModelForCausalLM", {**_TEXT, "num_key_value_heads": 2}),
        ("bert", "AutoModel", _TEXT),
    ):
        yield Model(name, TRANSFORMER.format(name=name, auto=auto, settings=settings))


def sample(name: str) -> Model:
    return Model(name, (SAMPLES / f"{name}.py").read_text())


def samples() -> Iterator[Model]:
    """Yield every sample."""
    yield from (sample(path.stem) for path in sorted(SAMPLES.glob("*.py")))


def ten() -> Iterator[Model]:
    """Yield ten models of all kinds, whose calls take from tens of microseconds to milliseconds."""
    yield from map(sample, ("fusion", "entropy", "conv_bn", "transformer_block"))
    yield Model("MLP, batch 8", MLP.format(batch=8))
    yield Model("MLP, batch 256", MLP.format(batch=256))
    yield Model("conv", CONV)
    yield Model("pointwise", POINTWISE)
    yield from (model for model in transformers() if model.name != "bert")
