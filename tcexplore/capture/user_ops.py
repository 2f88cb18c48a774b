"""The user's kernels and ops behind an FX node: Triton and Helion kernels, custom ops, extensions in C++ and CUDA."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.node import Node

from tcexplore.events import Location, UserOp, UserOpKind

_TRITON = frozenset({"triton_kernel_wrapper_mutation", "triton_kernel_wrapper_functional"})
_FLEX = frozenset({"flex_attention", "flex_attention_backward"})
_FLEX_GEMM = frozenset({"flex_gemm"})
_HELION = "helion_kernel_wrapper"
_OWN_NAMESPACES = frozenset({
    "aten", "prim", "prims", "inductor", "higher_order", "quantized", "quantized_decomposed", "rngprims", "debugprims",
    "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "c10d", "c10d_functional", "symm_mem", "fsdp",
    "streams", "profiler", "sparse", "mkl", "mkldnn", "mkldnn_prepacked", "onednn", "_quantized", "nestedtensor",
    "bucketing", "compiled_autograd", "flex_lib", "torch_attn", "onnx", "onnx_symbolic", "_inductor_test", "ao",
    "cplib", "debug_mode_ops", "device_mesh", "semi_structured",
})  # fmt: skip
"""Namespaces of torch's own ops."""


LONGEST_SOURCE = 100_000
"""Characters of a file of an extension."""


def user_op(node: Node) -> UserOp | None:
    """Return the user's kernel or op that a node calls, None for torch's own ops."""
    try:
        return _identify(node)
    except Exception:  # noqa: BLE001  torch's tables are private; without them a node has no description
        return None


def _identify(node: Node) -> UserOp | None:
    target: Any = node.target
    if isinstance(target, torch._ops.OpOverload):
        return custom_op(target)
    if not isinstance(target, torch._ops.HigherOrderOperator):
        return None
    name = target.name()
    if name in _TRITON:
        kernel = _kernel_table().get_kernel(node.kwargs["kernel_idx"])
        return _described("Triton kernel", _function(kernel))
    if name in _FLEX:
        return UserOp(kind="FlexAttention", name=name)
    if name in _FLEX_GEMM:
        return UserOp(kind="FlexGEMM", name=name)
    if name.startswith(_HELION):
        return _helion(node)
    kind = type(target)
    return None if _module(kind) == "torch" else _described("higher-order op", kind, name)


def launch_arguments(node: Node) -> dict[str, Any] | None:
    """Return the grid and the arguments of the launch of a Triton kernel, None for other nodes."""
    target: Any = node.target
    if not isinstance(target, torch._ops.HigherOrderOperator) or target.name() not in _TRITON:
        return None
    try:
        grids = node.kwargs["grid"]
        constants = _kernel_table().get_constant_args(node.kwargs["constant_args_idx"])
        return {"grid": grids[0] if len(grids) == 1 else grids, **node.kwargs["kwargs"], **constants}
    except Exception:  # noqa: BLE001  torch's tables are private; without them the node's own arguments are shown
        return None


def triton_kernels(gm: GraphModule) -> list[str]:
    """Return the names of the user's Triton kernels that a graph calls, also through a Triton op."""
    return list(dict.fromkeys(_kernel_names(gm)))


def _kernel_names(gm: GraphModule) -> Iterator[str]:
    for node in gm.graph.nodes:
        called = user_op(node) if node.op == "call_function" else None
        if called is not None and called.kind in ("Triton kernel", "Triton op"):
            yield called.name
    for child in gm.children():
        if isinstance(child, GraphModule):
            yield from _kernel_names(child)


def _kernel_table() -> Any:
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    return kernel_side_table


def _function(kernel: Any) -> Any:
    """Return the Python function of a kernel inside its autotuners and heuristics."""
    while not inspect.isfunction(kernel) and hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel


def has_custom_ops() -> bool:
    """Return whether the program defined a custom op in Python."""
    try:
        from torch._library.custom_ops import OPDEFS
    except ImportError:
        return False
    definitions = [definition for name, definition in list(OPDEFS.items()) if _namespace(name) not in _OWN_NAMESPACES]
    return any(_module(getattr(definition, "_init_fn", None)) != "torch" for definition in definitions)


def _namespace(name: str) -> str:
    return name.partition("::")[0]


