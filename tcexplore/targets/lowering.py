"""Lowering of a Dynamo graph and its backward to the code that Inductor generates for a target.

C++ hooks make torch see a CUDA device that is absent.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch._functorch.config as aot_config
import torch._inductor.config as inductor_config
from torch._guards import CompileContext, TracingContext, tracing
from torch._inductor.compile_fx import compile_fx
from torch._inductor.fx_passes import joint_graph, pad_mm
from torch._inductor.ir import IRNode
from torch._inductor.scheduler import BaseSchedulerNode
from torch._subclasses import fake_impls, fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.overrides import resolve_name
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tcexplore.events import Event, TargetLowered, TargetSkipped
from tcexplore.files import cache_folder
from tcexplore.targets.attention import attention_for
from tcexplore.targets.device_emulation import emulate_device, patch_attribute
from tcexplore.targets.device_table import Target
from tcexplore.targets.retarget import DEVICE, make_target_inputs, makes_without_device, move_to_target
from tcexplore.targets.target_tag import lowering_for

Emit = Callable[[Event], None]


def lower_graph(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], target: Target, emit: Emit) -> None:
    """Generate the code of a Dynamo graph for `target`, and of its backward if its inputs require gradients.

    Takes the arguments of a backend and leaves `gm` unchanged. Hooks on Inductor see the code; `emit` gets one
    `TargetLowered`, or a `TargetSkipped` with the op that failed. Needs no device; generated code is not loaded.
    """
    notes = [_MISSING.format(", ".join(target.missing))] if target.missing else []
    graph, began = _compile_id(), time.perf_counter()
    try:
        with lowering_for(target.key) as count, _without_device(target, notes.append):
            try:
                _compile(gm, example_inputs, target, notes.append)
            except Exception as error:
                if not _mixes_devices(error):
                    raise
                notes += _moved(gm)
                _compile(gm, example_inputs, target, notes.append, strings=True)
    except Exception as error:  # noqa: BLE001  any failure of Dynamo, AOTAutograd or Inductor skips this graph only
        emit(TargetSkipped(graph=graph, target=target.key, op=_op(error), reason=_reason(error)))
        return
    emit(TargetLowered(graph=graph, target=target.key, kernels=count(), seconds=time.perf_counter() - began,
                       notes=tuple(dict.fromkeys(notes))))  # fmt: skip


@contextlib.contextmanager
def _without_device(target: Target, note: Callable[[str], None]) -> Iterator[None]:
    """Let torch compile for an absent device while the context is active."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(pretend_cuda_device(target.cudnn))
        stack.enter_context(emulate_device(target))
        stack.enter_context(assume_measurements(note))
        stack.enter_context(inductor_config.patch(_unmeasured(note)))
        stack.enter_context(aot_config.patch(enable_autograd_cache=False, force_non_lazy_backward_lowering=True))
        yield


def _unmeasured(note: Callable[[str], None]) -> dict[str, Any]:
    """Return Inductor options that turn off everything that needs the device: caches, autotuning, CUDA graphs."""
    if inductor_config.max_autotune or inductor_config.max_autotune_gemm:
        note("max-autotune needs the device; this code is generated without it")
    return {
        "fx_graph_cache": False,
        "fx_graph_remote_cache": False,
        "max_autotune": False,
        "max_autotune_gemm": False,
        "max_autotune_pointwise": False,
        "coordinate_descent_tuning": False,
        "triton.cudagraphs": False,
        "compile_threads": 1,
    }


_MISSING = "the device table has no source for: {}; estimates that need them are left out"
_MOVED = "device='cpu' in the graph is replaced by the target, since the program reads x.device.type to create tensors"
_MADE = (
    "{} without a device makes its tensor on the target here; where that meets a tensor of the GPU, the program fails "
    "unless it names the device, as with device=x.device"
)


def _moved(gm: torch.fx.GraphModule) -> list[str]:
    """Return what is assumed of tensors that the program makes."""
    nodes = [node for part in gm.modules() if isinstance(part, torch.fx.GraphModule) for node in part.graph.nodes]
    made = dict.fromkeys(resolve_name(node.target) or str(node) for node in nodes if makes_without_device(node))
    named = any("cpu" in (*node.args, *node.kwargs.values()) for node in nodes)
    return [*([_MADE.format(" and ".join(made))] if made else []), *([_MOVED] if named or not made else [])]


def _mixes_devices(error: BaseException) -> bool:
    """Return whether an op got tensors of two devices: the program may have read the device type as a string."""
    inner = getattr(error, "inner_exception", None) or error
    return "on the same device" in str(inner) or "found two different devices" in str(inner)


