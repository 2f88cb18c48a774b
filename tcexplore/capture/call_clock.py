"""What a call that compiles does beside the spans that torch logs: it runs what was compiled, and Dynamo looks at
frames."""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tcexplore.capture.dynamo.break_costs import unseen
from tcexplore.capture.dynamo.eager_ops import SYMBOL
from tcexplore.capture.hooks import Hooks

FACT = "what a call that compiles does beside compiling"
SPAN, FRAMES, RUNNING = "span", "frames", "running"

_CALLBACK = "torch._dynamo.convert_frame:CatchErrorsWrapper.__call__"
_INDUCTOR = "torch._inductor.output_code:CompiledFxGraph.__call__"
_GRAPH = "__compiled_fn"

Function = Callable[..., Any]


class CallClock:
    """Seconds by kind of work, each without what another kind does inside it.

    A graph that runs for the first time may still compile something, and Dynamo's callback is mostly torch's spans:
    those count as `SPAN`.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._doing: list[str] = []
        self._since = 0.0

    def enter(self, kind: str) -> None:
        """Work of a kind begins."""
        self._count()
        self._doing.append(kind)

    def leave(self, kind: str) -> None:
        """The innermost work of that kind ends, and with it whatever was begun inside."""
        self._count()
        while kind in self._doing and self._doing.pop() != kind:
            pass

    def _count(self) -> None:
        now = time.perf_counter()
        if self._doing:
            self.seconds[self._doing[-1]] += now - self._since
        self._since = now

    def of(self, kind: str, function: Function) -> Function:
        """`function`, whose time counts as work of a kind, and which Dynamo does not look at."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            self.enter(kind)
            try:
                return function(*args, **kwargs)
            finally:
                self.leave(kind)

        return unseen(timed)

    @contextmanager
    def watching(self, hooks: Hooks) -> Iterator[None]:
        """While inside, Dynamo's callback and the graphs that are compiled count; nothing of it stays behind, for it
        would be timed with every later call."""
        own = Hooks(hooks.emit)
        replaced: list[tuple[dict[str, Any], str, Any, Any]] = []

        def installed(_result: Any, output_graph: Any, name: str, value: Any) -> None:
            scope = output_graph.global_scope
            if name.startswith(_GRAPH) and scope.get(name) is value:
                scope[name] = self.of(RUNNING, value)
                replaced.append((scope, name, value, scope[name]))

        own.wrap(FACT, _CALLBACK, functools.partial(self.of, FRAMES))
        own.wrap(FACT, _INDUCTOR, functools.partial(self.of, RUNNING))
        own.watch(FACT, SYMBOL, after=installed)
        try:
            yield
        finally:
            own.remove()
            for scope, name, value, timed in replaced:
                if scope.get(name) is timed:
                    scope[name] = value
