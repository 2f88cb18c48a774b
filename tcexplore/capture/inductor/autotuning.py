"""torch's benchmarks of candidates: configurations of Triton kernels, and algorithms of matrix products."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.aten_graphs import compile_id
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Autotuned, TuningChoice

_CONFIGURATION_FACT = "autotuning"
_ALGORITHM_FACT = "algorithm selection"
_TUNER = "torch._inductor.runtime.triton_heuristics:CachingAutotuner"
_SELECTOR = "torch._inductor.select_algorithm:AlgorithmSelectorCache"

_UNNAMED = "Placeholder."
"""Prefix of a template's name while it is only benchmarked and not yet a kernel of the wrapper."""


class Autotuning:
    """Observer that emits an `Autotuned` after each benchmark."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._nodes: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        """The node of each candidate algorithm."""
        self._began: list[float] = []

    def install(self) -> None:
        """Watch algorithm selection, and on a GPU the tuning of Triton kernels."""
        watch = self._hooks.watch
        watch(_ALGORITHM_FACT, f"{_SELECTOR}.__call__", before=self._selection_begins)
        benchmarks: list[tuple[str, str, Callable[..., None]]] = [
            (_ALGORITHM_FACT, f"{_SELECTOR}.do_autotuning", self._algorithms)
        ]
        if torch.cuda.is_available():
            benchmarks.append((_CONFIGURATION_FACT, f"{_TUNER}.benchmark_all_configs", self._configurations))
            benchmarks.append((_CONFIGURATION_FACT, f"{_TUNER}.coordinate_descent_tuning", self._coordinate_descent))
        for fact, symbol, after in benchmarks:
            watch(fact, symbol, before=self._begins, after=after, failed=self._failed)

    def _begins(self, *_: Any, **__: Any) -> None:
        """Start a timer; benchmarks nest, because choosing an algorithm also tunes the templates' kernels."""
        self._began.append(time.perf_counter())

    def _failed(self, *_: Any, **__: Any) -> None:
        self._began.pop()

    def _seconds(self) -> float:
        return time.perf_counter() - self._began.pop()

    def _configurations(self, timings: Mapping[Any, float], tuner: Any, *_: Any, **__: Any) -> None:
        """Emit the configurations of a kernel; `timings` maps launchers to milliseconds, infinite for one that spills
        registers and was not run."""
        seconds = self._seconds()
        if len(timings) > 1:
            times = {configuration(launcher.config): ms for launcher, ms in timings.items()}
            self._emit_kernel(tuner, "configurations", times, min(times, key=times.__getitem__), seconds)

    def _coordinate_descent(self, best: Any, tuner: Any, *_: Any, **__: Any) -> None:
        seconds = self._seconds()
        results = getattr(tuner.coordesc_tuner, "cached_benchmark_results", None)
        if results and len(results) > 1:
            chosen = _options(best.config)
            times = {_joined(_in_order(dict(options), chosen)): ms for options, ms in results.items()}
            self._emit_kernel(tuner, "coordinate descent", times, _joined(chosen), seconds)

    def _emit_kernel(
        self,
        tuner: Any,
        method: Literal["configurations", "coordinate descent"],
        times: Mapping[str, float],
        best: str,
        seconds: float,
    ) -> None:
        kernel = str(tuner.inductor_meta.get("kernel_name", ""))
        if not kernel or kernel.startswith(_UNNAMED):
            return
        self._hooks.emit(
            Autotuned(
                graph=str(getattr(tuner, "compile_id", None) or compile_id()),
                phase="backward" if getattr(tuner, "is_backward", False) else "forward",
                method=method,
                kernel=kernel,
                choices=_fastest_first(
                    TuningChoice(name=name, kind="configuration", us=microseconds(ms), chosen=name == best)
                    for name, ms in times.items()
                ),
                seconds=seconds,
            )
        )

    def _selection_begins(self, _selector: Any, _name: str, choices: list[Any], *_: Any, **__: Any) -> None:
        """Record the node of a choice: torch may benchmark it while it lowers a later node."""
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
            Autotuned(
                graph=compile_id(),
                phase="backward" if getattr(V.graph, "is_backward", False) else "forward",
                method="algorithms",
                op=name,
                node=self._nodes.get(best, ""),
                input_sizes=tuple(" × ".join(str(size) for size in node.get_size()) for node in input_nodes),
                choices=_fastest_first(
                    TuningChoice(
                        name=_algorithm(choice), kind=_kind(choice), us=microseconds(ms), chosen=choice is best
                    )
                    for choice, ms in timings.items()
                ),
                seconds=seconds,
            )
        )


def configuration(config: Any) -> str:
    """Return a Triton configuration as text: `XBLOCK=8, num_warps=2, num_stages=1`."""
    return _joined(_options(config))


def _options(config: Any) -> dict[str, Any]:
    return {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}


def _in_order(options: dict[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options in the order of another configuration; torch stores benchmarked ones in another order."""
    return {**{key: options[key] for key in like if key in options}, **options}


def _joined(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in options.items())


def microseconds(ms: float) -> float | None:
    """Convert milliseconds; None for a choice that was not run, which torch records as infinitely slow."""
    return ms * 1e3 if math.isfinite(ms) else None


def _fastest_first(choices: Iterable[TuningChoice]) -> tuple[TuningChoice, ...]:
    return tuple(sorted(choices, key=lambda choice: math.inf if choice.us is None else choice.us))


def _algorithm(choice: Any) -> str:
    """Return the choice's name with the parameters of a template."""
    described = str(getattr(choice, "description", "") or "")
    return f"{choice.name} {described}".strip()


def _kind(choice: Any) -> Literal["extern", "template"]:
    return "extern" if "Extern" in type(choice).__name__ else "template"


def install(hooks: Hooks, _trace: StructuredTrace, _user_files: UserFiles) -> None:
    """Watch both kinds of benchmarks."""
    Autotuning(hooks).install()
