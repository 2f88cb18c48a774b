"""A run for its structure only: code is generated, but neither compiled nor loaded; the graph runs op by op instead.

Generation decides everything that such a run shows, and the C++ compiler takes most of the time of a first compile. If
an op of the graph cannot run by itself, the code is loaded after all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

from tcexplore.capture.hooks import Hooks

FACT = "code that is generated only"

_GENERATE = "torch._inductor.graph:GraphLowering._compile_to_module_lines"
_LOAD = "torch._inductor.codecache:PyCodeCache.load_by_key_path"


class UnloadedCode:
    """Replaces the module that Inductor loads for a graph."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._graphs: list[Any] = []
        """Graphs whose code is being generated, the innermost last."""

    def install(self) -> None:
        """Hook the functions of Inductor; where this torch has others, code is loaded as usual."""
        if self._hooks.wrap(FACT, _GENERATE, self._generate):
            self._hooks.wrap(FACT, _LOAD, self._load)

    def _generate(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def generate(lowering: Any, *args: Any, **kwargs: Any) -> Any:
            self._graphs.append(getattr(lowering, "module", None))
            try:
                return original(lowering, *args, **kwargs)
            finally:
                self._graphs.pop()

        return generate

    def _load(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def load(cls: Any, *args: Any, **kwargs: Any) -> Any:
            graph = self._graphs[-1] if self._graphs else None
            if graph is None:
                return original(cls, *args, **kwargs)
            return _module(graph, lambda: original(cls, *args, **kwargs))

        return load


def _module(graph: Any, load: Callable[[], Any]) -> ModuleType:
    """Return a module whose `call` runs the graph, as the one that Inductor writes."""
    module = ModuleType("tcexplore_unloaded_code")
    loaded: list[Any] = []

    def call(args: list[Any]) -> tuple[Any, ...]:
        if not loaded:
            try:
                return tuple(graph(*args))
            except Exception:  # noqa: BLE001  an op of Inductor that has no form of its own
                loaded.append(load())
        result: tuple[Any, ...] = loaded[0].call(args)
        return result

    module.call = call  # type: ignore[attr-defined]
    # Inductor has it wrap the parts of a graph that it splits for CUDA graphs: this one runs whole.
    module.runner = SimpleNamespace(partitions=[], recursively_apply_fns=lambda _: None)  # type: ignore[attr-defined]
    module.__file__ = ""
    return module
