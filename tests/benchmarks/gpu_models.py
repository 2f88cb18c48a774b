"""Models for GPU figures: long-running ones, ones with a known memory peak, and a launch-bound one."""

from __future__ import annotations

_HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n\n"


def _module(body: str, inputs: str, init: str = "pass", dtype: str = "torch.float32") -> str:
    """Return a model file with a module whose forward is `body`, which uses `x` and `self`."""
    return (
        f"{_HEAD}\nclass Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n\n"
        f"    def forward(self, x):\n        {body}\n\n\nmodel = Model().to({dtype}).eval()\ninputs = ({inputs},)\n"
    )


_HALF = "torch.bfloat16"

TIMED = {
    "pointwise": _module("return (x.sin() * 2 + x.cos()).tanh()", "torch.randn(64, 1 << 20)"),
    "norm_gelu_scale": _module(
        "return F.gelu(self.n(x)) * 1.5 + 0.5", "torch.randn(16384, 4096)", "self.n = nn.LayerNorm(4096)"
    ),
    "softmax_entropy": _module("p = x.softmax(-1); return -(p * (p + 1e-9).log()).sum(-1)", "torch.randn(16384, 4096)"),
    "rms_norm": _module(
        "return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.w",
        "torch.randn(16384, 4096)",
        "self.w = nn.Parameter(torch.ones(4096))",
    ),
    "gemm": _module(
        "return self.a(x)", "torch.randn(8192, 8192, dtype=torch.bfloat16)",
        "self.a = nn.Linear(8192, 8192, bias=False)", _HALF,
    ),
    "mlp": _module(
        "return self.b(F.gelu(self.a(x)))", "torch.randn(16384, 2048, dtype=torch.bfloat16)",
        "self.a = nn.Linear(2048, 8192); self.b = nn.Linear(8192, 2048)", _HALF,
    ),
    "swiglu": _module(
        "return self.c(F.silu(self.a(x)) * self.b(x))", "torch.randn(16384, 2048, dtype=torch.bfloat16)",
        "self.a = nn.Linear(2048, 5632, bias=False); self.b = nn.Linear(2048, 5632, bias=False); "
        "self.c = nn.Linear(5632, 2048, bias=False)", _HALF,
    ),
    "conv_bn_relu": _module(
        "return F.relu(self.n(self.c(x)))", "torch.randn(64, 64, 112, 112)",
        "self.c = nn.Conv2d(64, 64, 3, padding=1); self.n = nn.BatchNorm2d(64)",
    ),
    "transformer_block": _module(
        "return self.t(x)", "torch.randn(32, 1024, 1024, dtype=torch.bfloat16)",
        "self.t = nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True, norm_first=True)", _HALF,
    ),
    "attention_by_hand": _module(
        "s = x @ x.transpose(-1, -2) / 8; return (s + s.tril()).softmax(-1) @ x",
        "torch.randn(64, 1024, 64, dtype=torch.bfloat16)", dtype=_HALF,
    ),
}  # fmt: skip
"""Ten models that run for at least a few hundred microseconds."""

LAUNCH_BOUND = _module(
    "return self.layers(x)", "torch.randn(8, 64)",
    "self.layers = nn.Sequential(*[m for _ in range(24) for m in (nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64))])",
)  # fmt: skip
"""Seventy-two modules with very little work each."""

_BUFFER = 1 << 26
"""Bytes of `torch.randn(16, 1 << 20)`."""

_POINTWISE = _module("return x.sin().cos() + 1", "torch.randn(16, 1 << 20)")

_PRODUCT = _module("return F.relu(self.a(x))", "torch.randn(8192, 4096)", "self.a = nn.Linear(4096, 4096, bias=False)")

_TRAINED = _module(
    "return (x * self.w).exp().sum()", "torch.randn(16, 1 << 20)", "self.w = nn.Parameter(torch.zeros(16, 1 << 20))"
)

