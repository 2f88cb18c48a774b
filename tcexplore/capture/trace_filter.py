"""Events of the structured trace to which nobody listens: torch is spared the texts that it would write for them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection
from typing import Any

from tcexplore.capture.hooks import Hooks

FACT = "structured trace"
_NAME = "trace_structured"
_ALWAYS = ("str",)
"""File names, to which others refer by number."""


class Unheard:
    """Passes over events that are not among `heard`, as long as `listener` is the trace's only handler."""

    def __init__(self, listener: logging.Handler, heard: Collection[str]) -> None:
        self._alone = [listener]
        self._heard = heard
        self._trace = logging.getLogger("torch.__trace")

    def install(self, hooks: Hooks) -> None:
        """Replace torch's function wherever a module holds it under its own name."""
        original = getattr(sys.modules.get("torch._logging"), _NAME, None)
        for name, module in list(sys.modules.items()):
            if original is not None and name.startswith("torch.") and vars(module).get(_NAME) is original:
                hooks.wrap(FACT, f"{name}:{_NAME}", self._selecting)

    def _selecting(self, original: Callable[..., None]) -> Callable[..., None]:
        def trace_structured(name: str, *args: Any, **kwargs: Any) -> None:
            if self._trace.handlers != self._alone or self._is_heard(name, *args, **kwargs):
                original(name, *args, **kwargs)

        return trace_structured

    def _is_heard(self, name: str, metadata_fn: Callable[[], Any] = dict, **_: Any) -> bool:
        if name == "artifact":
            name = metadata_fn()["name"]
        return name in _ALWAYS or name in self._heard
