"""Why a kernel differs from eager: the settings and ops that give eager's bits."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx.node import map_arg

from tcexplore.capture.hooks import Hooks
from tcexplore.events import SwitchTried
from tcexplore.numerics.comparison import count_differing
from tcexplore.numerics.eager_kernels import eager_kernels
from tcexplore.numerics.exposed_kernels import ROUNDED, compile_kernel, exposed_values, kernel_graph, run_compiled
from tcexplore.numerics.kernel_replay import Replay
from tcexplore.numerics.replayed_values import LOW, op_name, run_op

CONFIG = "torch._inductor.config"

CASTS = "intermediates rounded as in eager"
CONTRACT = "no fused multiply-add"
FAST = "no fast math"
DIVISION = "quotients rounded as in eager"
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
    """The ops of a kernel whose own result differs from eager's, given the same inputs, in their order.

    Intermediates are rounded as in eager: else each op of a smaller dtype differs.
    """

    def __init__(self, replay: Replay) -> None:
        self.values = exposed_values(replay, rounded=is_low(replay))
        self.nodes = [node for node in self.values if self._differs(node, replay)]

    def _differs(self, node: Any, replay: Replay) -> bool:
        """Return whether the compiled op gives other bits than eager's op on the values that it got."""
        if op_name(node.target) in _CAST_OPS:
            return False

        eager = self._eager(node, replay)
        return isinstance(eager, torch.Tensor) and count_differing(self.values[node], eager) > 0

    def _eager(self, node: Any, replay: Replay) -> Any:
        """Return what eager computes for a node from the values that the compiled op got."""
        if node.target is operator.getitem:
            return self._eager(node.args[0], replay)[node.args[1]]

        def known(each: Any) -> Any:
            return self.values.get(each, replay.values[each].eager)

        args, kwargs = map_arg((node.args, node.kwargs), known)
        return run_op(node.target, args, kwargs)


def is_low(replay: Replay) -> bool:
    """Return whether a kernel has values of float16 or bfloat16."""
    values = (value.eager for value in replay.values.values())
    return any(isinstance(value, torch.Tensor) and value.dtype in LOW for value in values)


def switches(replay: Replay, different: Sequence[Any]) -> Iterator[Switch]:
    """Yield what may explain a difference from eager, what is most common first."""
    import torch._inductor.config as config

    if is_low(replay) and not getattr(config, "emulate_precision_casts", True):
        yield Switch(CASTS, ROUNDED)
    if _on_gpu(replay):
        yield from _triton_switches(replay, different)
    elif getattr(config.cpp, "enable_floating_point_contract_flag", "off") != "off":
        yield Switch(CONTRACT, {"cpp.enable_floating_point_contract_flag": "off"})
    if not _on_gpu(replay) and getattr(config.cpp, "enable_unsafe_math_opt_flag", False):
        yield Switch(UNSAFE, {"cpp.enable_unsafe_math_opt_flag": False})
    ops = list(dict.fromkeys(map(_computed_by, different)))
    if reductions := tuple(op for op in ops if _short(op) in _REDUCTIONS):
        yield Switch(f"eager's order of summation: {', '.join(map(_short, reductions))}", ops=reductions)
    if others := tuple(op for op in ops if _short(op) not in _REDUCTIONS):
        yield Switch(f"eager's functions: {', '.join(map(_short, others))}", ops=others)
    if hasattr(config, "numerics"):
        yield Switch(NUMERICS, {"numerics": "strict"})


def _on_gpu(replay: Replay) -> bool:
    return any(isinstance(value, torch.Tensor) and value.is_cuda for value in replay.given)


def _triton_switches(replay: Replay, different: Sequence[Any]) -> Iterator[Switch]:
    """Yield the settings of Triton's arithmetic."""
    import torch._inductor.config as config

    if getattr(config, "use_fast_math", False):
        yield Switch(FAST, {"use_fast_math": False})
    divides = any(_short(_computed_by(node)) in _DIVISIONS for node in different)
    if divides and hasattr(getattr(config, "eager_numerics", None), "division_rounding"):
        yield Switch(DIVISION, {"eager_numerics.division_rounding": True})
    # The setting also turns off fused multiply-add in Triton.
    if not is_low(replay) and not getattr(config, "emulate_precision_casts", True):
        yield Switch(CONTRACT, ROUNDED)


_DIVISIONS = ("div", "reciprocal", "sigmoid")


def _computed_by(node: Any) -> Any:
    """Return the op of a node; that of one of several results is the op which has them."""
    return node.args[0].target if node.target is operator.getitem else node.target


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
    inputs = replay.given

    def equal(switch: Switch) -> bool:
        graph = kernel_graph(replay, outputs, rounded=ROUNDED.items() <= switch.settings.items())
        with eager_kernels(switch.ops):
            results = run_compiled(compile_kernel(graph, inputs, switch.settings), inputs)
        pairs = zip(outputs, results, strict=True)
        differing = sum(count_differing(result, replay.values[node].eager) for node, result in pairs)
        hooks.emit(
            SwitchTried(
                **label, name=switch.name, settings=switch.setting_texts, ops=tuple(map(str, switch.ops)),
                equal=differing == 0, differing=differing,
            )
        )  # fmt: skip
        return differing == 0

    tried: Switch | None = None
    for number, switch in enumerate(found):
        if not in_time():
            break
        tried = switch if tried is None else tried.joined(switch)
        if equal(tried):
            # What was tried before may not be needed.
            return switch if number and in_time() and equal(switch) else tried
    return None