PEAKS: dict[str, tuple[str, tuple[str, ...], int, int]] = {
    # Eager: `cos` and the sum after it are alive at the same time. Compiled: one kernel, its output.
    "pointwise": (_POINTWISE, (), 2 * _BUFFER, _BUFFER),
    # Eager: the product and its relu. Compiled: the relu overwrites the product.
    "product": (_PRODUCT, (), 2 * 8192 * 4096 * 4, 8192 * 4096 * 4),
    # Eager: `exp` is saved for the backward, next to the product or its gradient. Compiled: only the gradient of `w`;
    # the backward recomputes the rest from the inputs.
    "training": (_TRAINED, ("--train",), 2 * _BUFFER, _BUFFER),
    # Compiled: the CUDA graph keeps a copy of the input and the output.
    "replayed": (_POINTWISE, ("--mode", "reduce-overhead"), 2 * _BUFFER, 2 * _BUFFER),
}
"""Source, options, and the peak bytes of a call, eager and compiled, counted by hand."""

_LAYER = "self.t = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)"

LAUNCH_BOUND_MODELS = {
    "24 small layers": LAUNCH_BOUND,
    "small transformer": _module("return self.t(self.t(self.t(x)))", "torch.randn(2, 16, 64)", _LAYER),
    "small convolutions": _module(
        "return self.layers(x)", "torch.randn(1, 8, 16, 16)",
        "self.layers = nn.Sequential(*[m for _ in range(16) for m in (nn.Conv2d(8, 8, 3, padding=1), nn.ReLU())])",
    ),
    "recurrence": _module(
        "h = x[0]\n        for t in x:\n            h = torch.tanh(self.a(t) + self.b(h))\n        return h",
        "torch.randn(16, 4, 64)", "self.a = nn.Linear(64, 64); self.b = nn.Linear(64, 64)",
    ),
    "bfloat16 mlp": _module(
        "return self.layers(x)", "torch.randn(4, 128, dtype=torch.bfloat16)",
        "self.layers = nn.Sequential(*[m for _ in range(20) for m in (nn.Linear(128, 128), nn.SiLU())])", _HALF,
    ),
}  # fmt: skip
"""Five models whose kernels take a small share of a call."""

DEVICE_BOUND = ("norm_gelu_scale", "softmax_entropy", "mlp", "conv_bn_relu", "transformer_block")
"""Five of the timed models."""


def _function(body: str, inputs: str, before: str = "") -> str:
    return f"{_HEAD}{before}\n\ndef model(x, w):\n    return {body}\n\n\ninputs = ({inputs})\n"


def _product(dtype: str, *, body: str = "x @ w", before: str = "", n: int = 4096) -> str:
    one = f"torch.randn({n}, {n}, dtype=torch.{dtype})"
    return _function(body, f"{one}, {one}", before)


ARITHMETIC = {
    "float32 product": (_product("float32"), "fp32"),
    "float32 product, TF32 allowed": (_product("float32", before="torch.set_float32_matmul_precision('high')"), "tf32"),
    "float32 convolution": (
        _function("F.conv2d(x, w, padding=1)", "torch.randn(64, 64, 112, 112), torch.randn(64, 64, 3, 3)"), "tf32",
    ),
    "float32 convolution, no TF32": (
        _function(
            "F.conv2d(x, w, padding=1)", "torch.randn(64, 64, 112, 112), torch.randn(64, 64, 3, 3)",
            "torch.backends.cudnn.allow_tf32 = False",
        ), "fp32",
    ),
    "bfloat16 product": (_product("bfloat16", n=8192), "bf16"),
    "float16 product": (_product("float16"), "bf16"),
    "float64 product": (_product("float64", n=2048), "fp64_matrix"),
    "float8 product": (
        _function(
            "torch._scaled_mm(x, w.t(), torch.ones((), device=x.device), torch.ones((), device=x.device), "
            "out_dtype=torch.bfloat16)",
            "torch.randn(4096, 4096).to(torch.float8_e4m3fn), torch.randn(4096, 4096).to(torch.float8_e4m3fn)",
        ), "fp8",
    ),
    "complex64 product": (_product("complex64", n=2048), None),
    "bfloat16 attention, causal": (
        _function(
            "F.scaled_dot_product_attention(x, w, w, is_causal=True)",
            "torch.randn(8, 16, 2048, 64, dtype=torch.bfloat16), torch.randn(8, 16, 2048, 64, dtype=torch.bfloat16)",
        ), None,
    ),
}  # fmt: skip
"""Ten models of every dtype, with the arithmetic of their product on an H200; None if no peak applies."""
