# ruff: noqa: E501
"""Inductor's code for the perceptron: per graph a fused kernel, a GEMM and a wrapper."""

from __future__ import annotations

from tcexplore.events import Kernel, Location, Wrapper
from tests.snapshots.marked import unmark
from tests.snapshots.mlp_graphs import post_grad
from tests.snapshots.mlp_source import at

FUSED = "cpp_fused_gelu_mean_mul_native_layer_norm_0"

_LAYER_NORM_ON = """
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(float* in_out_ptr0,
                       float* in_out_ptr1,
                       const float* in_ptr1,
                       const float* in_ptr2,
                       float* out_ptr1)
{
    #pragma omp parallel num_threads(2)
    {
        int tid = omp_get_thread_num();
        {
            #pragma omp for
            for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(64L); x0+=static_cast<int64_t>(1L))
            {
                {
                    Welford<float> tmp_acc0 = Welford<float>();  //@ var_mean
                    for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(1024L); x1+=static_cast<int64_t>(16L))
                    {
                        auto tmp0 = at::vec::Vectorized<float>::loadu(in_out_ptr1 + static_cast<int64_t>(x1 + 1024L*x0), static_cast<int64_t>(16));  //@ var_mean
                        tmp_acc0_vec = welford_combine(tmp_acc0_vec, tmp0, &wrecps0);  //@ var_mean
                    }
                    out_ptr1[static_cast<int64_t>(x0)] = static_cast<float>(tmp_acc0.m2);  //@ var_mean
                }
                for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(1024L); x1+=static_cast<int64_t>(16L))
                {
                    auto tmp0 = at::vec::Vectorized<float>::loadu(in_out_ptr1 + static_cast<int64_t>(x1 + 1024L*x0), static_cast<int64_t>(16));  //@ sub
                    auto tmp3 = tmp0 - tmp2;  //@ sub
                    auto tmp7 = static_cast<float>(1e-05);  //@ add
                    auto tmp8 = float(tmp6 + tmp7);  //@ add
                    auto tmp9 = 1 / std::sqrt(tmp8);  //@ rsqrt
                    auto tmp10 = at::vec::Vectorized<float>(tmp9);  //@ rsqrt
                    auto tmp11 = tmp3 * tmp10;  //@ mul
                    auto tmp13 = tmp11 * tmp12;  //@ mul_1
                    auto tmp15 = tmp13 + tmp14;  //@ add_1
                    auto tmp17 = at::vec::Vectorized<float>(static_cast<float>(0.5));  //@ mul_2
                    auto tmp18 = tmp15 * tmp17;  //@ mul_2
                    auto tmp21 = tmp15 * tmp20;  //@ mul_3
                    auto tmp22 = tmp21.erf();  //@ erf
                    auto tmp24 = at::vec::Vectorized<float>(static_cast<float>(1.0));  //@ add_2
                    auto tmp25 = tmp22 + tmp24;  //@ add_2
                    auto tmp26 = tmp18 * tmp25;  //@ mul_4
                    auto tmp28 = at::vec::Vectorized<float>(static_cast<float>(1.2));  //@ mul_5
                    auto tmp29 = tmp26 * tmp28;  //@ mul_5
                    tmp29.store(in_out_ptr1 + static_cast<int64_t>(x1 + 1024L*x0));  //@ mul_5
                    tmp_acc1_vec = tmp_acc1_vec + tmp29;  //@ mul_5,mean
                }
            }
        }
    }
    in_out_ptr0[static_cast<int64_t>(0L)] = static_cast<float>(tmp_acc1 / 65536.0);  //@ mean
}
""".lstrip("\n")

_RELU = """
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(float* in_out_ptr0)
{
    #pragma omp parallel for num_threads(2)
    for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(32768L); x0+=static_cast<int64_t>(16L))
    {
        auto tmp0 = at::vec::Vectorized<float>::loadu(in_out_ptr0 + static_cast<int64_t>(x0), static_cast<int64_t>(16));  //@ relu
        auto tmp1 = at::vec::clamp_min(tmp0, decltype(tmp0)(0));  //@ relu
        tmp1.store(in_out_ptr0 + static_cast<int64_t>(x0));  //@ relu
    }
}
""".lstrip("\n")  # fmt: skip

