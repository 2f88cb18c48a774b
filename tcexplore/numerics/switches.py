"""Why a kernel differs from eager: the settings and ops that give eager's bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from tcexplore.capture.hooks import Hooks
from tcexplore.events import SwitchTried
from tcexplore.numerics.comparison import count_differing
from tcexplore.numerics.eager_kernels import eager_kernels
from tcexplore.numerics.exposed_kernels import compile_kernel, exposable, kernel_graph, run_compiled
from tcexplore.numerics.kernel_replay import Replay
from tcexplore.numerics.replayed_values import LOW, op_name, run_exactly, run_op, widened

CONFIG = "torch._inductor.config"

CASTS = "intermediates rounded as in eager"
CONTRACT = "no fused multiply-add"
UNSAFE = "no unsafe math optimizations"
NUMERICS = "eager's numerics"

_REDUCTIONS = ("sum", "mean", "var_mean", "var", "prod", "cumsum", "cumprod", "amax", "amin", "logsumexp", "index_put",
               "scatter_add", "_softmax", "_log_softmax", "norm", "linalg_vector_norm")  # fmt: skip

_CAST_OPS = ("prims.convert_element_type", "aten._to_copy")


@dataclass(frozen=True, slots=True)
class Switch:
    """One change of a compile."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    """Values in `torch._inductor.config`."""
    ops: tuple[Any, ...] = ()
    """Ops whose kernels are eager's."""

    def joined(self, other: Switch) -> Switch:
        """Return both changes together."""
        name = f"{self.name}; {other.name}"
        return Switch(name, {**self.settings, **other.settings}, tuple(dict.fromkeys((*self.ops, *other.ops))))

    @property
    def setting_texts(self) -> tuple[str, ...]:
        return tuple(f"{CONFIG}.{name}={value!r}" for name, value in self.settings.items())


class LocalDifference:
    """The ops of a kernel whose own result differs from eager's, given the same inputs, in their order."""

    def __init__(self, replay: Replay) -> None:
        nodes = exposable(replay)
        results = run_compiled(compile_kernel(kernel_graph(replay, nodes, wide=True), replay.given, {}), replay.given)
        self.values: dict[Any, torch.Tensor] = dict(zip(nodes, results, strict=True))
        self.nodes = [node for node in nodes if self._differs(node, replay)]

    def _differs(self, node: Any, replay: Replay) -> bool:
        """Return whether the compiled op gives other bits than eager's op on the values that it got."""
        if op_name(node.target) in _CAST_OPS:
            return False
        low = replay.values[node].eager.dtype in LOW
        known: dict[Any, Any] = {}
        for each in node.all_input_nodes:
            value = self.values.get(each, replay.values[each].eager)
            known[each] = widened(value, torch.float32) if low else self._narrowed(value, replay.values[each].eager)
        from torch.fx.node import map_arg

        args, kwargs = map_arg((node.args, node.kwargs), known.__getitem__)
        eager = run_exactly(node.target, args, kwargs, torch.float32) if low else run_op(node.target, args, kwargs)
        return isinstance(eager, torch.Tensor) and count_differing(self.values[node], eager) > 0

    @staticmethod
    def _narrowed(value: Any, like: Any) -> Any:
        """Return an exposed value in the dtype of the program."""
        return value.to(like.dtype) if isinstance(value, torch.Tensor) and isinstance(like, torch.Tensor) else value


def switches(replay: Replay, different: Sequence[Any]) -> Iterator[Switch]:
    """Yield what may explain a difference from eager, what is most common first."""
    import torch._inductor.config as config

    tensors = [value.eager for value in replay.values.values() if isinstance(value.eager, torch.Tensor)]
    low = any(value.dtype in LOW for value in tensors)
    if low and not getattr(config, "emulate_precision_casts", True):
        yield Switch(CASTS, {"emulate_precision_casts": True})
    if getattr(config.cpp, "enable_floating_point_contract_flag", "off") != "off":
        yield Switch(CONTRACT, {"cpp.enable_floating_point_contract_flag": "off"})
    if getattr(config.cpp, "enable_unsafe_math_opt_flag", False):
        yield Switch(UNSAFE, {"cpp.enable_unsafe_math_opt_flag": False})
    ops = list(dict.fromkeys(node.target for node in different))
    if reductions := tuple(op for op in ops if _short(op) in _REDUCTIONS):
        yield Switch(f"eager's order of summation: {', '.join(map(_short, reductions))}", ops=reductions)
    if others := tuple(op for op in ops if _short(op) not in _REDUCTIONS):
        yield Switch(f"eager's functions: {', '.join(map(_short, others))}", ops=others)
    if hasattr(config, "numerics"):
        yield Switch(NUMERICS, {"numerics": "strict"})


def _short(op: Any) -> str:
    return op_name(op).rpartition(".")[2]


def explain(
    hooks: Hooks,
    replay: Replay,
    outputs: Sequence[Any],
    found: Sequence[Switch],
    in_time: Callable[[], bool],
    label: dict[str, Any],
) -> Switch | None:
    """Try the first switch, then add one at a time, until the bits are eager's; return what gives them.

    `label` has the graph, phase and kernel of the events.
    """
    graph, inputs = kernel_graph(replay, outputs), replay.given
    tried: Switch | None = None
    for switch in found:
        if not in_time():
            break
        tried = switch if tried is None else tried.joined(switch)
        differing = _differing(graph, inputs, replay, outputs, tried)
        hooks.emit(
            SwitchTried(
                **label, name=tried.name, settings=tried.setting_texts, ops=tuple(map(str, tried.ops)),
                equal=differing == 0, differing=differing,
            )
        )  # fmt: skip
        if differing == 0:
            return tried
    return None


def _differing(graph: Any, inputs: Sequence[Any], replay: Replay, outputs: Sequence[Any], switch: Switch) -> int:
    with eager_kernels(switch.ops):
        results = run_compiled(compile_kernel(graph, inputs, switch.settings), inputs)
    return sum(
        count_differing(result, replay.values[node].eager) for node, result in zip(outputs, results, strict=True)
    )
