"""Models of the provenance benchmark: every sample, and small `transformers` architectures with random weights."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

SAMPLES = Path(__file__).parents[2] / "samples"
_SMALL = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
_TEXT = {**_SMALL, "vocab_size": 128, "max_position_embeddings": 64}
_SPARSE = {**_TEXT, "num_key_value_heads": 2}
ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("AutoModelForCausalLM", {"n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 64, "vocab_size": 128}),
    "llama": ("AutoModelForCausalLM", {**_TEXT, "num_key_value_heads": 2}),
    "bert": ("AutoModel", _TEXT),
    "qwen2": ("AutoModelForCausalLM", {**_TEXT, "num_key_value_heads": 2}),
    "vit": ("AutoModel", {**_SMALL, "image_size": 32, "patch_size": 8}),
    "mixtral": ("AutoModelForCausalLM", {**_SPARSE, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "t5": ("AutoModel", {"num_layers": 2, "d_model": 64, "num_heads": 4, "d_kv": 16, "d_ff": 128, "vocab_size": 128}),
}


class Model(NamedTuple):
    """A model file and a function that makes the module and its positional inputs."""

    name: str
    file: str
    make: Callable[[], tuple[Any, tuple[Any, ...]]]


def models() -> Iterator[Model]:
    """Yield all models."""
    for path in sorted(SAMPLES.glob("*.py")):
        module = _imported(path)
        if hasattr(module, "model") and hasattr(module, "inputs"):
            yield Model(path.stem, str(path), partial(_first_call, module))
    for name in ARCHITECTURES:
        yield Model(name, __file__, partial(_transformer, name))


def _imported(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"sample_{path.stem}", path)
    assert spec is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _first_call(module: Any) -> tuple[Any, tuple[Any, ...]]:
    calls = module.inputs() if callable(module.inputs) else module.inputs
    call = calls[0] if isinstance(calls, list) else calls
    if isinstance(call, dict):
        return lambda: module.model(**call), ()
    return module.model, tuple(call)


class _OutputOf(torch.nn.Module):
    """A user-defined module that calls a library architecture."""

    def __init__(self, name: str, inner: torch.nn.Module) -> None:
        super().__init__()
        self.name = name
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.name == "t5":
            return self.inner(input_ids=x, decoder_input_ids=x).last_hidden_state
        return self.inner(x, use_cache=False)[0] if self.name != "vit" else self.inner(x)[0]


def _transformer(name: str) -> tuple[Any, tuple[Any, ...]]:
    import transformers

    auto, settings = ARCHITECTURES[name]
    config = transformers.AutoConfig.for_model(name, **settings)
    module = getattr(transformers, auto).from_config(config).eval()
    inputs = torch.randn(2, 3, 32, 32) if name == "vit" else torch.randint(0, 128, (2, 16))
    return _OutputOf(name, module), (inputs,)