def _module(function: Any) -> str:
    """Return the top-level module that defines a function."""
    return str(getattr(function, "__module__", "")).partition(".")[0]


def custom_op(op: torch._ops.OpOverload) -> UserOp | None:
    """Return the description of a custom op, None for torch's own ops."""
    namespace, _, name = op._schema.name.partition("::")
    if namespace in _OWN_NAMESPACES:
        return None
    definition = custom_op_definition(op._schema.name)
    if op._schema.name in _triton_ops():
        # torch wraps the function, and registers the original as the fake implementation.
        return _described("Triton op", definition._abstract_fn, f"{namespace}.{name}")
    function = None if definition is None else definition._init_fn
    if _module(function) == "torch":
        return None
    described = _described("custom op", function, f"{namespace}.{name}")
    library = _extension_of(function) if function is not None else _library_of(namespace, name)
    return described if library is None else _with_sources(described, library)


_WRITTEN = ("cuda.cu", "main.cpp", "sycl.sycl")
"""Files that `torch.utils.cpp_extension.load_inline` writes beside the library."""


def _extension_of(function: Any) -> Path | None:
    """Return the compiled module that a function calls: one of its globals, or of its closure."""
    code = getattr(function, "__code__", None)
    values = [function.__globals__.get(name) for name in code.co_names] if code is not None else []
    for value in (*values, *_closure(function)):
        module = value if isinstance(value, ModuleType) else sys.modules.get(str(getattr(value, "__module__", "")))
        path = Path(str(getattr(module, "__file__", "") or ""))
        if path.suffix in (".so", ".pyd") and any((path.parent / name).is_file() for name in _WRITTEN):
            return path
    return None


def _closure(function: Any) -> Iterator[Any]:
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # an empty cell
            yield cell.cell_contents


def _library_of(namespace: str, name: str) -> Path | None:
    """Return the loaded library whose text registers an op of C++."""
    for path in map(Path, sorted(torch.ops.loaded_libraries)):
        text = "\n".join(_sources(path).values())
        if re.search(rf"TORCH_LIBRARY\w*\s*\(\s*{re.escape(namespace)}\b", text) and name in text:
            return path
    return None


def _sources(library: Path) -> dict[str, str]:
    """Return the texts beside a library by file name."""
    texts = {}
    for name in _WRITTEN:
        with suppress(OSError):
            texts[name] = (library.parent / name).read_text("utf-8", "replace")[:LONGEST_SOURCE]
    return texts


def _with_sources(described: UserOp, library: Path) -> UserOp:
    """Return the op with the texts of its library, behind that of its Python function."""
    texts = _sources(library)
    kind: UserOpKind = "CUDA extension" if "cuda.cu" in texts else "C++ extension"
    parts = [described.source, *(f"// {name}\n{text}" for name, text in texts.items())]
    return replace(described, kind=kind, source="\n\n".join(filter(None, parts)))


def custom_op_definition(name: str) -> Any:
    """Return torch's record of a custom op that is defined in Python (`mylib::op`), None for other ops."""
    try:
        from torch._library.custom_ops import OPDEFS
    except ImportError:
        return None
    return OPDEFS.get(name)


def _triton_ops() -> Any:
    try:
        from torch._library.triton import triton_ops_to_kernels
    except ImportError:
        return ()
    return triton_ops_to_kernels


def _helion(node: Node) -> UserOp:
    """Return a Helion kernel; without Helion's table, its name is unknown."""
    try:
        table = import_module("helion._compiler._dynamo.higher_order_ops").helion_kernel_side_table
        kernel = table.get_kernel(node.kwargs["kernel_idx"])
        return _described("Helion kernel", _function(kernel))
    except Exception:  # noqa: BLE001  Helion's internals change between versions; the kind of the node is known
        return UserOp(kind="Helion kernel", name="helion_kernel")


def _described(kind: UserOpKind, function: Any, name: str = "") -> UserOp:
    name = name or str(getattr(function, "__name__", type(function).__name__))
    try:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function) or ""
    except (OSError, TypeError):  # the function has no file, such as one made by exec
        return UserOp(kind=kind, name=name)
    location = Location(file, first, str(function.__name__))
    return UserOp(kind=kind, name=name, location=location, source=textwrap.dedent("".join(lines)))
