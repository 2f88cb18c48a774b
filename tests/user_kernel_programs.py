"""Programs with kernels and ops of the user's own. They use the GPU if there is one."""

TRITON = """\
import torch, triton
import triton.language as tl

@triton.jit
def double(x):
    return x * 2

@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, double(x), mask=offsets < n)

@triton.jit
def sine_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.sin(tl.load(x_ptr + offsets, mask=offsets < n)), mask=offsets < n)

@torch.library.triton_op("user_kernels::sine", mutates_args={})
def sine(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    torch.library.wrap_triton(sine_kernel)[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out

def model(x):
    assert x.is_cuda
    out = torch.empty_like(x)
    double_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    assert torch.compiler.is_compiling() or torch.equal(out, x * 2)
    return sine(out) + 1

inputs = (torch.arange(100.0, device="cuda" if torch.cuda.is_available() else "cpu"),)
"""

CUSTOM = """\
import torch

@torch.library.custom_op("user_kernels::halve", mutates_args=())
def halve(x: torch.Tensor) -> torch.Tensor:
    return x / 2

@halve.register_fake
def _(x):
    return torch.empty_like(x)

def model(x):
    return halve(x.relu()) + 1

inputs = (torch.randn(8, device="cuda" if torch.cuda.is_available() else "cpu"),)
"""

FLEX = """\
import torch
from torch.nn.attention.flex_attention import flex_attention

def score(s, b, h, q, k):
    return s + (q - k) * 0.1

def model(q, k, v):
    return flex_attention(q * 2, k, v, score_mod=score) + 1

device = "cuda" if torch.cuda.is_available() else "cpu"
inputs = tuple(torch.randn(1, 2, 128, 16, device=device) for _ in range(3))
"""

STALE = """\
import torch

@torch.library.custom_op("user_kernels::pooled", mutates_args=())
def pooled(x: torch.Tensor) -> torch.Tensor:
    return x.double().mean(-1)

@pooled.register_fake
def _(x):
    return x.new_empty(x.shape[:-1])

@torch.library.custom_op("user_kernels::kept", mutates_args=())
def kept(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]

@kept.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())

def model(x):
    return pooled(x.relu()) + 1, kept(x)

inputs = (torch.randn(8, 16, device="cuda" if torch.cuda.is_available() else "cpu"),)
"""
