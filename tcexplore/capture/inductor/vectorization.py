"""Whether Inductor wrote vector instructions for a C++ loop nest, and why not, from its tiling's own objects."""

from __future__ import annotations

from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.lowering_graph import compilation
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import LoopVectorized

_FACT = "which C++ loops are vectorized"
_CPP = "torch._inductor.codegen.cpp"


class Vectorizing:
    """Follows one loop nest at a time: its nodes, the tiling chosen for it, the kernels written."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._nodes: tuple[str, ...] = ()
        self._tiling: tuple[Any, Any] | None = None
        """What the tiling was chosen for, and what was chosen."""

    def install(self) -> None:
        """Emit a `LoopVectorized` for each loop nest; of one that is written again the last one counts."""
        watch = self._hooks.watch
        watch(_FACT, f"{_CPP}:CppKernelProxy.codegen_nodes", before=self._begin)
        watch(_FACT, f"{_CPP}:TilingSelect.select_tiling", after=self._tiled)
        watch(_FACT, f"{_CPP}:CppKernelProxy.codegen_functions", after=self._written)

    def _begin(self, _: Any, nodes: Any) -> None:
        self._nodes = tuple(node.get_name() for node in nodes)
        self._tiling = None

    def _tiled(self, result: Any, _: Any, functions: Any, *__: Any) -> None:
        self._tiling = functions, result

    def _written(self, _result: None, proxy: Any, *_: Any) -> None:
        from torch._inductor.codegen.cpp import CppTile2DKernel, CppVecKernel
        from torch._inductor.virtualized import V

        isa = proxy.picked_vec_isa
        kinds = [type(kernel) for kernel in proxy.kernels]
        tiles = any(issubclass(kind, CppTile2DKernel) for kind in kinds)
        vector = any(issubclass(kind, CppVecKernel) for kind in kinds)
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
                reason="" if vector else self._why_not(proxy),
            )
        )

    def _why_not(self, proxy: Any) -> str:
        """The condition that made torch leave the loop scalar; empty where it does not tell."""
        from torch._inductor import config

        if not proxy.picked_vec_isa:
            asked = config.cpp.simdlen
            said = f" with cpp.simdlen = {asked}" if asked is not None else ""
            return f"torch picked no vector instructions on this machine{said}"
        if not proxy.itervars:
            return "there is no loop: it computes a single element"
        if self._tiling is None:
            return ""
        functions, (_, _, *stats) = self._tiling
        return _dtypes(functions) or (_counted(stats[0]) if stats else "")


def _dtypes(functions: Any) -> str:
    """Those that Inductor has no vectors of."""
    from torch._inductor.codegen import cpp

    found = cpp._get_dtype_from_loopbodies(cpp._get_loop_body(functions))
    lacking = sorted(str(dtype).removeprefix("torch.") for dtype in found if dtype not in cpp.VECTORIZABLE_DTYPES)
    return f"Inductor has no vectors of {', '.join(lacking)}" if lacking else ""


def _counted(stats: Any) -> str:
    """What the tiling heuristic counted, where it refused: only it is left, and it refuses for two things."""
    total = sum(stats.op_counter.values())
    strided = stats.non_contig_indexing_op_counter
    apart = sum(strided.values())
    if total and apart / total >= stats.OVERHEAD_RATIO_THRESHOLD:
        kinds = ", ".join(f"{number} {name}" for name, number in strided.items())
        return f"{apart} of its {total} operations do not go through memory in order ({kinds}): vectors would not pay"
    return f"its innermost loop is short and it has {total} operations only: vectors would not pay" if total else ""


def install(hooks: Hooks, trace: StructuredTrace, project: UserFiles) -> None:  # noqa: ARG001
    """Emit a `LoopVectorized` for each loop nest of each C++ kernel."""
    Vectorizing(hooks).install()
