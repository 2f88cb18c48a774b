"""What torch measured before it chose: configurations of Triton kernels, and algorithms of matrix products."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import torch

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.lowering_graph import compile_id
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Choice, Tuned

FACT = "autotuning"
TUNER = "torch._inductor.runtime.triton_heuristics:CachingAutotuner"
SELECTOR = "torch._inductor.select_algorithm:AlgorithmSelectorCache"

_UNNAMED = "Placeholder."
"""What a template is called while it is only tried: no kernel of the wrapper yet."""


class Autotuning:
    """Emits a `Tuned` whenever torch is done with measuring."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._nodes: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._began: list[float] = []

    def install(self) -> None:
        watch = self._hooks.watch
        watch("choice of algorithms", f"{SELECTOR}.__call__", before=self._asked)
        measured: list[tuple[str, str, Callable[..., None]]] = [
            ("choice of algorithms", f"{SELECTOR}.do_autotuning", self._algorithms)
        ]
        if torch.cuda.is_available():
            measured.append((FACT, f"{TUNER}.benchmark_all_configs", self._configurations))
            measured.append((FACT, f"{TUNER}.coordinate_descent_tuning", self._descended))
        for fact, symbol, after in measured:
            watch(fact, symbol, before=self._begins, after=after, failed=self._failed)

    def _begins(self, *_: Any, **__: Any) -> None:
        """One measuring may lie in another: choosing an algorithm tunes the templates' kernels too."""
        self._began.append(time.perf_counter())

    def _failed(self, *_: Any, **__: Any) -> None:
        self._began.pop()

    def _seconds(self) -> float:
        return time.perf_counter() - self._began.pop()

    def _configurations(self, timings: Mapping[Any, float], tuner: Any, *_: Any, **__: Any) -> None:
        """`timings` has milliseconds by launcher; infinite where a configuration spills and was not tried."""
        seconds = self._seconds()
        if len(timings) > 1:
            measured = {configuration(launcher.config): ms for launcher, ms in timings.items()}
            self._kernel(tuner, "configurations", measured, min(measured, key=measured.__getitem__), seconds)

    def _descended(self, best: Any, tuner: Any, *_: Any, **__: Any) -> None:
        seconds = self._seconds()
        known = getattr(tuner.coordesc_tuner, "cached_benchmark_results", None)
        if known and len(known) > 1:
            taken = _all(best.config)
            measured = {_options(_in_order(dict(options), taken)): ms for options, ms in known.items()}
            self._kernel(tuner, "coordinate descent", measured, _options(taken), seconds)

    def _kernel(self, tuner: Any, what: str, measured: Mapping[str, float], best: str, seconds: float) -> None:
        kernel = str(tuner.inductor_meta.get("kernel_name", ""))
        if not kernel or kernel.startswith(_UNNAMED):
            return
        self._hooks.emit(
            Tuned(
                graph=str(getattr(tuner, "compile_id", None) or compile_id()),
                phase="backward" if getattr(tuner, "is_backward", False) else "forward",
                what=what,
                kernel=kernel,
                choices=_fastest_first(
                    Choice(name=name, kind="configuration", us=microseconds(ms), taken=name == best)
                    for name, ms in measured.items()
                ),
                seconds=seconds,
            )
        )

    def _asked(self, _selector: Any, _name: str, choices: list[Any], *_: Any, **__: Any) -> None:
        """Remember for which node the choice is made: it may be measured when another is lowered already."""
        from torch._inductor.virtualized import V

        node = getattr(V.graph, "current_node", None)
        for choice in choices:
            self._nodes[choice] = str(getattr(node, "name", ""))

    def _algorithms(
        self, timings: Mapping[Any, float], _selector: Any, name: str, input_nodes: list[Any], *_: Any, **__: Any
    ) -> None:
        from torch._inductor.virtualized import V

        seconds = self._seconds()
        if not timings:
            return
        best = min(timings, key=timings.__getitem__)
        self._hooks.emit(
            Tuned(
                graph=compile_id(),
                phase="backward" if getattr(V.graph, "is_backward", False) else "forward",
                what="algorithms",
                op=name,
                node=self._nodes.get(best, ""),
                sizes=tuple(" × ".join(str(size) for size in node.get_size()) for node in input_nodes),
                choices=_fastest_first(
                    Choice(name=_algorithm(choice), kind=_kind(choice), us=microseconds(ms), taken=choice is best)
                    for choice, ms in timings.items()
                ),
                seconds=seconds,
            )
        )


def configuration(config: Any) -> str:
    """`XBLOCK=8, num_warps=2, num_stages=1`."""
    return _options(_all(config))


def _all(config: Any) -> dict[str, Any]:
    return {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}


def _in_order(options: dict[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """The options in the order of another configuration's; torch keeps those that it measured in another."""
    return {**{key: options[key] for key in like if key in options}, **options}


def _options(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in options.items())


def microseconds(ms: float) -> float | None:
    """None for what was not measured, which torch writes as infinitely slow."""
    return ms * 1e3 if math.isfinite(ms) else None


def _fastest_first(choices: Any) -> tuple[Choice, ...]:
    return tuple(sorted(choices, key=lambda choice: math.inf if choice.us is None else choice.us))


def _algorithm(choice: Any) -> str:
    """The choice's name, with what a template was filled in with."""
    described = str(getattr(choice, "description", "") or "")
    return f"{choice.name} {described}".strip()


def _kind(choice: Any) -> str:
    return "extern" if "Extern" in type(choice).__name__ else "template"


def install(hooks: Hooks, _trace: StructuredTrace, _project: UserFiles) -> None:
    """Watch both kinds of measuring."""
    Autotuning(hooks).install()