def _compile(
    gm: torch.fx.GraphModule,
    inputs: Sequence[Any],
    target: Target,
    note: Callable[[str], None],
    *,
    strings: bool = False,
) -> None:
    """Compile a copy of the graph for the target; `strings` also moves devices that the graph has as strings."""
    shapes = _shape_env(gm, inputs)
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=shapes)
    sdpa = attention_for(target, lambda name: note(f"attention: {name}"))
    with contextlib.ExitStack() as stack:
        stack.enter_context(tracing(TracingContext(mode)))
        if hasattr(shapes, "suppress_guards"):
            # Guards of this lowering must not become guards of the user's graph.
            stack.enter_context(shapes.suppress_guards())
        # Dynamo keeps some functions that call it as one node.
        stack.enter_context(patch_attribute(torch.nn.functional, "scaled_dot_product_attention", sdpa))
        moved = move_to_target(gm, {torch._C._nn.scaled_dot_product_attention: sdpa}, mode, strings=strings)
        compile_fx(moved, make_target_inputs(gm, inputs, mode))


def _shape_env(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> ShapeEnv:
    """Return the shape environment of the graph's symbolic sizes, or a new one."""
    values = [n.meta.get("example_value") for n in gm.graph.find_nodes(op="placeholder")]
    for value in (*values, *inputs):
        mode = getattr(value, "fake_mode", None)
        if mode is not None and mode.shape_env is not None:
            shape_env: ShapeEnv = mode.shape_env
            return shape_env
    return ShapeEnv()


def _compile_id() -> str:
    current = CompileContext.current_compile_id()
    return "" if current is None else str(current)


_KNOWN = (
    (
        "is not comparable",
        "torch cannot simplify an index into a padded or concatenated tensor, and fails on a GPU too",
    ),
)
"""Text in an error, and what it means: faults of torch that have nothing to do with the absence of the device."""

_OPERATOR = re.compile(r"\b(?:aten|prims|torch\.ops)\.[\w.]+|'(?:aten|prims)::[\w.]+'")


def _op(error: BaseException) -> str:
    """Return the op named in the text of an error, if any."""
    match = _OPERATOR.search(str(error))
    return match.group(0).strip("'").replace("::", ".") if match else _op_in_traceback(error)


def _op_in_traceback(error: BaseException) -> str:
    """Return the op that torch worked on: that of the innermost frame with an op, an FX node or a scheduler node."""
    inner = getattr(error, "inner_exception", None) or error
    frames = [frame for frame, _ in traceback.walk_tb(inner.__traceback__)]
    for frame in reversed(frames):
        for name in ("func", "n", "node", "snode", "self"):
            target = _target(frame.f_locals.get(name))
            if isinstance(target, torch._ops.OpOverload):
                return str(target)
    return ""


def _target(value: Any) -> Any:
    """Return an op, the op that an FX node calls, or that of the FX node that an Inductor node was lowered from."""
    if isinstance(value, BaseSchedulerNode):
        value = value.node
    if isinstance(value, IRNode):
        value = value.get_origin_node()
    return value.target if isinstance(value, torch.fx.Node) else value


def _reason(error: BaseException) -> str:
    """Return the error, what is known of it, and the innermost function of Inductor that it comes from."""
    inner = getattr(error, "inner_exception", None) or error
    lines = str(inner).strip().splitlines()
    codes = [frame.f_code for frame, _ in traceback.walk_tb(inner.__traceback__)]
    places = [f"{code.co_name} in {Path(code.co_filename).relative_to(_TORCH.parent)}" for code in codes
              if Path(code.co_filename).is_relative_to(_TORCH / "_inductor")]  # fmt: skip
    place = f" (from {places[-1]})" if places else ""
    meaning = "".join(f"{meaning}: " for text, meaning in _KNOWN if text in str(inner))
    return f"{meaning}{type(inner).__name__}: {lines[0] if lines else ''}{place}"


_TORCH = Path(torch.__file__).parent


# ---- assumptions


Note = Callable[[str], None]


@contextlib.contextmanager
def assume_measurements(note: Note) -> Iterator[None]:
    """Fold constants on the CPU and assume measured results, passing each assumption to `note`."""
    with contextlib.ExitStack() as stack:
        for patch in (_fold_on_cpu(), *_constants_on_cpu(), *_padding(note), *_kernels_without_meta(note)):
            stack.enter_context(patch)
        yield


def _fold_on_cpu() -> Any:
    """Compute constants such as `aten.full(..., device=...)` on the CPU when the joint graph is folded."""
    folder = joint_graph.UniformValueConstantFolder
    name = "_deduce_value" if hasattr(folder, "_deduce_value") else "run_node"
    original = getattr(folder, name)

    def on_cpu(self: Any, node: torch.fx.Node) -> Any:
        args, kwargs = node.args, node.kwargs
        if node.op != "call_function" or not any(
            isinstance(value, torch.device) for value in (*args, *kwargs.values())
        ):
            return original(self, node)
        node.args, node.kwargs = _with_cpu((args, kwargs))
        try:
            return original(self, node)
        finally:
            node.args, node.kwargs = args, kwargs

    return patch_attribute(folder, name, on_cpu)


class _OnCpu(TorchDispatchMode):  # type: ignore[misc]  # torch does not type it
    """Computes on the CPU what is asked of the target."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = _with_cpu((args, kwargs or {}))
        return func(*args, **kwargs)


def _with_cpu(arguments: Any) -> Any:
    """Return arguments of an op with the CPU for every device."""
    return pytree.tree_map_only(torch.device, lambda _: torch.device("cpu"), arguments)


def _constants_on_cpu() -> Iterator[Any]:
    """Keep the values of tensors such as `torch.tensor([], device=…)` on the CPU.

    While AOTAutograd traces, it computes real values of constants with at most one element, without fake tensors.
    """
    original = getattr(proxy_tensor, "unset_fake_temporarily", None)
    if original is None:
        return

    @contextlib.contextmanager
    def unset() -> Iterator[Any]:
        with original() as mode, _OnCpu():
            yield mode

    yield patch_attribute(proxy_tensor, "unset_fake_temporarily", unset)


def _padding(note: Note) -> Iterator[Any]:
    """Assume no padding of matrix products; torch benchmarks it if the shapes do not decide."""

    def unmeasured(key: str) -> bool:
        note(f"torch benchmarks on the device whether to pad this matmul; assumed not: {key[:200]}")
        return False

    if hasattr(pad_mm, "get_cached_should_pad"):
        yield patch_attribute(pad_mm, "get_cached_should_pad", unmeasured)


def _kernels_without_meta(note: Note) -> Iterator[Any]:
    """Run ops without a meta kernel on the CPU, on zeros, to learn the layout of their results."""
    original = getattr(fake_tensor, "run_fallback_kernel", None)
    if original is None:
        return

    def on_cpu(mode: Any, func: Any, flat_args: Any, args_spec: Any, error: Any) -> Any:
        moved = [a for a in flat_args if mode.is_our_fake(a) and a.fake_device.type == DEVICE.type]
        for argument in moved:
            argument.fake_device = torch.device("cpu")
        try:
            result = original(mode, func, flat_args, args_spec, error)
        finally:
            for argument in moved:
                argument.fake_device = DEVICE
        note(f"{func} has no meta kernel; assuming the result layout of the CPU kernel")
        return pytree.tree_map_only(torch.Tensor, lambda out: _on_target(mode, out), result) if moved else result

    yield patch_attribute(fake_tensor, "run_fallback_kernel", on_cpu)
    if hasattr(fake_impls, "run_fallback_kernel"):
        yield patch_attribute(fake_impls, "run_fallback_kernel", on_cpu)


def _on_target(mode: Any, out: torch.Tensor) -> torch.Tensor:
    with mode:
        return torch.empty_strided(out.shape, out.stride(), dtype=out.dtype, device=DEVICE)


SOURCE = Path(__file__).with_name("device.cpp")


class NoCompilerError(RuntimeError):
    """The C++ hooks cannot be built; the message gives the reason and the remedy."""


@contextlib.contextmanager
def pretend_cuda_device(cudnn: int) -> Iterator[None]:
    """Make torch's C++ code report one CUDA device with this cuDNN version (`91900`; 0 for none).

    Only one thread may use this at a time, and it must not touch real CUDA. Raises `NoCompilerError`.
    """
    library = _library()
    library.tcexplore_enter(ctypes.c_long(cudnn))
    try:
        yield
    finally:
        library.tcexplore_leave()


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(_build()))
    library.tcexplore_guard()
    return library


def _build() -> Path:
    key = hashlib.sha256(SOURCE.read_bytes() + repr((torch.__version__, torch.__file__)).encode()).hexdigest()[:16]
    target = cache_folder() / f"device-{key}.so"
    if target.exists():
        return target
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
    if compiler is None:
        raise NoCompilerError("generating code for an absent GPU needs a C++ compiler: install g++ or set CXX")
    root = Path(torch.__file__).parent
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        output = Path(folder) / target.name
        command = [compiler, "-O1", "-fPIC", "-shared", "-std=c++20", f"-I{root / 'include'}", str(SOURCE),
                   "-o", str(output), f"-L{root / 'lib'}", "-lc10", "-ltorch_cpu"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoCompilerError(f"{compiler} failed on {SOURCE.name}: {done.stderr.strip()[:2000]}")
        output.rename(target)
    return target