_TRITON_RELU = """
@triton.jit
def triton_poi_fused_relu_0(in_out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 32768
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    x0 = xindex
    tmp0 = tl.load(in_out_ptr0 + (x0), None)  #@ relu
    tmp1 = tl.full([1], 0, tl.int32)  #@ relu
    tmp2 = triton_helpers.maximum(tmp1, tmp0)  #@ relu
    tl.store(in_out_ptr0 + (x0), tmp2, None)  #@ relu
""".lstrip("\n")


def _wrapper(graph: str, calls: str) -> Wrapper:
    source = f"""# AOT ID: ['{graph[0]}_inference']
import torch
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.select_algorithm import extern_kernels

async_compile = AsyncCompile()


class Runner:
    def call(self, args):
{calls}
"""
    return Wrapper(graph=graph, phase="forward", source=source, path=f"/tmp/torchinductor_ada/{graph[0]}.py")


def wrappers() -> tuple[Wrapper, Wrapper]:
    """Return the two wrapper modules."""
    first = f"""        arg0_1, arg1_1, arg2_1, arg3_1, arg4_1 = args
        buf0 = empty_strided_cpu((64, 1024), (1024, 1), torch.float32)
        extern_kernels.addmm(arg1_1, arg2_1, reinterpret_tensor(arg0_1, (512, 1024), (1, 512), 0), alpha=1, beta=1, out=buf0)
        buf5 = buf0; del buf0  # reuse
        {FUSED}(buf7, buf5, arg3_1, arg4_1, buf3)
        return (buf7, buf5, )"""
    second = """        arg0_1, arg1_1, arg2_1 = args
        buf0 = empty_strided_cpu((64, 512), (512, 1), torch.float32)
        extern_kernels.addmm(arg1_1, arg2_1, reinterpret_tensor(arg0_1, (1024, 512), (1, 1024), 0), alpha=1, beta=1, out=buf0)
        buf1 = buf0; del buf0  # reuse
        cpp_fused_relu_0(buf1)
        return (buf1, )"""
    return _wrapper("0/0", first), _wrapper("1/0", second)


def kernels(*, lines: bool = True, triton: bool = False) -> tuple[Kernel, ...]:
    """Return the four kernels in the order of their calls; without `lines`, statements have no origins."""
    first = post_grad()[0]
    places = {node.name: node.location for node in first.nodes if node.location}
    fused, fused_lines = unmark(_LAYER_NORM_ON, places)
    relu, relu_lines = unmark(_TRITON_RELU if triton else _RELU, {"relu": at("self.fc2(h)")})
    inside = [node for node in first.nodes if node.name != "addmm"]
    return (
        _gemm("0/0", at("self.fc1(x)"), flops=2 * 64 * 512 * 1024),
        Kernel(
            graph="0/0", phase="forward", name=FUSED, language="cpp", source=fused, kind="FusedSchedulerNode",
            ops=("aten.native_layer_norm", "aten.gelu", "aten.mul", "aten.mean"),
            nodes=tuple(node.name for node in inside), source_lines=tuple(dict.fromkeys(places[n.name] for n in inside)),
            lines=fused_lines if lines else (), scheduler_nodes=("op1", "op2", "op3", "op4"),
            buffers=("buf1", "buf3", "buf5", "buf7"), bytes_read=270_592, bytes_written=262_404,
        ),
        _gemm("1/0", at("self.fc2(h)"), flops=2 * 64 * 512 * 1024),
        Kernel(
            graph="1/0", phase="forward", name="triton_poi_fused_relu_0" if triton else "cpp_fused_relu_0",
            language="triton" if triton else "cpp", source=relu, kind="SchedulerNode", ops=("aten.relu",),
            nodes=("relu",), source_lines=(at("self.fc2(h)"),), lines=relu_lines if lines else (),
            scheduler_nodes=("op1",), buffers=("buf1",), bytes_read=131_072, bytes_written=131_072,
        ),
    )  # fmt: skip


def _gemm(graph: str, where: Location, flops: int) -> Kernel:
    call = "extern_kernels.addmm(arg1_1, arg2_1, reinterpret_tensor(arg0_1), alpha=1, beta=1, out=buf0)"
    return Kernel(
        graph=graph, phase="forward", name="extern_kernels.addmm", language="extern", source=call,
        kind="ExternKernelSchedulerNode", ops=("aten.addmm",), nodes=("addmm",), source_lines=(where,),
        buffers=("buf0",), bytes_read=2_232_320, bytes_written=262_144, flops=flops,
    )  # fmt: skip
