"""Models whose generated GPU code is compared with a real GPU's: small ones per kind of kernel, and transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

ModelAndInputs = tuple[Any, tuple[Any, ...]]


class Wrap(nn.Module):
    """A module that calls a function with some modules as arguments."""

    def __init__(self, function: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def mlp() -> ModelAndInputs:
    return nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 512)), (torch.randn(64, 512),)


def norm_gelu() -> ModelAndInputs:
    return Wrap(lambda m, x: F.gelu(m.norm(x)) * 1.2 + 0.1, norm=nn.LayerNorm(512)), (torch.randn(64, 128, 512),)


def entropy() -> ModelAndInputs:
    def function(_: Any, x: torch.Tensor) -> torch.Tensor:
        p = torch.softmax(x, -1)
        return -(p * torch.log(p + 1e-9)).sum(-1)

    return Wrap(function), (torch.randn(512, 2048, requires_grad=True),)


def swiglu() -> ModelAndInputs:
    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        h = m.norm(x)
        return x + m.down(F.silu(m.gate(h)) * m.up(h))

    parts = {
        "norm": nn.RMSNorm(256),
        "gate": nn.Linear(256, 512),
        "up": nn.Linear(256, 512),
        "down": nn.Linear(512, 256),
    }
    return Wrap(function, **parts), (torch.randn(8, 64, 256),)


def hand_attention() -> ModelAndInputs:
    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.view(4, 128, 8, 64).transpose(1, 2) for t in m.qkv(x).chunk(3, -1))
        mask = torch.ones(128, 128, device=x.device, dtype=torch.bool).tril()
        scores = (q @ k.transpose(-2, -1) / 8.0).masked_fill(~mask, float("-inf"))
        return m.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(4, 128, 512))

    return Wrap(function, qkv=nn.Linear(512, 1536), out=nn.Linear(512, 512)), (torch.randn(4, 128, 512),)


def _sdpa(dtype: torch.dtype, masked: bool, causal: bool, dropout: float = 0.0) -> ModelAndInputs:
    def function(m: Any, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.view(4, 100, 8, 64).transpose(1, 2) for t in m.qkv(m.norm(x)).chunk(3, -1))
        mask = keep[:, None, None, :] & torch.ones(100, 100, device=x.device, dtype=torch.bool) if masked else None
        p = dropout if m.training else 0.0
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, dropout_p=p)
        return x + m.out(a.transpose(1, 2).reshape(4, 100, 512))

    parts = {"norm": nn.LayerNorm(512), "qkv": nn.Linear(512, 1536), "out": nn.Linear(512, 512)}
    return Wrap(function, **parts).to(dtype), (torch.randn(4, 100, 512, dtype=dtype), torch.ones(4, 100).bool())


def gqa_bf16() -> ModelAndInputs:
    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        q = m.q(x).view(2, 128, 8, 64).transpose(1, 2)
        k, v = (t.view(2, 128, 2, 64).transpose(1, 2) for t in m.kv(x).chunk(2, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return m.out(a.transpose(1, 2).reshape(2, 128, 512))

    parts = {"q": nn.Linear(512, 512), "kv": nn.Linear(512, 256), "out": nn.Linear(512, 512)}
    return Wrap(function, **parts).bfloat16(), (torch.randn(2, 128, 512, dtype=torch.bfloat16),)


def conv_bn() -> ModelAndInputs:
    layers = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, stride=2), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    return layers, (torch.randn(8, 3, 64, 64),)


def group_norm() -> ModelAndInputs:
    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x + m.conv(F.silu(m.norm(x))), scale_factor=2.0, mode="nearest")

    return Wrap(function, norm=nn.GroupNorm(8, 64), conv=nn.Conv2d(64, 64, 3, padding=1)), (torch.randn(4, 64, 32, 32),)


def conv1d() -> ModelAndInputs:
    layers = nn.Sequential(nn.Conv1d(80, 128, 3, padding=1), nn.GELU(), nn.Conv1d(128, 128, 3, stride=2, padding=1))
    return layers, (torch.randn(4, 80, 300),)


def dropout_mlp() -> ModelAndInputs:
    layers = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Dropout(0.3), nn.LayerNorm(512), nn.Linear(512, 100))
    return layers, (torch.randn(128, 256),)


def encoder_layer() -> ModelAndInputs:
    return nn.TransformerEncoderLayer(256, 4, 512, batch_first=True), (torch.randn(4, 60, 256),)


def multihead() -> ModelAndInputs:
    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        return m.attention(x, x, x, need_weights=True)[0]

    return Wrap(function, attention=nn.MultiheadAttention(256, 4, batch_first=True)), (torch.randn(4, 60, 256),)


def language_model() -> ModelAndInputs:
    def function(m: Any, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        h = m.block(m.embed(tokens) + m.place(torch.arange(tokens.size(1), device=tokens.device)))
        return F.cross_entropy(m.head(h).flatten(0, 1), labels.flatten())

    block = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True, norm_first=True)
    parts = {
        "embed": nn.Embedding(1000, 128),
        "place": nn.Embedding(64, 128),
        "block": block,
        "head": nn.Linear(128, 1000),
    }
    return Wrap(function, **parts), (torch.randint(1000, (4, 64)), torch.randint(1000, (4, 64)))


def autocast() -> ModelAndInputs:
    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            return F.softmax(m.b(F.gelu(m.a(x))), -1)

    return Wrap(function, a=nn.Linear(256, 512), b=nn.Linear(512, 256)), (torch.randn(64, 256),)


def gather_scatter() -> ModelAndInputs:
    def function(m: Any, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(100, 64, device=x.device, dtype=x.dtype)
        return out.index_add(0, index, m.lift(x)).cumsum(0) + x[index % 50].amax(0)

    return Wrap(function, lift=nn.Linear(64, 64)), (torch.randn(500, 64), torch.randint(100, (500,)))


def top_k() -> ModelAndInputs:
    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = torch.topk(m.router(x).softmax(-1), 2)
        return (F.one_hot(chosen, 8).to(x.dtype) * weights[..., None]).sum(-2)

    return Wrap(function, router=nn.Linear(64, 8)), (torch.randn(200, 64),)


def bmm() -> ModelAndInputs:
    def function(_: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.bmm(a, b).relu() + torch.einsum("bij,bjk->bik", a, b)

    return Wrap(function), (torch.randn(16, 32, 48, requires_grad=True), torch.randn(16, 48, 24, requires_grad=True))


def reductions() -> ModelAndInputs:
    def function(_: Any, x: torch.Tensor) -> torch.Tensor:
        y = (x - x.mean(0)) / (x.std(0) + 1e-5)
        return y.logsumexp(1) + y.amax(1) + y.norm(dim=1) + y.prod(1) + x.var(1)

    return Wrap(function), (torch.randn(1000, 300, requires_grad=True),)


SMALL: dict[str, Callable[[], ModelAndInputs]] = {
    "mlp": mlp,
    "norm_gelu": norm_gelu,
    "entropy": entropy,
    "swiglu": swiglu,
    "hand_attention": hand_attention,
    "sdpa_causal": lambda: _sdpa(torch.float32, masked=False, causal=True),
    "sdpa_mask": lambda: _sdpa(torch.float32, masked=True, causal=False),
    "sdpa_dropout": lambda: _sdpa(torch.float32, masked=False, causal=False, dropout=0.1),
    "sdpa_bf16": lambda: _sdpa(torch.bfloat16, masked=False, causal=True),
    "sdpa_mask_bf16": lambda: _sdpa(torch.bfloat16, masked=True, causal=False),
    "gqa_bf16": gqa_bf16,
    "conv_bn": conv_bn,
    "group_norm": group_norm,
    "conv1d": conv1d,
    "dropout_mlp": dropout_mlp,
    "encoder_layer": encoder_layer,
    "multihead": multihead,
    "language_model": language_model,
    "autocast": autocast,
    "gather_scatter": gather_scatter,
    "top_k": top_k,
    "bmm": bmm,
    "reductions": reductions,
}


def _tokens() -> tuple[torch.Tensor]:
    return (torch.randint(1000, (2, 64)),)


_TEXT = {"vocab_size": 1000, "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
_DECODER = {**_TEXT, "intermediate_size": 256, "num_key_value_heads": 2, "use_cache": False}


def _transformers(
    model: str, config: str, options: dict[str, Any], inputs: Callable[[], Any], dtype: Any = None
) -> Any:
    def make() -> ModelAndInputs:
        import transformers

        made = getattr(transformers, model)(getattr(transformers, config)(**options))
        return made.to(dtype or torch.float32), inputs()

    return make


_GPT2 = {"vocab_size": 1000, "n_embd": 128, "n_layer": 2, "n_head": 4, "use_cache": False}
_MOE = {
    **_DECODER,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 64,
}
_T5 = {"vocab_size": 1000, "d_model": 128, "d_kv": 32, "d_ff": 256, "num_layers": 2, "num_heads": 4, "use_cache": False}
_VIT = {k: v for k, v in _TEXT.items() if k != "vocab_size"} | {
    "intermediate_size": 256,
    "image_size": 64,
    "patch_size": 16,
}

TRANSFORMERS: dict[str, Callable[[], ModelAndInputs]] = {
    "gpt2": _transformers("GPT2LMHeadModel", "GPT2Config", _GPT2, _tokens),
    "llama": _transformers("LlamaForCausalLM", "LlamaConfig", _DECODER, _tokens),
    "llama_bf16": _transformers("LlamaForCausalLM", "LlamaConfig", _DECODER, _tokens, torch.bfloat16),
    "bert": _transformers("BertForMaskedLM", "BertConfig", {**_TEXT, "intermediate_size": 256}, _tokens),
    "qwen2_moe": _transformers("Qwen2MoeForCausalLM", "Qwen2MoeConfig", _MOE, _tokens),
    "t5": _transformers("T5EncoderModel", "T5Config", _T5, _tokens),
    "vit": _transformers("ViTModel", "ViTConfig", _VIT, lambda: (torch.randn(2, 3, 64, 64),)),
    "gemma2": _transformers("Gemma2ForCausalLM", "Gemma2Config", {**_DECODER, "head_dim": 32}, _tokens),
}

MODELS = {**SMALL, **TRANSFORMERS}
