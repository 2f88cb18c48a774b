"""Small modules as Inductor's code generators write them, with one kernel in each language.

What surrounds the kernels is in the form of torch 2.15: `async_compile.NAME(name, r'''…''')` of `codegen/cutedsl`,
`codegen/flydsl`, `codegen/pallas.py`, `codegen/mps.py`, `codegen/halide.py` and others; `compile_mps_shader` is that of
torch 2.11. The kernels themselves are short.
"""

from __future__ import annotations

from typing import NamedTuple


class Module(NamedTuple):
    """The kernel of a module."""

    name: str
    compile: str
    """What precedes its text."""
    body: str
    call: str
    close: str = "''')"


_CUTE = """import cutlass.cute as cute
@cute.kernel
def {name}_kernel(x: cute.Tensor, y: cute.Tensor):
    tid, _, _ = cute.arch.thread_idx()
    y[tid] = cute.max(x[tid], 0.0) + 1.0
def {name}_main(x, y, stream):
    {name}_kernel(x, y).launch(grid=(1, 1, 1), block=(256, 1, 1))
"""
_FLY = """import flydsl.compiler as flyc
@flyc.kernel
def {name}_kernel(x: flyc.Tensor, y: flyc.Tensor):
    y[flyc.tid()] = flyc.max(x[flyc.tid()], 0.0) + 1.0
"""
_METAL = """    #include <c10/metal/utils.h>
    kernel void {kernel}(
        device float* out_ptr0,
        constant float* in_ptr0,
        uint xindex [[thread_position_in_grid]]
    ) {{
        auto tmp0 = in_ptr0[xindex];
        out_ptr0[xindex] = static_cast<float>(metal::max(tmp0, 0.0f) + 1.0f);
    }}
"""
_PALLAS = """import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
def {name}_kernel(in_ptr0, out_ptr0):
    out_ptr0[...] = jnp.maximum(in_ptr0[...], 0) + 1
"""
_HALIDE = """import halide as hl
@hl.generator(name="kernel")
class Kernel:
    in_ptr0 = hl.InputBuffer(hl.Float(32), 1)
"""
_CUDA = """#include <cuda_runtime.h>
extern "C" __global__ void {name}(const float* x, float* y) {{ y[threadIdx.x] = x[threadIdx.x] + 1; }}
"""
_TRITON = """import triton
import triton.language as tl
@triton.jit
def {name}(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    tmp0 = tl.load(in_ptr0)
    tl.store(out_ptr0, tmp0)
"""


def _module(name: str, function: str, body: str, arguments: str = "buf0, arg0_1, stream=stream0") -> Module:
    return Module(name, f"async_compile.{function}('{name}', r'''", body.format(name=name), f"{name}.run({arguments})")


MODULES: dict[str, Module] = {
    "triton": _module("triton_poi_fused_add_relu_0", "triton", _TRITON.partition("tl\n")[2]),
    "pallas": _module("pallas_fused_add_relu_1a2b3c4d", "pallas", _PALLAS, "buf0, arg0_1"),
    "cutedsl": _module("cutedsl_fused_add_relu_1a2b3c4d", "cutedsl", _CUTE),
    "flydsl": _module("flydsl_fused_add_relu_1a2b3c4d", "flydsl", _FLY),
    "nv_universal_gemm": _module("nv_universal_gemm_fused_add_relu_0", "nv_universal_gemm", _CUTE),
    "cuda": Module("cuda_fused_add_relu_0", "async_compile.cuda(r'''", _CUDA.format(name="cuda_fused_add_relu_0"),
                   "cuda_fused_add_relu_0.cuda_fused_add_relu_0(arg0_1, buf0, None, stream0)", "''', 'so')"),
    "rocm": Module("rocm_fused_add_relu_0", "async_compile.rocm(r'''", _CUDA.format(name="rocm_fused_add_relu_0"),
                   "rocm_fused_add_relu_0.rocm_fused_add_relu_0(arg0_1, buf0, None, stream0)", "''', 'so')"),
    "halide": Module("halide_kernel_0", "async_compile.halide(HalideMeta(argtypes=[], target='host'), '''", _HALIDE,
                     "halide_kernel_0(arg0_1, buf0)"),
    "metal": Module("generated_kernel_0", "async_compile.metal('generated_kernel_0', '''",
                    _METAL.format(kernel="generated_kernel_0"), "generated_kernel_0(buf0, arg0_1, threads=[1024])",
                    "''', ['utils'])"),
    "newdsl": Module("newdsl_0", "compile_newdsl('newdsl_0', '''", "@newdsl\nkernel newdsl_0(x, y)\n",
                     "newdsl_0(arg0_1, buf0)", "''', stages=2)"),
}  # fmt: skip
"""By the language that is shown."""

OLD_METAL = Module("mps_lib_0", 'compile_mps_shader("""', _METAL.format(kernel="generated_kernel"),
                   "mps_lib_0.generated_kernel(buf0, arg0_1, threads=[1024])", '""")')  # fmt: skip

TEXT = """# AOT ID: ['0_inference']
import torch
from torch._inductor.async_compile import AsyncCompile
async_compile = AsyncCompile()


# Topologically Sorted Source Nodes: [relu, add], Original ATen: [aten.relu, aten.add]
# Source node to ATen node mapping:
#   add => add
#   relu => relu
# Graph fragment:
#   %relu : Tensor "f32[1024][1]cpu"[num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%a,), kwargs = {{}})
#   %add : Tensor "f32[1024][1]cpu"[num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%relu, 1), kwargs = {{}})
{name} = {compile}
{body}{close}


class Runner:
    def call(self, args):
        arg0_1, = args
        buf0 = empty_strided((1024, ), (1, ), torch.float32)
        # Topologically Sorted Source Nodes: [relu, add], Original ATen: [aten.relu, aten.add]
        {call}
        return (buf0, )
"""  # noqa: E501


def module(language: str) -> str:
    """Return the module of a language."""
    return written(MODULES[language])


def written(kernel: Module) -> str:
    """Return the module with a kernel."""
    return TEXT.format(**kernel._asdict())
