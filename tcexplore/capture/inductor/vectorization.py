"""Vectorization of C++ loop nests by Inductor, and reasons for scalar ones, from its tiling objects."""

from __future__ import annotations

from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.aten_graphs import compilation
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import LoopVectorized

_FACT = "vectorization of C++ loops"
_CPP = "torch._inductor.codegen.cpp"


class Vectorization:
    """Observer of one loop nest at a time: its nodes, its tiling, and the kernels written for it."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._nodes: tuple[str, ...] = ()
        self._tiling: tuple[Any, Any] | None = None
        """The functions that were tiled, and torch's result."""

    def install(self) -> None:
        """Emit a `LoopVectorized` for each loop nest; the last one counts if torch writes it repeatedly."""
        watch = self._hooks.watch
        watch(_FACT, f"{_CPP}:CppKernelProxy.codegen_nodes", before=self._begins)
        watch(_FACT, f"{_CPP}:TilingSelect.select_tiling", after=self._tiled)
        watch(_FACT, f"{_CPP}:CppKernelProxy.codegen_functions", after=self._written)

    def _begins(self, _: Any, nodes: Any) -> None:
        self._nodes = tuple(node.get_name() for node in nodes)
        self._tiling = None

    def _tiled(self, result: Any, _: Any, functions: Any, *__: Any) -> None:
        self._tiling = functions, result

    def _written(self, _result: None, proxy: Any, *_: Any) -> None:
        from torch._inductor.codegen.cpp import CppTile2DKernel, CppVecKernel
        from torch._inductor.virtualized import V

        isa = proxy.picked_vec_isa
        classes = [type(kernel) for kernel in proxy.kernels]
        tiles = any(issubclass(cls, CppTile2DKernel) for cls in classes)
        vector = any(issubclass(cls, CppVecKernel) for cls in classes)
        graph, phase = compilation(V.graph)
        self._hooks.emit(
            LoopVectorized(
                graph=graph,
                phase=phase,
                nodes=self._nodes,
                form="tiles" if tiles else "vector" if vector else "scalar",
                isa=str(isa) if isa else "",
                width=isa.bit_width() if isa else 0,
                lanes=int(self._tiling[1][0][0]) if vector and self._tiling else 0,
                reason="" if vector else self._scalar_reason(proxy),
            )
        )

    def _scalar_reason(self, proxy: Any) -> str:
        """Return why torch left the loop scalar, empty if its objects do not show it."""
        from torch._inductor import config

        if not proxy.picked_vec_isa:
            simdlen = config.cpp.simdlen
            setting = f" with cpp.simdlen = {simdlen}" if simdlen is not None else ""
            return f"torch picked no vector instructions on this machine{setting}"
        if not proxy.itervars:
            return "no loop: it computes a single element"
        if self._tiling is None:
            return ""
        functions, (_, _, *stats) = self._tiling
        return _dtype_reason(functions) or (_heuristic_reason(stats[0]) if stats else "")


def _dtype_reason(functions: Any) -> str:
    """Name the data types that Inductor cannot vectorize."""
    from torch._inductor.codegen import cpp

    dtypes = cpp._get_dtype_from_loopbodies(cpp._get_loop_body(functions))
    scalar = sorted(str(dtype).removeprefix("torch.") for dtype in dtypes if dtype not in cpp.VECTORIZABLE_DTYPES)
    return f"Inductor has no vectors of {', '.join(scalar)}" if scalar else ""


def _heuristic_reason(stats: Any) -> str:
    """Return which of the two conditions of torch's tiling heuristic rejected the loop."""
    total = sum(stats.op_counter.values())
    strided = stats.non_contig_indexing_op_counter
    count = sum(strided.values())
    if total and count / total >= stats.OVERHEAD_RATIO_THRESHOLD:
        kinds = ", ".join(f"{number} {name}" for name, number in strided.items())
        return f"{count} of its {total} operations access memory non-contiguously ({kinds}): vectors would not pay off"
    return f"its innermost loop is short and has only {total} operations: vectors would not pay off" if total else ""


def install(hooks: Hooks, trace: StructuredTrace, user_files: UserFiles) -> None:  # noqa: ARG001
    """Emit a `LoopVectorized` for each loop nest of each C++ kernel."""
    Vectorization(hooks).install()
